"""An administrator as an actor: widens topics, describes, lists and asks for offsets while everybody works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.client.admin import AdminMachine, Operation
from kohort.client.admin_groups import describe_groups, list_group_offsets, list_groups
from kohort.client.admin_topics import create_partitions, describe_topics
from kohort.client.engine import Engine
from kohort.client.io import Tick
from kohort.client.metadata import Metadata
from kohort.client.promise import Promise
from kohort.config.client import AdminConfig
from kohort.errors import KohortError
from kohort.sim.clients import EngineActor
from kohort.sim.history import History
from kohort.sim.network import Network
from kohort.sim.world import World

PARTITIONS_MAX: Final = 8
TIMEOUT_MS: Final = 20_000


class AdminActor(EngineActor):
    """Does one thing after the other, and takes what becomes of it as it comes."""

    def __init__(self, world: World, network: Network, history: History, config: AdminConfig, group_id: str) -> None:
        super().__init__("admin", world, network, history)
        self._config = config
        self._group_id = group_id
        self._metadata = Metadata(config, self.rng, allow_auto_create=False)
        self._machine = AdminMachine(config, self._metadata, self.rng)
        self._running: list[tuple[str, Promise[Any]]] = []

    def start(self) -> None:
        if not self.alive:
            self.run_engine(Engine(self._config, [self._machine], self._metadata, self.rng))

    def act(self, topics: dict[str, int]) -> None:
        """Do something; ``topics`` has the partitions of each topic now."""
        self.start()
        topic = self.rng.choice(sorted(topics))
        total = min(topics[topic] + self.rng.randint(1, 2), PARTITIONS_MAX)
        choices: list[tuple[str, Callable[[], Operation[Any]]]] = [
            (f"widens {topic} to {total}", lambda: self._widen(topic, total)),
            (f"describes {self._group_id}", lambda: describe_groups(self._metadata, [self._group_id])),
            (f"asks for offsets of {self._group_id}", lambda: list_group_offsets(self._metadata, self._group_id, None)),
            ("lists groups", lambda: list_groups(self._metadata, states=[], types=[])),
            (f"describes {topic}", lambda: describe_topics(self._metadata, [topic])),
        ]
        name, make = self.rng.choice(choices)
        self.history.add(self.name, name)
        self._running.append((name, self._machine.start(name, make(), TIMEOUT_MS, self.world.now_ms)))
        self.step(Tick())

    def _widen(self, topic: str, total: int) -> Operation[Any]:
        return create_partitions(self._metadata, {topic: total}, validate_only=False, timeout_ms=5_000)

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
