"""One partition log with its storage, a manual clock, and shorthands for batches and reads."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kohort.clock import ManualClock
from kohort.config import BrokerConfig, parse_config
from kohort.log.partition import AppendResult, PartitionLog
from kohort.log.storage import MemoryStorage, Storage
from kohort.log.topics import Topics
from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches, with_offset
from kohort_lab.sim.checks.log_invariants import check_invariants

OPTIONS = {"segment.bytes": "1024", "index.interval.bytes": "100"}


def batch(
    values: Sequence[str] = ("v",),
    *,
    at_ms: int = -1,
    key: bytes | None = None,
    codec: Codec = Codec.NONE,
    **producer: Any,
) -> bytes:
    """Encode a batch, one record per value, all with timestamp ``at_ms`` and the same key."""
    records = [NewRecord(key, value.encode(), (), at_ms) for value in values]
    return build_batch(records, codec=codec, **producer)


class LogStage:
    """``orders-0`` with small segments on a storage that survives restarts."""

    def __init__(self, storage: Storage | None = None, *, compaction_bytes: int = 1 << 27, **options: str) -> None:
        """``compaction_bytes``: memory limit of a compaction; ``options``: topic options."""
        self.storage: Any = storage if storage is not None else MemoryStorage()
        self.clock = ManualClock()
        self.config = replace(parse_config(BrokerConfig, {}), log_cleaner_dedupe_buffer_size=compaction_bytes)
        self.restarts = 0
        self.topics = self._open()
        if "orders" not in self.topics:
            self.topics.create("orders", 1, OPTIONS | {k.replace("_", "."): v for k, v in options.items()}, self.now_ms)

    def _open(self) -> Topics:
        return Topics(self.storage, self.config, random.Random(self.restarts), self.clock.now_ms())

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def log(self) -> PartitionLog:
        log = self.topics.log("orders", 0)
        assert log is not None
        return log

    def append(self, *values: str, at_ms: int | None = None, **producer: Any) -> AppendResult:
        records = batch(values or ("v",), at_ms=self.now_ms if at_ms is None else at_ms, **producer)
        return self.log.append(records, self.now_ms)

    def fill(self, count: int, key: bytes | None = None) -> list[str]:
        """Append ``count`` batches of one record each, with their offset as value."""
        names = [f"record {self.log.log_end_offset + i} {'x' * 40}" for i in range(count)]
        for name in names:
            self.append(name, key=key)
        return names

    def begin_segments_at(self, *base_offsets: int) -> None:
        """Append a batch with its own key at each of these offsets, each in its own segment."""
        self.topics.close()
        for base in base_offsets:
            stored = b"".join(with_offset(batch(at_ms=self.now_ms, key=b"%d" % base), base, 0))
            self.storage.replace(f"orders-0/{base:020d}.log", stored)
        self.storage.delete(".kafka_cleanshutdown")
        self.crash()

    def crash(self) -> list[str]:
        """Restart after a crash; return the log lines of the start."""
        self.restarts += 1
        self.topics = self._open()
        return [str(note) for note in self.topics.recovery_notes]

    def restart(self) -> list[str]:
        """Stop cleanly and start; return the log lines of the start."""
        assert self.topics.close() == []
        return self.crash()

    def files(self, ending: str = "") -> list[str]:
        return [name for name in self.storage.files("orders-0") if name.endswith(ending)]

    def check(self) -> None:
        for topic in self.topics:
            for log in topic.partitions:
                check_invariants(log)


def values_from(log: PartitionLog, offset: int, **limits: int) -> list[str]:
    """Return the values of the records from ``offset`` to the end of the log."""
    found: list[str] = []
    while offset < log.log_end_offset:
        data = b"".join(log.read(offset, limits.get("max_bytes", 1 << 20)))
        assert data, f"nothing at {offset}, though the log ends at {log.log_end_offset}"
        for at, header in split_batches(data):
            found += [(r.value or b"").decode() for r in read_batch(data, at) if r.offset >= offset]
            offset = header.next_offset
    return found


def offsets_in(buffers: Sequence[bytes | bytearray | memoryview]) -> list[int]:
    """Return the base offsets of the batches of one read."""
    return [header.base_offset for buffer in buffers for _, header in split_batches(buffer)]
