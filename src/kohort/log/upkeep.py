"""Timed work on logs: flushes, retention, compaction, checkpoints, expiry of producers, deletion of folders.

Each kind of work has a timer; after a disk error it is tried again when the timer is due again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kohort.clock import Timers, WallTime, earliest
from kohort.config import BrokerConfig
from kohort.errors import StorageError
from kohort.log.cleaner import Cleaner
from kohort.log.data_folder import RECOVERY_POINTS_FILE, START_OFFSETS_FILE, build_offsets
from kohort.log.partition import PartitionLog
from kohort.log.producers import ProducerRoom
from kohort.log.storage import Storage
from kohort.model import TopicPartition
from kohort.notes import Note, info, warning
from kohort.steps import Pace, Steps, at_once

FIRST_RETENTION_MS: Final = 30_000
RELEASE_INTERVAL_MS: Final = 30_000
CHECKPOINT_INTERVAL_MS: Final = 60_000

FLUSH: Final = "flush"
RETENTION: Final = "retention"
RELEASE: Final = "release"
CHECKPOINT: Final = "checkpoint"
EXPIRY: Final = "expiry"
REMOVAL: Final = "removal"
COMPACTION: Final = "compaction"
CHECK_US: Final = 3


class Upkeep:
    def __init__(
        self,
        storage: Storage,
        config: BrokerConfig,
        logs: Callable[[], Iterable[PartitionLog]],
        producer_room: ProducerRoom,
        now_ms: int,
        wall: WallTime,
    ) -> None:
        self._storage = storage
        self._logs = logs
        self._producer_room = producer_room
        self._timers: Timers[str] = Timers()
        self._flushes: Timers[TopicPartition] = Timers()
        self.cleaner = Cleaner(storage, config, logs, now_ms, wall)
        self._to_delete: list[str] = []
        self._written: dict[str, bytes] = {}
        self._every: dict[str, tuple[int, Callable[[int], list[Note]]]] = {
            RETENTION: (config.log_retention_check_interval_ms, self._retain),
            RELEASE: (RELEASE_INTERVAL_MS, self._release),
            CHECKPOINT: (CHECKPOINT_INTERVAL_MS, self._checkpoint),
            EXPIRY: (config.producer_id_expiration_check_interval_ms, self._expire),
            REMOVAL: (0, self._remove_one),
        }
        for duty, (interval_ms, _) in self._every.items():
            if interval_ms:
                self._timers.set(duty, now_ms + interval_ms)
        self._timers.set(RETENTION, now_ms + min(config.log_retention_check_interval_ms, FIRST_RETENTION_MS))

    @property
    def wake_at_ms(self) -> int | None:
        return earliest(self._timers.wake_at_ms, self._flushes.wake_at_ms, self.cleaner.wake_at_ms)

    def flush_at(self, tp: TopicPartition, at_ms: int) -> None:
        self._flushes.set(tp, at_ms)

    def forget(self, tp: TopicPartition) -> None:
        self._flushes.cancel(tp)
        self.cleaner.forget(tp)

    def remove(self, folder: str, now_ms: int) -> None:
        """Delete the folder of a deleted topic in a later tick."""
        self._to_delete.append(folder)
        self._timers.set(REMOVAL, now_ms)

    def tick(self, now_ms: int) -> list[Note]:
        """Run due work; return notes."""
        notes = self._tried(FLUSH, self._flush, now_ms)
        for duty in list(self._timers.pop_due(now_ms)):
            interval_ms, action = self._every[duty]
            if interval_ms:
                self._timers.set(duty, now_ms + interval_ms)
            notes += self._tried(duty, action, now_ms)
        return notes + self._tried(COMPACTION, self.cleaner.tick, now_ms)

    def _tried(self, duty: str, action: Callable[[int], list[Note]], now_ms: int) -> list[Note]:
        try:
            return action(now_ms)
        except StorageError as error:
            return [warning(f"{duty} failed: {error}", ("upkeep", duty))]

    def _flush(self, now_ms: int) -> list[Note]:
        due = set(self._flushes.pop_due(now_ms))
        if due:
            for log in self._logs():
                if log.tp in due:
                    log.flush_if_due(now_ms)
        return []

    def _retain(self, now_ms: int) -> list[Note]:
        return [note for log in self._logs() for note in self._tried(f"{log.tp}: {RETENTION}", log.retain, now_ms)]

    def _expire(self, now_ms: int) -> list[Note]:
        self._producer_room.expire(now_ms)
        return []

    def _release(self, now_ms: int) -> list[Note]:  # noqa: ARG002 - a duty like the others
        notes = []
        for log in self._logs():
            log.release()
            notes += log.take_notes()
        return notes

    def _checkpoint(self, now_ms: int) -> list[Note]:  # noqa: ARG002 - a duty like the others
        self.write_checkpoints()
        return []

    def write_checkpoints(self) -> None:
        """Write the changed checkpoints: recovery points, log start offsets, compacted offsets."""
        at_once(self.write_checkpoints_in_steps())

    def write_checkpoints_in_steps(self) -> Steps[None]:
        pace = Pace()
        points, starts = {}, {}
        for log in list(self._logs()):
            if pace.is_due(CHECK_US):
                yield
            log.advance_recovery_point()
            if log.recovery_point:
                points[log.tp] = log.recovery_point
            if log.log_start_offset > log.segments[0].base_offset:
                starts[log.tp] = log.log_start_offset
        for name, offsets in ((RECOVERY_POINTS_FILE, points), (START_OFFSETS_FILE, starts)):
            content = build_offsets(offsets)
            if self._written.get(name) != content:
                self._storage.replace(name, content)
                self._written[name] = content
        self.cleaner.write_checkpoint()

    def _remove_one(self, now_ms: int) -> list[Note]:
        folder = self._to_delete.pop()
        if self._to_delete:
            self._timers.set(REMOVAL, now_ms)
        self._storage.start_delete_folder(folder)
        return [info(f"removed {folder}", "removed")]
