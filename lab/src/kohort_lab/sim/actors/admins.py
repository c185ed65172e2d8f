"""Administrator actor: adds partitions, describes groups, lists offsets, removes members and forges requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.client.admin.groups import describe_groups, list_group_offsets, list_groups
from kohort.client.admin.operations import AdminMachine, Operation
from kohort.client.admin.topics import create_partitions, describe_topics
from kohort.client.requests.engine import Engine
from kohort.client.requests.io import Tick
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import Promise
from kohort.config.client import AdminConfig
from kohort.errors import KohortError
from kohort.model import TopicPartition
from kohort_lab.sim.actors.clients import EngineActor
from kohort_lab.sim.actors.forged_requests import ClaimedMember, commit_as, heartbeat_as, remove_member
from kohort_lab.sim.checks.watcher import WatchedConsumer
from kohort_lab.sim.run_context import RunContext

PARTITIONS_MAX: Final = 8
TIMEOUT_MS: Final = 20_000

Make = Callable[[Metadata], Operation[Any]]


class AdminActor(EngineActor):
    """Administrator that runs one operation at a time and accepts any result."""

    def __init__(self, context: RunContext, config: AdminConfig, group_id: str, *, widens: bool) -> None:
        super().__init__("admin", context)
        self._widens = widens
        self._config = config
        self._group_id = group_id
        self._begin()
        self._running: list[tuple[str, Promise[Any]]] = []

    def _begin(self) -> None:
        self._metadata = Metadata(self._config, self.rng, allow_auto_create=False)
        self._machine = AdminMachine(self._config, self._metadata, self.rng)

    def start(self) -> None:
        if not self.alive:
            self._begin()
            self.run_engine(Engine(self._config, [self._machine], self._metadata, self.rng))

    def do(self, name: str, make: Make) -> Promise[Any]:
        """Start an operation and return the promise of its result."""
        self.start()
        self.history.add(self.name, name)
        promise: Promise[Any] = self._machine.start(name, make(self._metadata), TIMEOUT_MS, self.world.now_ms)
        self._running.append((name, promise))
        self.step(Tick())
        return promise

    def act(self, topics: dict[str, int]) -> None:
        """Run a random operation; ``topics``: current partitions by topic."""
        self.start()
        topic = self.rng.choice(sorted(topics))
        total = min(topics[topic] + self.rng.randint(1, 2), PARTITIONS_MAX)
        total = total if self._widens else topics[topic]
        choices: list[tuple[str, Make]] = [
            (
                f"widens {topic} to {total}",
                lambda m: create_partitions(m, {topic: total}, validate_only=False, timeout_ms=5_000),
            ),
            (f"describes {self._group_id}", lambda m: describe_groups(m, [self._group_id])),
            (f"asks for offsets of {self._group_id}", lambda m: list_group_offsets(m, self._group_id, None)),
            ("lists groups", lambda m: list_groups(m, states=[], types=[])),
            (f"describes {topic}", lambda m: describe_topics(m, [topic])),
        ]
        self.do(*self.rng.choice(choices))

    def pretend(self, victim: WatchedConsumer, topic: str) -> None:
        """Send a request with an earlier generation of ``victim`` or an unknown member id; the coordinator must reject
        it.
        """
        before = ClaimedMember(victim.member_id, victim.instance_id, victim.generation_id - 1)
        group, first = self._group_id, TopicPartition(topic, 0)
        choices: list[tuple[str, Make]] = [
            (f"commits for {group} from outside", lambda m: commit_as(m, group, ClaimedMember(), first, 0)),
            (f"commits as {victim.name} did", lambda m: commit_as(m, group, before, first, 0)),
            (f"sends a heartbeat as {victim.name} did", lambda m: heartbeat_as(m, group, before)),
        ]
        self.do(*self.rng.choice(choices))

    def kick(self, victim: WatchedConsumer) -> None:
        """Remove ``victim`` from the group; a static member by instance id only."""
        static = victim.instance_id is not None
        who = ClaimedMember(instance_id=victim.instance_id) if static else ClaimedMember(victim.member_id)
        self.do(f"removes {victim.name}", lambda m: remove_member(m, self._group_id, who))

    @property
    def done(self) -> bool:
        return not self._running

    def after_step(self) -> None:
        waiting = []
        for name, promise in self._running:
            if not promise.done:
                waiting.append((name, promise))
                continue
            try:
                promise.result()
            except KohortError as error:
                self.history.add(self.name, "is told", f"{name}: {error}")
        self._running = waiting
