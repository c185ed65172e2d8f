"""The log cleaner compacts one log at a time, the one with the largest dirty share, in steps.

A step takes a few milliseconds; the next step follows ``STEP_PAUSE_MS`` later. Kafka's ``cleaner-offset-checkpoint``
has the offset up to which each log is compacted; without this file compaction begins at the start of each log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Final

from kohort.clock import WallTime
from kohort.config import BrokerConfig
from kohort.errors import CorruptLog, StorageError
from kohort.log.compaction import Compaction, dirty_part
from kohort.log.data_folder import build_offsets, load_offsets
from kohort.log.partition import PartitionLog
from kohort.log.storage import Storage
from kohort.model import TopicPartition
from kohort.notes import Note, info, warning

CLEANER_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"
STEP_PAUSE_MS: Final = 10
RETRY_MS: Final = 60_000
"""Pause in ms after a disk error."""


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
        self.clean_until = load_offsets(storage, CLEANER_OFFSETS_FILE, [])
        self._not_before: dict[TopicPartition, float] = {}
        """Failed compactions as a dict: partition to the time of the next attempt (infinite: at the next start)."""
        self._now: Compaction | None = None
        self._wake_at_ms = now_ms + config.log_cleaner_backoff_ms

    @property
    def wake_at_ms(self) -> int | None:
        return self._wake_at_ms if self.config.log_cleaner_enable else None

    def forget(self, tp: TopicPartition) -> None:
        if self._now is not None and self._now.log.tp == tp:
            self.abandon()
        self.clean_until.pop(tp, None)
        self._not_before.pop(tp, None)

    def abandon(self) -> None:
        """Abandon the compaction in progress, if any."""
        compaction, self._now = self._now, None
        if compaction is not None:
            with suppress(StorageError):  # the next attempt or start deletes the leftovers
                compaction.abandon()

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
        wall_ms = self._wall.at(now_ms)
        due = []
        for log in self._logs():
            if "compact" in log.config.cleanup_policy and now_ms >= self._not_before.get(log.tp, 0):
                dirty = dirty_part(log, self.clean_until.get(log.tp, 0), wall_ms)
                if dirty.is_due(log.config.min_cleanable_dirty_ratio):
                    due.append((log, dirty))
        if not due:
            return None
        log, dirty = max(due, key=lambda found: found[1].ratio)
        return Compaction(log, self._storage, dirty, self.config.log_cleaner_dedupe_buffer_size, wall_ms)

    def _step(self, compaction: Compaction, now_ms: int) -> list[Note]:
        log = compaction.log
        if "compact" not in log.config.cleanup_policy:
            self.abandon()
            return [info(f"{log.tp}: compaction abandoned: cleanup.policy has changed")]
        try:
            if not compaction.step():
                return []
        except CorruptLog as error:
            return self._fail(log.tp, inf, f"{error}; compaction is tried again after the next broker start")
        except StorageError as error:
            return self._fail(log.tp, now_ms + RETRY_MS, f"{log.tp}: compaction failed: {error}")
        self._now = None
        log.counters.compactions += 1
        log.counters.compacted_bytes += compaction.freed_bytes
        self.clean_until[log.tp] = compaction.clean_until
        self.write_checkpoint()
        return [info(f"{log.tp}: {compaction}")]

    def _fail(self, tp: TopicPartition, not_before: float, problem: str) -> list[Note]:
        self._not_before[tp] = not_before
        self.abandon()
        return [warning(problem)]

    def keep_only(self, known: Iterable[TopicPartition]) -> None:
        """Drop the compacted offsets of deleted logs: a recreated topic is compacted from its start."""
        self.clean_until = {tp: self.clean_until[tp] for tp in known if tp in self.clean_until}

    def write_checkpoint(self) -> None:
        """Write the checkpoint without a flush: if it is lost, logs are compacted from their start again."""
        self._storage.replace(CLEANER_OFFSETS_FILE, build_offsets(self.clean_until), durable=False)
