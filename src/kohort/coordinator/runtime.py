"""Decide, append, replay, release: for every event alike."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.clock import Rng
from kohort.config import BrokerConfig
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.outcome import AppendRecords, GroupRequest, Reply, TopicsView


class Coordinator:
    """The coordinator of every group whose partition of ``__consumer_offsets`` is loaded here."""

    def __init__(
        self, config: BrokerConfig, rng: Rng, topics: TopicsView, append: AppendRecords, *, checked: bool = False
    ) -> None: ...

    wake_at_ms: int | None

    def handle(self, request: GroupRequest, now_ms: int) -> list[Reply]: ...

    def tick(self, now_ms: int) -> list[Reply]: ...

    def start_loading(self, partition: int) -> None: ...

    def load(self, partition: int, records: Iterable[tuple[bytes, bytes | None]], now_ms: int) -> list[Reply]: ...

    def unload(self, partition: int, now_ms: int) -> list[Reply]: ...

    def connection_closed(self, connection: int, now_ms: int) -> None: ...

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> list[Reply]: ...

    def take_journal(self) -> list[JournalEntry]: ...

    def partition_of(self, group_id: str) -> int: ...

    def check_invariants(self, now_ms: int) -> None: ...
