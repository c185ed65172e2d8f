"""Shared objects of a run: clock and random numbers, network, event log, wire tap and checks."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.model import OffsetAndMetadata, Record, TopicPartition
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, WatchedProcess, Watcher
from kohort_lab.sim.history import History
from kohort_lab.sim.network import Network
from kohort_lab.sim.tap import Tap
from kohort_lab.sim.world import World


class AllChecks(Watcher):
    """Watcher that forwards each event to its watchers."""

    def __init__(self) -> None:
        self._watchers: list[Watcher] = []
        self._of_requests: list[Watcher] = []
        self._of_answers: list[Watcher] = []
        self._of_any_request: list[Watcher] = []
        self._of_any_answer: list[Watcher] = []

    def add(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        if type(watcher).requested is not Watcher.requested:
            self._of_requests.append(watcher)
            self._of_any_request += [watcher] if watcher.hears_all else []
        if type(watcher).answered is not Watcher.answered:
            self._of_answers.append(watcher)
            self._of_any_answer += [watcher] if watcher.hears_all else []

    def leave(self) -> None:
        """Remove all watchers, so that no check ends the run."""
        self._watchers.clear()
        for watchers in (self._of_requests, self._of_answers, self._of_any_request, self._of_any_answer):
            watchers.clear()

    def sends(self, who: str, partition: TopicPartition, value: bytes) -> None:
        for watcher in self._watchers:
            watcher.sends(who, partition, value)

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        for watcher in self._watchers:
            watcher.took(consumer, generation_id, owned)

    def revoking(self, consumer: WatchedConsumer, partitions: frozenset[TopicPartition]) -> None:
        for watcher in self._watchers:
            watcher.revoking(consumer, partitions)

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        for watcher in self._watchers:
            watcher.revoked(consumer, kind, partitions)

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        for watcher in self._watchers:
            watcher.read(consumer, records)

    def sought(self, consumer: WatchedConsumer, partition: TopicPartition, offset: int) -> None:
        for watcher in self._watchers:
            watcher.sought(consumer, partition, offset)

    def committed(self, consumer: WatchedConsumer, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for watcher in self._watchers:
            watcher.committed(consumer, offsets)

    def requested(self, exchange: Exchange) -> None:
        for watcher in self._of_any_request if exchange.request is None else self._of_requests:
            watcher.requested(exchange)

    def answered(self, exchange: Exchange) -> None:
        is_decoded = exchange.request is not None or exchange.answer is not None
        for watcher in self._of_answers if is_decoded else self._of_any_answer:
            watcher.answered(exchange)

    def answered_dead_client(self, exchange: Exchange) -> None:
        for watcher in self._watchers:
            watcher.answered_dead_client(exchange)

    def broker_started(self, broker: WatchedProcess) -> None:
        for watcher in self._watchers:
            watcher.broker_started(broker)

    def broker_dies(self, broker: WatchedProcess, *, writing: bool) -> None:
        for watcher in self._watchers:
            watcher.broker_dies(broker, writing=writing)

    def leaders_moved(self) -> None:
        for watcher in self._watchers:
            watcher.leaders_moved()


class RunContext:
    """Context of a run, created before its actors.

    ``decode_all``: decode every API for the checks. ``world``: replacement with other limits.
    """

    def __init__(
        self, seed: int, delay_ms: tuple[int, int], *, decode_all: bool = False, world: World | None = None
    ) -> None:
        self.world = world or World(seed)
        self.history = History(self.world)
        self.checks = AllChecks()
        self.tap = Tap(self.world, self.checks, everything=decode_all)
        self.network = Network(self.world, self.tap, delay_ms)
