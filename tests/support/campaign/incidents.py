"""Incidents: one fault of a group at a time, with each Python library and its default options.

Each incident runs once for each library. On a kohort broker its rebalances are read from the broker's journal and from
the journal file of ``kohort watch``; on Apache Kafka from that file alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from kohort import Admin, ConfigResource, Consumer, Producer
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.patterns import find_patterns
from kohort.watch.journal_source import JournalAccess, open_journal
from support.campaign.brokers import CampaignBroker, kohort
from support.campaign.incident_member import LIBRARIES
from support.campaign.right_causes import APACHE, OURS

PROGRAM: Final = Path(__file__).with_name("incident_member.py")
PARTITIONS: Final = 4
SETTLE_S: Final = 120.0
SESSION: Final = {"session": 10_000, "commit": 1_000}
POLL_MS: Final = 24_000
JOURNAL: Final = "journal"
WATCHER: Final = "watcher"
APACHE_WATCHER: Final = "watcher on Apache Kafka"
VIEWS: Final = {OURS: (JOURNAL, WATCHER), APACHE: (APACHE_WATCHER,)}
SURE: Final = ("proof", "high")
CLASSIC: Final = tuple(name for name in LIBRARIES if not name.endswith("consumer"))
KEEPS_STATIC: Final = ("kohort", "confluent", "aiokafka", "kafka-python")
LEFT_OUT: Final = (
    "NEW_MEMBER",
    "CLIENT_RESET",
    "GROUP_FORMING",
    "COOPERATIVE_FOLLOWUP",
    "ZOMBIE_COMMIT",
    "LEADER_REJOIN",
    "UNEXPLAINED",
    "CONFIG_CHANGED",
)
"""Causes of what precedes or follows an incident (joins, returns, follow-ups), and those that name none."""


class IncidentRow(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an incident with one library, from one point of view."""

    incident: str
    library: str
    view: str
    verdict: str
    """``right``; ``unsure``: a broader cause, or two causes; ``missed``: no cause; ``wrong``."""
    found: tuple[str, ...]
    """Causes, patterns or states with their confidence; those of joins and returns are left out."""
    sentence: str = ""
    """Sentence of the wrong or missing cause."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Fault of a group: its provocation and its right causes.

    ``right``: causes, by point of view; ``broader``: causes that are right with medium or low confidence only;
    ``beside``: further causes that the incident also has.
    """

    name: str
    play: Callable[[Scene], None]
    right: dict[str, tuple[str, ...]]
    broader: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    libraries: tuple[str, ...] = LIBRARIES


