"""Record batch of a producer for one partition: filled, encoded in one tight loop, sent, and completed or failed."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import crc32c

from kohort.errors import CorruptRecord, KohortError
from kohort.model import Header
from kohort.wire import record_batch
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec, compress
from kohort.wire.varints import varint_bytes

RECORD_OVERHEAD: Final = 21
"""Bytes that each record adds to the batch size, besides key, value and headers."""
NO_SEQUENCE: Final = -1
SEQUENCES: Final = 0x8000_0000
_head = struct.Struct(">qiibI")
_after_crc = struct.Struct(">hiqqqhii")
_SMALL: Final = tuple(varint_bytes(value) for value in range(0x2000))
_SIZED: Final = tuple((head, len(head) + size) for size, head in enumerate(_SMALL))
"""Cache of length prefixes: entry n has the varint of n, and n plus the length of that varint, in bytes."""
_NULL: Final = varint_bytes(-1)


class ProduceBatch:
    """Records for one partition, sent and completed together."""

    __slots__ = (
        "append_time_ms", "attempts", "base_offset", "base_sequence", "callbacks", "codec", "count", "deadline_ms",
        "done", "error", "failures", "first_ms", "full", "halves", "headers", "keys", "last_error", "last_ms",
        "partition", "payload", "producer_epoch", "producer_id", "ready_at_ms", "refused", "size", "timestamps",
        "topic", "transactional", "unanswered", "values",
    )  # fmt: skip

    def __init__(self, topic: str, partition: int, codec: Codec, *, ready_at_ms: int, deadline_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.codec = codec
        self.ready_at_ms = ready_at_ms
        """Earliest time in ms to send the batch if it is not full; 0 sends it immediately."""
        self.full = False
        self.deadline_ms = deadline_ms
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: dict[int, Sequence[Header]] = {}
        self.size = record_batch.HEADER_BYTES
        self.count = 0
        self.first_ms = self.last_ms = -1
        self.payload: bytes | None = None
        self.producer_id = self.producer_epoch = self.base_sequence = NO_SEQUENCE
        self.transactional = False
        self.attempts = 0
        self.failures = 0
        self.unanswered = False
        """True if an attempt to send the batch had no response, so the log may contain the batch."""
        self.last_error: KohortError | None = None
        self.halves: tuple[ProduceBatch, ProduceBatch] | None = None
        self.done = False
        self.error: KohortError | None = None
        self.refused: Mapping[int, KohortError] = {}
        """Errors of single rejected records (KIP-467): record index to error."""
        self.base_offset = -1
        self.append_time_ms = -1
        self.callbacks: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        count = self.count or len(self.values)
        return f"<{count} records for {self.topic}-{self.partition}, sequence {self.base_sequence}>"

    def seal(self) -> None:
        if self.payload is not None:
            return
        self.count = len(self.values)
        self.first_ms = self.timestamps[0]
        self.last_ms = max(self.timestamps)
        records = encode_records(self.keys, self.values, self.timestamps, self.headers)
        self.payload = compress(self.codec, records)
        self.keys, self.values, self.headers = [], [], {}

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Set producer id, epoch and first sequence number of the batch (protocol/producers.md#numbering)."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence

    def forget_number(self) -> None:
        self.number(NO_SEQUENCE, NO_SEQUENCE, NO_SEQUENCE)

    def buffers(self) -> list[Buffer]:
        assert self.payload is not None, "a batch is sealed before it is sent"
        summed = _after_crc.pack(
            self.codec | record_batch.TRANSACTIONAL_BIT if self.transactional else self.codec,
            self.count - 1,
            self.first_ms,
            self.last_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        crc = crc32c.crc32c(self.payload, crc32c.crc32c(summed))
        return [
            _head.pack(0, record_batch.SMALLEST_LENGTH + len(self.payload), -1, record_batch.MAGIC, crc) + summed,
            self.payload,
        ]

    def succeed(self, base_offset: int, append_time_ms: int) -> None:
        self.base_offset, self.append_time_ms = base_offset, append_time_ms
        self._finish()

    def fail(self, error: KohortError, refused: Mapping[int, KohortError] | None = None) -> None:
        """Fail all records of the batch. A record in ``refused`` gets its own error, all others get ``error``."""
        self.error, self.refused = error, refused or {}
        self._finish()

    def error_of(self, index: int) -> KohortError | None:
        return self.refused.get(index, self.error)

    def _finish(self) -> None:
        self.done = True
        self.payload = b""

    def split(self) -> tuple[ProduceBatch, ProduceBatch]:
        records = record_batch.read_batch(b"".join(bytes(b) for b in self.buffers()))
        middle = len(records) // 2
        left, right = self._part(records[:middle]), self._part(records[middle:])
        if self.base_sequence != NO_SEQUENCE:
            left.number(self.producer_id, self.producer_epoch, self.base_sequence)
            right.number(self.producer_id, self.producer_epoch, (self.base_sequence + middle) % SEQUENCES)
        self.halves = (left, right)
        self._finish()
        return self.halves

    def _part(self, records: Sequence[record_batch.ReadRecord]) -> ProduceBatch:
        part = ProduceBatch(self.topic, self.partition, self.codec, ready_at_ms=0, deadline_ms=self.deadline_ms)
        part.keys = [r.key for r in records]
        part.values = [r.value for r in records]
        part.timestamps = [r.timestamp_ms for r in records]
        part.headers = {i: r.headers for i, r in enumerate(records) if r.headers}
        part.seal()
        part.size = record_batch.HEADER_BYTES + len(part.payload or b"")
        part.attempts, part.failures = self.attempts, self.failures
        return part


def prebuilt(topic: str, partition: int, batch: bytes, *, deadline_ms: int) -> ProduceBatch:
    """Create a batch from encoded bytes. The records are sent unchanged, and the header is rewritten.

    Raises CorruptRecord if ``batch`` is not exactly one whole batch of at least one record.
    """
    header = record_batch.parse_batch_header(batch)
    record_batch.check_crc(batch, 0, header)
    if header.size != len(batch):
        raise CorruptRecord(f"{len(batch) - header.size} bytes follow the batch; pass one batch at a time")
    if header.record_count < 1:
        raise CorruptRecord(f"batch has {header.record_count} records, expected 1 or more")
    made = ProduceBatch(topic, partition, header.codec, ready_at_ms=0, deadline_ms=deadline_ms)
    made.payload = bytes(memoryview(batch)[record_batch.HEADER_BYTES : header.size])
    made.count = header.record_count
    made.first_ms, made.last_ms = header.base_timestamp, header.max_timestamp
    made.size = header.size
    return made


def encode_records(
    keys: Iterable[bytes | None],
    values: Iterable[bytes | None],
    timestamps: Sequence[int],
    headers: dict[int, Sequence[Header]],
) -> bytes:
    """Encode the records of a batch (format 2, protocol/records.md#fields-of-a-record), without the batch header."""
    small, sized = _SMALL, _SIZED
    most = len(small)
    first_ms = last_ms = timestamps[0]
    begin = b"\x00\x00"  # first fields of a record: attributes, timestamp delta
    out: list[bytes] = []
    add = out.extend
    for index, (key, value, timestamp) in enumerate(zip(keys, values, timestamps, strict=True)):
        if timestamp != last_ms:
            last_ms = timestamp
            begin = b"\x00" + varint_bytes(timestamp - first_ms)
        place = small[index] if index < most else varint_bytes(index)
        if key is None:
            key_head, key_bytes, key = _NULL, 1, b""
        else:
            key_head, key_bytes = sized[len(key)] if len(key) < most else _sized(len(key))
        if value is None:
            value_head, value_bytes, value = _NULL, 1, b""
        else:
            value_head, value_bytes = sized[len(value)] if len(value) < most else _sized(len(value))
        end = _encode_headers(headers[index]) if headers and index in headers else b"\x00"
        size = len(begin) + len(place) + key_bytes + value_bytes + len(end)
        add((small[size] if size < most else varint_bytes(size), begin, place, key_head, key, value_head, value, end))
    return b"".join(out)


def _sized(size: int) -> tuple[bytes, int]:
    head = varint_bytes(size)
    return head, len(head) + size


def _encode_headers(headers: Sequence[Header]) -> bytes:
    out = [varint_bytes(len(headers))]
    for name, value in headers:
        text = name.encode()
        out += [varint_bytes(len(text)), text]
        out += [_NULL] if value is None else [varint_bytes(len(value)), value]
    return b"".join(out)


def record_timestamp(batch: ProduceBatch, index: int) -> int:
    """Return a record's timestamp in ms: append time if the topic uses it, else the record's own; -1 if unknown."""
    if batch.append_time_ms >= 0:
        return batch.append_time_ms
    return batch.timestamps[index] if index < len(batch.timestamps) else -1
