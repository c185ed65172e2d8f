"""A cluster behind proxies: kohort, embedded, or Apache Kafka; a listener and a proxy for each kind of client."""

from __future__ import annotations

import importlib.util
import json
import random
import socket
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import kohort
from faults.injected import HOST, RESOLVER, TOKEN
from faults.proxy import Proxy
from kohort import Admin
from support.security.certificates import Certificates

ROOT: Final = Path(__file__).parents[3]
PARTITIONS: Final = {"in": 4, "out": 3}
INSIDE: Final = "INSIDE"
DOORS: Final = {"plain": "OUT", "named": "NAMED", "tls": "TLS", "oauth": "OAUTH"}
"""Listener of each kind of client."""
OTHER_HOST, DEAD_HOST = "127.0.0.2", "127.0.0.3"
TOKEN_S: Final = 3
"""Lifetime of tokens, and so of login sessions."""
SCALED: Final = {
    "request.timeout.ms": 3000,
    "default.api.timeout.ms": 5000,
    "socket.connection.setup.timeout.ms": 2000,
}
"""Client options instead of 30 s, 60 s and 10 s; backoffs have their defaults."""
SCALED_PRODUCER: Final = {"delivery.timeout.ms": 8000, "max.block.ms": 5000}
"""Producer options instead of 120 s and 60 s."""
BROKER: Final = {
    "group.min.session.timeout.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 500,
}
"""Sessions of 3 s in place of 45 s."""


class Cluster(Protocol):
    """A broker behind proxies."""

    inside: str
    """Address without a proxy."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Ours:
    """An embedded kohort broker on a folder, with the same ports after a restart."""

    def __init__(self, folder: Path, doors: dict[str, Proxy]) -> None:
        ports = free_ports(len(doors) + 1)
        names = [INSIDE, *(DOORS[kind] for kind in doors)]
        for proxy, port in zip(doors.values(), ports[1:], strict=True):
            proxy.target = ("127.0.0.1", port)
        self.inside = f"127.0.0.1:{ports[0]}"
        self._folder = folder
        addresses = [
            ("127.0.0.1", ports[0]),
            *((host_of(kind), proxy.port) for kind, proxy in doors.items()),
        ]
        protocols = dict.fromkeys(names, "PLAINTEXT") | {"TLS": "SSL", "OAUTH": "SASL_PLAINTEXT"}
        self._options: dict[str, Any] = {
            **BROKER,
            "listeners": ",".join(f"{n}://127.0.0.1:{port}" for n, port in zip(names, ports, strict=True)),
            "advertised.listeners": ",".join(
                f"{n}://{h}:{port}" for n, (h, port) in zip(names, addresses, strict=True)
            ),
            "listener.security.protocol.map": ",".join(f"{n}:{protocols[n]}" for n in names),
        }
        if "tls" in doors:
            server = Certificates(folder / "certificates").server
            self._options |= {
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(server.pem),
            }
        if "oauth" in doors:
            self._options |= {
                "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
                "listener.name.oauth.connections.max.reauth.ms": TOKEN_S * 1000,
                "connection.failed.authentication.delay.ms": 0,
            }
        self._broker: kohort.Broker | None = None

    def start(self) -> None:
        self._broker = kohort.Broker(self._options, data_dir=self._folder / "data")
        self._broker.start()

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.stop()
            self._broker = None


class Apache:
    """An Apache Kafka with proxies for plaintext clients."""

    def __init__(self, doors: dict[str, Proxy]) -> None:
        tool = kafka_tool()
        proxied = {DOORS[kind]: f"{host_of(kind)}:{proxy.port}" for kind, proxy in doors.items()}

        class Behind(tool.Kafka):  # type: ignore[misc, name-defined]  # of a module that is loaded
            """A broker that advertises the proxies' addresses."""

            def _properties(self, controller: int) -> dict[str, str]:
                addresses = {**self.addresses, **proxied}
                advertised = ",".join(f"{name}://{address}" for name, address in addresses.items())
                return {**super()._properties(controller), "advertised.listeners": advertised}

        listeners = {DOORS[kind]: "PLAINTEXT" for kind in doors}
        options = {name.replace(".", "_"): str(value) for name, value in BROKER.items()}
        self._kafka = Behind(tool.Security(listeners=listeners), broker_session_timeout_ms="15000", **options)
        self._doors = doors
        self._began = False
        self.inside = ""

    def start(self) -> None:
        if self._began:
            self._kafka._serve()
            return
        self._kafka.__enter__()
        self._began = True
        self.inside = self._kafka.bootstrap
        for kind, proxy in self._doors.items():
            proxy.target = ("127.0.0.1", int(self._kafka.addresses[DOORS[kind]].rpartition(":")[2]))

    def stop(self) -> None:
        self._kafka.__exit__()


