"""The log cleaner compacts one log at a time, the one with the largest dirty share, in steps.

A step takes a few milliseconds; the next one follows ``STEP_PAUSE_MS`` later. Kafka's ``cleaner-offset-checkpoint``
holds the progress of each log; without it compaction begins at the log's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from kohort.clock import WallTime
from kohort.config import BrokerConfig
from kohort.errors import CorruptLog, StorageError
from kohort.log.compaction import Compaction, Dirty, dirty_part
from kohort.log.data_folder import build_offsets, parse_offsets
from kohort.log.partition import PartitionLog
from kohort.log.storage import Storage
from kohort.model import TopicPartition
from kohort.notes import Note, info, warning

CLEANER_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"
STEP_PAUSE_MS: Final = 10
RETRY_MS: Final = 60_000
"""Pause after a disk error."""


class Cleaner:
    def __init__(
        self,
        storage: Storage,
        config: BrokerConfig,
        logs: Callable[[], Iterable[PartitionLog]],
        now_ms: int,
        wall: WallTime,
    ) -> None:
        self._wall = wall
        self._storage = storage
        self.config = config
        self._logs = logs
        self._clean_until = self._read_checkpoint()
        self._not_before: dict[TopicPartition, int | None] = {}
        """Time of the next attempt after a failure, by log; None: at the next start."""
        self._now: Compaction | None = None
        self._wake_at_ms = now_ms + config.log_cleaner_backoff_ms

    @property
    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms if self.config.log_cleaner_enable else None

    def clean_until(self, tp: TopicPartition) -> int:
        return self._clean_until.get(tp, 0)

    def forget(self, tp: TopicPartition) -> None:
        if self._now is not None and self._now.log.tp == tp:
            self._abandon()
        self._clean_until.pop(tp, None)
        self._not_before.pop(tp, None)

    def close(self) -> None:
        if self._now is not None:
            self._abandon()

    def tick(self, now_ms: int) -> list[Note]:
        if not self.config.log_cleaner_enable or now_ms < self._wake_at_ms:
            return []
        if self._now is None:
            self._now = self._next(now_ms)
        if self._now is None:
            self._wake_at_ms = now_ms + self.config.log_cleaner_backoff_ms
            return []
        self._wake_at_ms = now_ms + STEP_PAUSE_MS
        return self._step(self._now, now_ms)

    def _next(self, now_ms: int) -> Compaction | None:
        best: tuple[float, PartitionLog, Dirty] | None = None
        wall_ms = self._wall.at(now_ms)
        for log in self._logs():
            if "compact" in log.config.cleanup_policy and self._may_try(log.tp, now_ms):
                dirty = dirty_part(log, self.clean_until(log.tp), wall_ms)
                if dirty.is_due(log.config.min_cleanable_dirty_ratio) and (best is None or dirty.ratio > best[0]):
                    best = (dirty.ratio, log, dirty)
        if best is None:
            return None
        _, log, dirty = best
        return Compaction(log, self._storage, dirty, self.config.log_cleaner_dedupe_buffer_size, wall_ms)

    def _may_try(self, tp: TopicPartition, now_ms: int) -> bool:
        not_before = self._not_before.get(tp, 0)
        return not_before is not None and now_ms >= not_before

    def _step(self, compaction: Compaction, now_ms: int) -> list[Note]:
        log = compaction.log
        if "compact" not in log.config.cleanup_policy:
            self._abandon()
            return [info(f"{log.tp}: compaction abandoned: cleanup.policy has changed")]
        try:
            if not compaction.step():
                return []
        except CorruptLog as error:
            return self._fail(log.tp, None, f"{error}; the next attempt follows the next start")
        except StorageError as error:
            return self._fail(log.tp, now_ms + RETRY_MS, f"{log.tp}: compaction failed: {error}")
        self._now = None
        log.counters.compactions += 1
        log.counters.compacted_bytes += compaction.freed_bytes
        self._clean_until[log.tp] = compaction.clean_until
        self.write_checkpoint()
        return [info(f"{log.tp}: {compaction}")]

    def _fail(self, tp: TopicPartition, not_before: int | None, problem: str) -> list[Note]:
        self._not_before[tp] = not_before
        self._abandon()
        return [warning(problem)]

    def _abandon(self) -> None:
        assert self._now is not None, "a compaction is in progress"
        compaction, self._now = self._now, None
        with suppress(StorageError):  # the next attempt or start deletes the leftovers
            compaction.abandon()

    # ---------------------------------------------------------------- checkpoint

    def _read_checkpoint(self) -> dict[TopicPartition, int]:
        data = self._storage.read(CLEANER_OFFSETS_FILE)
        try:
            return {} if data is None else parse_offsets(data)
        except ValueError:
            return {}

    def keep_only(self, known: Iterable[TopicPartition]) -> None:
        """Drop the progress of deleted logs: a recreated topic begins dirty."""
        names = set(known)
        self._clean_until = {tp: offset for tp, offset in self._clean_until.items() if tp in names}

    def write_checkpoint(self) -> None:
        """Write the checkpoint without a flush: its loss costs work, no records."""
        self._storage.replace(CLEANER_OFFSETS_FILE, build_offsets(self._clean_until), durable=False)