class Scene:
    """One group of an incident: its topic, its members, and the time from which causes count."""

    def __init__(self, incident: str, library: str, bootstrap: str, admin: Admin) -> None:
        self.library, self.bootstrap, self.admin = library, bootstrap, admin
        self.group = f"{incident}-{library}".replace(",", "").replace(" ", "-")
        self.topic = self.group
        self.members: dict[str, subprocess.Popen[str]] = {}
        self.old: list[subprocess.Popen[str]] = []
        self.from_ms = 0
        self.states: list[tuple[str, str]] = []
        self.rules: list[str] = []
        admin.create_topics({self.topic: PARTITIONS})

    def join(self, client: str, **options: Any) -> None:
        """Start a member, and wait until the group is stable with it."""
        self.start(client, **options)
        self.settle()

    def start(self, client: str, **options: Any) -> None:
        if not self.members and "session" in options and self.library.endswith("consumer"):
            session = {"consumer.session.timeout.ms": str(options["session"])}
            self.admin.alter_configs({ConfigResource("group", self.group): session}).check()
        line = [sys.executable, str(PROGRAM), self.library, self.bootstrap, self.group, self.topic, client]
        process = subprocess.Popen(
            [*line, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        if client in self.members:
            self.old.append(self.members[client])
        self.members[client] = process

    def stall(self, client: str, seconds: float) -> None:
        stdin = self.members[client].stdin
        assert stdin is not None
        stdin.write(f"{seconds}\n")
        stdin.flush()

    def end(self, client: str, how: int = signal.SIGTERM) -> None:
        """Send a signal to a member, and wait for the end of its process."""
        process = self.members.pop(client)
        process.send_signal(how)
        process.wait(60)

    def begin(self) -> None:
        """Count causes from now on."""
        self.from_ms = time.time_ns() // 1_000_000

    def settle(self, without: Sequence[str] = ()) -> None:
        """Wait until the group is stable with the running members."""
        wanted = sorted(set(self.members) - {*without})
        ends, calm = time.monotonic() + SETTLE_S, 0
        while calm < 3:
            about = self.admin.describe_groups([self.group])
            found = None if self.group in about.errors else about[self.group]
            there = [] if found is None else sorted(m.client_id for m in found.members)
            is_calm = found is not None and found.state in ("Stable", "Empty") and there == wanted
            calm = calm + 1 if is_calm else 0
            if time.monotonic() > ends:
                raise TimeoutError(f"{self.group} has {there}, not {wanted}")
            time.sleep(0.5)

    def look(self, for_s: int = 20) -> None:
        """Note the states of members and the rules of doctor, as ``group describe`` and ``doctor`` report them."""
        where = ("--bootstrap", self.bootstrap, "--watch-for", f"{for_s}s", "--output", "json")
        told = _json(kohort("group", "describe", self.group, *where))
        self.states += [(one["state"], one["confidence"]) for one in told["status"]["members"]]
        self.rules += [one["rule"] for one in _json(kohort("doctor", self.group, *where))["findings"]]

    def close(self) -> None:
        for process in [*self.members.values(), *self.old]:
            process.kill()
            process.wait(30)


def _json(command: Sequence[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# The incidents


def over_poll(scene: Scene) -> None:
    for client in ("a", "b"):
        scene.join(client, **SESSION, poll=POLL_MS)
    time.sleep(8)
    scene.begin()
    scene.stall("b", POLL_MS / 1000 + 20)
    time.sleep(POLL_MS / 1000 + 26)
    scene.settle()


def over_poll_at_once(scene: Scene) -> None:
    scene.join("a", **SESSION, poll=POLL_MS)
    time.sleep(4)
    scene.begin()
    scene.join("b", **SESSION, poll=POLL_MS, stall=POLL_MS / 1000 + 20)
    time.sleep(POLL_MS / 1000 + 26)
    scene.settle()


def frozen_near_poll(scene: Scene) -> None:
    for client in ("a", "b"):
        scene.join(client, **SESSION, poll=13_000)
    time.sleep(8)
    scene.begin()
    os.kill(scene.members["b"].pid, signal.SIGSTOP)
    scene.settle(without=["b"])
    os.kill(scene.members["b"].pid, signal.SIGCONT)
    scene.settle()


def killed_with_defaults(scene: Scene) -> None:
    for client in ("a", "b"):
        scene.join(client)
    time.sleep(8)
    scene.begin()
    scene.end("b", signal.SIGKILL)
    scene.settle()


def deploy(scene: Scene) -> None:
    scene.begin()
    for client in ("app-1", "app-2", "app-3"):
        scene.join(client, **SESSION)
    for client in list(scene.members):
        scene.end(client)
        scene.settle()
        scene.join(client, **SESSION)


def static_deploy(scene: Scene) -> None:
    options = {"session": 45_000, "commit": 1_000}
    for client in ("app-1", "app-2", "app-3"):
        scene.join(client, **options, instance=f"{scene.group}-{client}")
    scene.begin()
    for client in list(scene.members):
        scene.end(client)
        scene.start(client, **options, instance=f"{scene.group}-{client}")
        time.sleep(4)
        scene.settle()


def duplicate(scene: Scene) -> None:
    scene.join("a", **SESSION, instance="pay-0")
    scene.begin()
    scene.start("b", **SESSION, instance="pay-0")
    time.sleep(12)
    scene.look()


def refused_assignor(scene: Scene) -> None:
    offered = {"kohort": "sticky", "confluent": "cooperative-sticky"}.get(scene.library, "other")
    scene.join("a", **SESSION)
    scene.begin()
    scene.start("b", **SESSION, assignor=offered)
    time.sleep(8)


def slow_on_backlog(scene: Scene) -> None:
    """A slow member gets a hot partition with a backlog, and partitions with few records."""
    with Producer(bootstrap_servers=scene.bootstrap) as producer:
        for _ in range(3_000):
            producer.send(scene.topic, b"x", partition=0)
    scene.join("a", **SESSION, poll=120_000, work=15)
    time.sleep(6)
    scene.look()


def broker_restart(scene: Scene) -> None:
    for client in ("a", "b"):
        scene.join(client)
    scene.begin()


MISSED_POLL: Final = ("MAX_POLL_EXCEEDED",)
EXPIRED: Final = {
    JOURNAL: ("SESSION_TIMEOUT.frozen", "SESSION_TIMEOUT.unreachable", "SESSION_TIMEOUT.starved"),
    WATCHER: ("SESSION_TIMEOUT",),
}
INCIDENTS: Final = (
    Incident(
        "over max.poll", over_poll, {JOURNAL: MISSED_POLL, WATCHER: MISSED_POLL},
        {WATCHER: ("MEMBER_LEFT", "MEMBER_DEPARTED", "SESSION_TIMEOUT")},
    ),
    Incident(
        "over max.poll in the first batch", over_poll_at_once, {JOURNAL: MISSED_POLL, WATCHER: MISSED_POLL},
        {WATCHER: ("MEMBER_LEFT", "MEMBER_DEPARTED", "SESSION_TIMEOUT")},
    ),
    Incident(
        "session near max.poll", frozen_near_poll, EXPIRED,
        {JOURNAL: ("SESSION_TIMEOUT",), WATCHER: ("MAX_POLL_EXCEEDED", "MEMBER_DEPARTED")},
    ),
    Incident(
        "killed, default options", killed_with_defaults,
        {JOURNAL: ("SESSION_TIMEOUT.process_died",), WATCHER: ("SESSION_TIMEOUT",)},
        {WATCHER: ("MEMBER_DEPARTED", "MAX_POLL_EXCEEDED")},
    ),
    Incident(
        "deploy by SIGTERM", deploy, {JOURNAL: ("ROLLING_DEPLOY",), WATCHER: ("ROLLING_DEPLOY",)},
        beside=("MEMBER_LEFT", "REBALANCE_STORM"),
    ),
    Incident(
        "deploy by SIGTERM, static members", static_deploy,
        {JOURNAL: ("STATIC_RESTART",), WATCHER: ("STATIC_RESTART",)}, libraries=KEEPS_STATIC,
    ),
    Incident(
        "duplicate group.instance.id", duplicate, {JOURNAL: ("STATIC_DUPLICATE",), WATCHER: ("STATIC_DUPLICATE",)},
        {JOURNAL: ("STATIC_RESTART",), WATCHER: ("STATIC_RESTART",)}, beside=("duplicate",),
    ),
    Incident(
        "refused assignor", refused_assignor, {JOURNAL: ("INCOMPATIBLE_ASSIGNORS",), WATCHER: ()}, libraries=CLASSIC,
    ),
    Incident(
        "slow on a backlog, hot partition", slow_on_backlog, {JOURNAL: ("slow", "ok"), WATCHER: ("slow", "ok")},
        {JOURNAL: ("stuck", "stalled"), WATCHER: ("stuck",)}, beside=("slow", "skew", "hot"),
    ),
)  # fmt: skip
RESTART: Final = Incident(
    "broker restart", broker_restart, {JOURNAL: ("COORDINATOR_FAILOVER",), WATCHER: ("COORDINATOR_FAILOVER",)},
    {WATCHER: ("SESSION_TIMEOUT", "MEMBER_DEPARTED")},
)  # fmt: skip
ALL_INCIDENTS: Final = (*INCIDENTS, RESTART)


# Judgment


class Observed(Protocol):
    """Library of an incident's members, time from which causes count, states of members, and rules of ``doctor``."""

    library: str
    from_ms: int
    states: list[tuple[str, str]]
    rules: list[str]


def _view_of_truth(view: str) -> str:
    """Return the view whose right causes hold: a watcher sees the same of each broker."""
    return WATCHER if view == APACHE_WATCHER else view


def judge(incident: Incident, scene: Observed, view: str, told: dict[str, Any]) -> IncidentRow:
    """Compare the reported causes, patterns and states of an incident with the right ones."""
    incident_view = _view_of_truth(view)
    reported = [(one["cause"], one["confidence"], one["sentence"], one.get("also", ())) for one in told["rebalances"]
                if one["opened_at_ms"] >= scene.from_ms and one["cause"] not in LEFT_OUT]  # fmt: skip
    reported += [(one["pattern"], one["confidence"], one["sentence"], ()) for one in told.get("patterns", ())]
    # ``doctor`` read the broker's journal
    rules = [(name, "") for name in scene.rules] if view == JOURNAL else []
    shown = [one for one in [*scene.states, *rules] if one[0] != "ok" or "ok" in incident.right[incident_view]]
    reported += [(name, sure, "", ()) for name, sure in shown]
    right, broader = incident.right[incident_view], incident.broader.get(incident_view, ())
    found = tuple(sorted({f"{name} ({sure})" if sure else name for name, sure, _, _ in reported}))
    wrong = [one for one in reported if not _is_allowed(incident, incident_view, one)]
    if wrong:
        return _row(incident, scene, view, "wrong", found, wrong[0][2])
    if any(name in right for name, *_ in reported) or not right:
        return _row(incident, scene, view, "right", found)
    if any(name in broader or {*also} & {*right} for name, _, _, also in reported):
        return _row(incident, scene, view, "unsure", found)
    is_quiet = incident is RESTART and not reported  # no member was lost
    return _row(incident, scene, view, "right" if is_quiet else "missed", found)


def _is_allowed(incident: Incident, view: str, one: tuple[str, str, str, Sequence[str]]) -> bool:
    name, sure, _, also = one
    if name in incident.right[view] or name in incident.beside or {*also} & {*incident.right[view]}:
        return True
    return name in incident.broader.get(view, ()) and sure not in SURE


def _row(
    incident: Incident, scene: Observed, view: str, verdict: str, found: tuple[str, ...], sentence: str = ""
) -> IncidentRow:
    return IncidentRow(
        incident=incident.name, library=scene.library, view=view, verdict=verdict, found=found, sentence=sentence
    )


# The run


@contextmanager
def watching(bootstrap: str, store: Path) -> Iterator[None]:
    """Run ``kohort watch`` with a journal file of its own."""
    command = kohort("watch", "--bootstrap", bootstrap, "--interval", "0.5", "--store", str(store))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


class Records:
    """Producer of a few records per second to each partition of all topics."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self._bootstrap, self._topics = bootstrap, topics
        self._ended = False
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Records:
        self._writing = self._pool.submit(self._write)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._pool.shutdown()

    def _write(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._ended:
                for topic in self._topics:
                    for partition in range(PARTITIONS):
                        producer.send(topic, b"x", partition=partition)
                time.sleep(0.3)


def run_incident(
    incident: Incident, broker: CampaignBroker, store: Path, libraries: Sequence[str] = LIBRARIES
) -> list[IncidentRow]:
    """Provoke an incident with each library at once; return the verdicts for each view of the broker."""
    with ExitStack() as stack:
        scenes = []
        for library in (name for name in incident.libraries if name in libraries):
            admin = stack.enter_context(Admin(bootstrap_servers=broker.bootstrap))
            scenes.append(Scene(incident.name, library, broker.bootstrap, admin))
            stack.callback(scenes[-1].close)
        stack.enter_context(Records(broker.bootstrap, [scene.topic for scene in scenes]))
        pool = stack.enter_context(ThreadPoolExecutor(len(scenes)))
        flaws = list(pool.map(lambda scene: _play(incident, scene), scenes))
        if incident is RESTART:
            time.sleep(8)
            broker.restart(kill=True)
            time.sleep(70)
        time.sleep(3)
        return [
            row
            for scene, flaw in zip(scenes, flaws, strict=True)
            for row in _rows(incident, scene, broker, store, flaw)
        ]


def _play(incident: Incident, scene: Scene) -> str | None:
    try:
        incident.play(scene)
    except TimeoutError as error:
        return str(error)
    return None


def _rows(
    incident: Incident, scene: Scene, broker: CampaignBroker, store: Path, flaw: str | None
) -> Iterator[IncidentRow]:
    for view in VIEWS[broker.name]:
        if flaw is None:
            where = None if view == JOURNAL else store
            yield judge(incident, scene, view, why(broker.bootstrap, scene.group, where))
        else:
            yield _row(incident, scene, view, "unsettled", (), flaw)


def why(bootstrap: str, group: str, store: Path | None) -> dict[str, Any]:
    """Return the report of ``kohort group why --last 0 --output json``, without a new process."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        access = JournalAccess(
            lambda options: Consumer({"bootstrap.servers": bootstrap, **options}), admin, os.environ, store
        )
        source = open_journal(access, group)
        assert source is not None
        try:
            found = find_rebalances(source.read())
        finally:
            source.close()
    told = {"rebalances": found, "patterns": find_patterns(found, time.time_ns() // 1_000_000)}
    return msgspec.to_builtins(told)