class World:
    """A cluster, its proxies, and the options of its clients; a context manager."""

    def __init__(self, folder: Path, kinds: set[str], *, apache: bool = False, seed: int = 0) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._seed = seed
        self._kinds = [kind for kind in DOORS if kind in kinds]
        self._apache = apache
        self.doors: dict[str, Proxy] = {}
        self.other: Proxy | None = None
        """Second proxy, for a changed address of the broker's name."""
        self.dead: Proxy | None = None
        """A silent host at the same port."""

    def __enter__(self) -> World:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _start(self) -> None:
        for number, kind in enumerate(self._kinds):
            self.doors[kind] = self._stack.enter_context(Proxy(self._seed * 10 + number))
        self.cluster: Cluster = Apache(self.doors) if self._apache else Ours(self.folder, self.doors)
        self._stack.callback(self.cluster.stop)
        self.cluster.start()
        if "named" in self.doors:
            named = self.doors["named"]
            self.other = self._stack.enter_context(Proxy(self._seed, OTHER_HOST, named.port))
            self.other.target = named.target
            self.dead = self._stack.enter_context(Proxy(self._seed, DEAD_HOST, named.port))
            self.dead.be_dead()
        self.resolve({"addresses": ["127.0.0.1"]})
        self.give_tokens()
        with Admin(bootstrap_servers=self.cluster.inside) as admin:
            admin.create_topics(PARTITIONS)

    def resolve(self, answer: dict[str, Any]) -> None:
        """Change the result of the injected resolvers."""
        write(self.folder / RESOLVER, answer)

    def give_tokens(self, **answer: Any) -> None:
        """Change the token sources; without arguments they return valid tokens."""
        write(self.folder / TOKEN, answer or {"expires_s": TOKEN_S})

    def door(self, kind: str) -> Proxy:
        return self.doors[kind]

    def address(self, kind: str) -> str:
        """Return the bootstrap address for a kind of client."""
        return f"{host_of(kind)}:{self.doors[kind].port}"

    def options(self, kind: str) -> dict[str, Any]:
        """Return the options for a kind of client, except the address."""
        if kind == "tls":
            authority = self.folder / "certificates" / "ca.pem"
            return {"security.protocol": "SSL", "ssl.ca.location": str(authority)}
        if kind == "oauth":
            return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
        return {}

    def heal(self) -> None:
        """End all faults of networks, names and tokens."""
        for proxy in (*self.doors.values(), *([self.other] if self.other else [])):
            proxy.heal()
        self.resolve({"addresses": ["127.0.0.1"]})
        self.give_tokens()

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def host_of(kind: str) -> str:
    """Return the broker's host name for a kind of client."""
    return HOST if kind == "named" else "127.0.0.1"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file atomically for concurrent readers."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content))
    new.rename(path)


def free_ports(count: int) -> list[int]:
    """Return free ports outside of the system's range for clients.

    A client of a stopped broker could otherwise connect to itself.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(20_000, 32_000), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"fewer than {count} free ports between 20000 and 32000")


def kafka_tool() -> ModuleType:
    """Import tools/kafka/run.py. Raises RuntimeError if Apache Kafka cannot run."""
    spec = importlib.util.spec_from_file_location("kafka_tool", ROOT / "tools" / "kafka" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    if lack := tool.missing():
        raise RuntimeError(lack)
    return tool
