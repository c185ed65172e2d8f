"""Records that wait to be sent, in batches for each partition; ``buffer.memory`` limits their size.

A batch has at most ``batch.size`` bytes, or one larger record. It is due when the next record does not fit, or after
``linger.ms``. It grows until it is sent, so that a slow response costs no throughput.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from kohort.client.writing.produce_batch import RECORD_OVERHEAD, ProduceBatch
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ErrorCode
from kohort.model import Header, TopicPartition
from kohort.wire.compression import Codec
from kohort.wire.record_batch import HEADER_BYTES

REQUEST_OVERHEAD: Final = 512

Placement = tuple[ProduceBatch, int, bool]


class SendColumns(NamedTuple):
    """Records for one partition, as columns of keys, values, timestamps and headers."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    timestamps: Sequence[int]
    headers: dict[int, Sequence[Header]]

    def sizes(self) -> list[int]:
        keys, values = self.keys, self.values
        sizes = [
            RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
            for key, value in zip(keys, values, strict=True)
        ]
        for place, headers in self.headers.items():
            sizes[place] += size_of_headers(headers)
        return sizes


class Accumulator:
    """Unsent batches of one producer, oldest first in each partition."""

    def __init__(self, config: ProducerConfig) -> None:
        self.buffered_bytes = 0
        self.waiting: dict[TopicPartition, deque[ProduceBatch]] = {}
        self._open: dict[tuple[str, int], ProduceBatch] = {}
        self._config = config
        self._memory = max(config.buffer_memory, 1)
        self._codec = Codec[config.compression_type.upper()]
        self._record_most = config.max_request_size
        self._batch_most = min(config.batch_size, config.max_request_size - REQUEST_OVERHEAD)
        self._limits: dict[str, int] = {}
        """Maximum batch size in bytes of each topic whose broker rejected a larger batch."""

    @property
    def full(self) -> bool:
        return self.buffered_bytes >= self._memory

    def limit(self, topic: str) -> int:
        return self._limits.get(topic, self._batch_most)

    def set_limit(self, topic: str, size: int) -> None:
        """Limit the topic's batches to ``size`` bytes, because the broker rejected a batch of twice that size."""
        self._limits[topic] = min(self.limit(topic), size)

    def check_size(self, size: int) -> None:
        """Raise ApiError (MESSAGE_TOO_LARGE) if a record exceeds max.request.size."""
        if size > self._record_most:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE, f"record of {size} bytes exceeds max.request.size={self._record_most}"
            )

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        timestamp_ms: int,
        now_ms: int | None,
    ) -> Placement | None:
        """Add one record to its partition's batch.

        Without ``now_ms`` the record is added only if a batch has space; otherwise returns None. Most records need no
        new batch, so the caller need not read the clock. Raises ApiError (MESSAGE_TOO_LARGE).
        """
        size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += size_of_headers(headers)
        batch = self._open.get((topic, partition))
        wakes_sender = False
        limit = self._limits.get(topic, self._batch_most) if self._limits else self._batch_most
        if batch is None or batch.payload is not None or batch.size + size > limit:
            if now_ms is None:
                return None
            if size > self._record_most:
                self.check_size(size)
            batch = self._start(topic, partition, now_ms)
            wakes_sender = True
        values = batch.values
        index = len(values)
        values.append(value)
        batch.keys.append(key)
        batch.timestamps.append(timestamp_ms)
        if headers:
            batch.headers[index] = headers
        batch.size += size
        self.buffered_bytes += size
        if batch.size >= limit:
            batch.full = wakes_sender = True
        return batch, index, wakes_sender

    def extend(
        self, topic: str, partition: int, columns: SendColumns, now_ms: int
    ) -> list[tuple[ProduceBatch, int, int]]:
        """Add many records to batches of one partition; return each batch with its first and last record index."""
        filled: list[tuple[ProduceBatch, int, int]] = []
        ends = list(accumulate(columns.sizes(), initial=0))
        at, count, limit = 0, len(ends) - 1, self.limit(topic)
        while at < count:
            batch = self._open.get((topic, partition))
            size = ends[at + 1] - ends[at]
            if batch is None or batch.payload is not None or batch.size + size > limit:
                self.check_size(size)
                batch = self._start(topic, partition, now_ms)
            fitting = bisect_right(ends, ends[at] + limit - batch.size, at) - 1
            end = max(fitting, at + 1)  # the first record of a batch may exceed ``limit``, but not max.request.size
            first = len(batch.values)
            batch.keys += columns.keys[at:end]
            batch.values += columns.values[at:end]
            batch.timestamps += columns.timestamps[at:end]
            if columns.headers:
                batch.headers |= {first + n - at: columns.headers[n] for n in range(at, end) if n in columns.headers}
            batch.size += ends[end] - ends[at]
            self.buffered_bytes += ends[end] - ends[at]
            if batch.size >= limit:
                batch.full = True
            filled.append((batch, first, len(batch.values) - 1))
            at = end
        return filled

    def add_batch(self, batch: ProduceBatch) -> None:
        self.check_size(batch.size)
        self._close(batch.topic, batch.partition)
        self.buffered_bytes += batch.size
        self.waiting.setdefault(TopicPartition(batch.topic, batch.partition), deque()).append(batch)

    def put_back(self, batch: ProduceBatch) -> None:
        """Queue a batch again after a failed attempt, in front of all batches with higher sequence numbers."""
        queue = self.waiting.setdefault(TopicPartition(batch.topic, batch.partition), deque())
        at = next((i for i, queued in enumerate(queue) if not _precedes(queued, batch)), len(queue))
        queue.insert(at, batch)

    def take(self, tp: TopicPartition) -> ProduceBatch:
        batch = self.waiting[tp][0]
        before = batch.size
        batch.seal()  # a batch that cannot be encoded stays queued, and fails when the sender encodes it again
        self.drop(tp, batch)
        batch.size = HEADER_BYTES + len(batch.payload or b"")
        self.buffered_bytes += batch.size - before
        return batch

    def release(self, batch: ProduceBatch) -> None:
        self.buffered_bytes -= batch.size

    def flush(self) -> None:
        for queue in self.waiting.values():
            for batch in queue:
                batch.ready_at_ms = 0

    def drop(self, tp: TopicPartition, batch: ProduceBatch) -> None:
        queue = self.waiting[tp]
        queue.remove(batch)
        if not queue:
            del self.waiting[tp]
        if self._open.get(tp) is batch:
            del self._open[tp]

    def batches(self) -> Iterator[ProduceBatch]:
        for queue in self.waiting.values():
            yield from queue

    def _start(self, topic: str, partition: int, now_ms: int) -> ProduceBatch:
        self._close(topic, partition)
        config = self._config
        batch = ProduceBatch(
            topic,
            partition,
            self._codec,
            ready_at_ms=now_ms + config.linger_ms if config.linger_ms else 0,
            deadline_ms=now_ms + config.delivery_timeout_ms,
        )
        tp = TopicPartition(topic, partition)
        self.waiting.setdefault(tp, deque()).append(batch)
        self._open[tp] = batch
        self.buffered_bytes += HEADER_BYTES
        return batch

    def _close(self, topic: str, partition: int) -> None:
        batch = self._open.pop((topic, partition), None)
        if batch is not None:
            batch.ready_at_ms = 0


def size_of_headers(headers: Sequence[Header]) -> int:
    return sum(2 * RECORD_OVERHEAD + len(name) * 4 + len(text or b"") for name, text in headers)


def _precedes(first: ProduceBatch, second: ProduceBatch) -> bool:
    """True if ``first`` has a sequence number that precedes that of ``second``; numbers wrap to 0."""
    return first.base_sequence >= 0 and (second.base_sequence - first.base_sequence) % 0x8000_0000 < 0x4000_0000
