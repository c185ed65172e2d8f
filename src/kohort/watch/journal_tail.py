"""The journal of a cluster, followed: what is new each time that somebody asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from kohort.coordinator.journal import TOPIC, JournalEntry
from kohort.errors import KohortError
from kohort.insight.journal_reader import JOURNAL_OPTIONS, JournalReader
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer

POLL_MS: Final = 500


class JournalTail:
    """A reader of ``__kohort_journal`` that remembers where it is."""

    def __init__(self, consumer: Consumer, partitions: list[TopicPartition], timeout_ms: int) -> None:
        self._consumer = consumer
        self._partitions = partitions
        self._timeout_ms = timeout_ms

    @classmethod
    def begun(
        cls,
        consumer_with: Callable[[Mapping[str, Any]], Consumer],
        admin: Admin,
        *,
        from_beginning: bool,
        timeout_ms: int,
    ) -> JournalTail | None:
        """Begin to follow the journal, from its beginning or its end; None where the cluster keeps none that may be
        read."""
        told = admin.describe_topics([TOPIC], timeout_ms=timeout_ms)
        if TOPIC in told.errors:
            return None
        partitions = [TopicPartition(TOPIC, one.partition) for one in told[TOPIC].partitions]
        consumer = consumer_with(JOURNAL_OPTIONS)
        try:
            consumer.assign(partitions)
            if from_beginning:
                consumer.seek_to_beginning(partitions)
            else:
                for place, end in consumer.end_offsets(partitions).items():
                    consumer.seek(place, end)
        except BaseException:
            consumer.close()
            raise
        return cls(consumer, partitions, timeout_ms)

    def read(self) -> list[JournalEntry]:
        """Return the entries since the last call, up to the end that the journal has now. Raises KohortError where they
        do not come."""
        reader = JournalReader()
        ends = self._consumer.end_offsets(self._partitions)
        deadline = time.monotonic() + self._timeout_ms / 1000
        while any(self._consumer.position(p, timeout_ms=self._timeout_ms) < ends[p] for p in self._partitions):
            records = self._consumer.poll(POLL_MS)
            for record in records:
                reader.add(record.key, record.value)
            if records:
                deadline = time.monotonic() + self._timeout_ms / 1000
            elif time.monotonic() > deadline:
                raise KohortError(f"the journal could not be read to its end within {self._timeout_ms // 1000} s")
        return reader.entries

    def close(self) -> None:
        """End the reader."""
        self._consumer.close()

    def __enter__(self) -> JournalTail:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
