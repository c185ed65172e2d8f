"""Catalogue of faults of the network, the resolver, a token source, a clock or a process, with durations."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from faults.injected import CLOCK
from faults.proxy import TO_BROKER, TO_CLIENT, Proxy
from faults.world import OTHER_HOST, World

Act = Callable[[World, str, Sequence[int]], None]
"""Action on the cluster, the clients' proxy, and their processes."""
OUTAGE_S: Final = 9.0
"""Duration of silence or absence: longer than every scaled timeout."""


@dataclass(frozen=True)
class Fault:
    """One kind of fault."""

    name: str
    what: str
    """Description for users."""
    strike: Act
    lasts_s: float = 0.0
    """Duration; 0: momentary."""
    door: str = "plain"
    heal: Act | None = None
    """Repair in addition to network, names and tokens."""
    waits: bool = False
    """True if no operation can succeed: so clients must use no processor time."""
    tells: bool = False
    """True if clients must report the fault in a log line or an error."""
    stays: bool = False
    """True if clients recover during the fault, which ends after that."""
    twins: bool = False
    """True if each group has a second member without the fault."""
    on_apache: bool = True
    """True if the campaign's Apache Kafka has the fault's listener."""
    closes: bool = True
    """True if clients can be closed during the fault."""


def weather(**changes: Any) -> Act:
    """Return an action that changes the network; open connections stay."""
    return lambda world, door, _: world.door(door).set(**changes)


def cut_and(**changes: Any) -> Act:
    """Return an action that changes the network and closes all connections."""

    def act(world: World, door: str, _: Sequence[int]) -> None:
        world.door(door).set(**changes)
        world.door(door).cut()

    return act


def of_door(method: Callable[[Proxy], None], *, cut: bool = False) -> Act:
    """Return an action that calls a method of the proxy."""

    def act(world: World, door: str, _: Sequence[int]) -> None:
        method(world.door(door))
        if cut:
            world.door(door).cut()

    return act


def flap(world: World, door: str, _: Sequence[int]) -> None:
    world.door(door).set(cut_after=(200, 2000))
    world.door(door).cut()


def stop_broker(world: World, door: str, _: Sequence[int]) -> None:  # noqa: ARG001
    world.cluster.stop()


def start_broker(world: World, door: str, _: Sequence[int]) -> None:  # noqa: ARG001
    world.cluster.start()


def suspend(_world: World, _door: str, clients: Sequence[int]) -> None:
    for pid in clients:
        os.kill(pid, signal.SIGSTOP)


def resume(_world: World, _door: str, clients: Sequence[int]) -> None:
    for pid in clients:
        os.kill(pid, signal.SIGCONT)


def clocks(wall_s: float, monotonic_s: float) -> Act:
    """Return an action that moves the clients' clocks."""

    def act(world: World, _door: str, clients: Sequence[int]) -> None:
        Path(world.folder / CLOCK).write_text(json.dumps({"wall_s": wall_s, "monotonic_s": monotonic_s}))
        for pid in clients:
            os.kill(pid, signal.SIGUSR1)

    return act


def names(**answer: Any) -> Act:
    """Return an action that changes name resolution, and closes all connections."""

    def act(world: World, door: str, _: Sequence[int]) -> None:
        world.resolve(answer)
        world.door(door).cut()

    return act


def move(world: World, door: str, _: Sequence[int]) -> None:
    world.resolve({"addresses": [OTHER_HOST]})
    world.door(door).close_door()
    world.door(door).cut()


def tokens(**answer: Any) -> Act:
    """Return an action that changes the token source, and closes all connections: an open session needs no token
    until its renewal.
    """

    def act(world: World, door: str, _: Sequence[int]) -> None:
        world.give_tokens(**answer)
        world.door(door).cut()

    return act


BOTH: Final = {TO_BROKER, TO_CLIENT}
HTTP: Final = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
RESOLVES = {"addresses": ["127.0.0.1"]}

FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault("cut", "every connection is reset", of_door(Proxy.cut)),
        Fault("half-closed", "the broker half-closes every connection", of_door(Proxy.half_close)),
        Fault("flapping", "each connection is reset after 200 to 2,000 bytes, within a response", flap, 6),
        Fault(
            "silent", "open and new connections stay open, but pass no bytes",
            weather(silent=BOTH), OUTAGE_S, waits=True, tells=True,
        ),
        Fault(
            "deaf", "connections stay open, but requests are lost",
            weather(silent={TO_BROKER}), OUTAGE_S, waits=True, tells=True,
        ),
        Fault(
            "refused", "connections are reset, new ones rejected",
            of_door(Proxy.close_door, cut=True), OUTAGE_S, waits=True, tells=True,
        ),
        Fault(
            "dead-host", "connections are reset, new ones get no answer",
            of_door(Proxy.be_dead, cut=True), OUTAGE_S, waits=True, tells=True,
        ),
        Fault(
            "accepted-late", "connections are reset, new ones served 1.5 s late",
            cut_and(accept_after_s=1.5), stays=True,
        ),
        Fault("reordered", "connections are reset, new ones served in reverse", cut_and(backwards_s=0.5), stays=True),
        Fault("delayed", "all bytes arrive 0.3 s late", weather(delay_s=0.3), stays=True),
        Fault("split", "bytes arrive in pieces of up to 7", weather(piece_bytes=7), stays=True),
        Fault("garbled", "bits flip in lengths and correlation ids of responses", weather(garbled_heads=True), 6),
        Fault("http", "a gateway answers with HTTP for the broker", cut_and(injected=HTTP), OUTAGE_S, tells=True),
        Fault(
            "broker-gone", "the broker stops and restarts on its data",
            stop_broker, OUTAGE_S, heal=start_broker, waits=True, tells=True, on_apache=False,
        ),
        Fault(
            "suspended", "SIGSTOP for two sessions, then SIGCONT; a second member of each group takes over meanwhile",
            suspend, 6, heal=resume, twins=True, closes=False,
        ),
        Fault("wall-back", "the wall clock is set back by an hour", clocks(-3600, 0), heal=clocks(0, 0)),
        Fault(
            "wall-ahead-and-back", "the wall clock is half an hour ahead for a while, then corrected",
            clocks(1800, 0), 3, heal=clocks(0, 0),
        ),
        Fault("slept", "both clocks advance by ten minutes, as after a laptop's sleep", clocks(600, 600)),
        Fault(
            "name-moves", "the broker's name has a new address; the old one rejects connections",
            move, door="named", stays=True,
        ),
        Fault(
            "name-fails", "the name cannot be resolved",
            names(fails="Temporary failure in name resolution"), OUTAGE_S, door="named", waits=True, tells=True,
        ),
        Fault(
            "name-hangs", "name resolution takes 4 s, twice the connection timeout",
            names(hangs_s=4, **RESOLVES), OUTAGE_S, door="named", waits=True, tells=True,
        ),
        Fault(
            "dead-address-first", "the name has two addresses, and the first does not answer",
            names(addresses=["127.0.0.3", "127.0.0.1"]), door="named", stays=True,
        ),
        Fault(
            "tls-cut", "connections are reset during the handshake",
            cut_and(cut_after=(1, 1500)), 6, door="tls", on_apache=False,
        ),
        Fault("tls-garbled", "bits flip in TLS records", weather(garbled=True), 6, door="tls", on_apache=False),
        Fault("tls-injected", "HTTP bytes appear within TLS", cut_and(injected=HTTP), 6, door="tls", on_apache=False),
        Fault(
            "tls-silent", "open and new connections stay open, but pass no bytes",
            weather(silent=BOTH), OUTAGE_S, door="tls", waits=True, tells=True, on_apache=False,
        ),
        Fault(
            "token-expired", "all tokens are expired",
            tokens(expires_s=-3600), OUTAGE_S, door="oauth", waits=True, tells=True, on_apache=False,
        ),
        Fault(
            "token-source-fails", "the token source raises an error",
            tokens(raises="the identity provider is down"), OUTAGE_S,
            door="oauth", waits=True, tells=True, on_apache=False,
        ),
        Fault(
            "token-source-hangs", "a token takes 4 s, twice the connection timeout",
            tokens(hangs_s=4, expires_s=3), OUTAGE_S,
            door="oauth", waits=True, on_apache=False,
        ),
    )
}  # fmt: skip
"""Faults by name, in the order of a campaign."""
