"""The topics of a broker and the logs of their partitions: recovered at start, made, deleted, looked after.

A change is written to the catalogue first and to the folders after; a start finishes what was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.clock import Rng, Timers
from kohort.config import BrokerConfig, TopicConfig, topic_config
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.catalogue import Catalogue, TopicEntry, folder_topic_id, load_catalogue
from kohort.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINTS_FILE,
    START_OFFSETS_FILE,
    build_offsets,
    build_partition_metadata,
    parse_offsets,
)
from kohort.log.identity import claim_identity, new_topic_id
from kohort.log.names import check_topic_name, doomed_folder, is_doomed, parse_folder, stray_folder
from kohort.log.partition import PartitionLog
from kohort.log.storage import Storage
from kohort.model import TopicPartition, uuid_to_text

PARTITIONS_MAX: Final = 10_000
"""Of one topic; Kafka refuses more in one request."""
PRODUCER_ID_BLOCK: Final = 1000
FIRST_RETENTION_MS: Final = 30_000
RELEASE_INTERVAL_MS: Final = 30_000
CHECKPOINT_INTERVAL_MS: Final = 60_000
EXPIRY_INTERVAL_MS: Final = 600_000

RETENTION: Final = "retention"
RELEASE: Final = "release"
CHECKPOINT: Final = "checkpoint"
EXPIRY: Final = "expiry"
REMOVAL: Final = "removal"


@dataclass(slots=True, eq=False)
class Topic:
    """A topic and the logs of its partitions."""

    name: str
    topic_id: bytes
    overrides: dict[str, str]
    config: TopicConfig
    internal: bool
    partitions: list[PartitionLog] = field(default_factory=list)


class Topics:
    """All topics of one data folder. Names are case-sensitive; iteration is by name."""

    def __init__(self, storage: Storage, config: BrokerConfig, rng: Rng, now_ms: int) -> None:
        self._storage = storage
        self._config = config
        self._rng = rng
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._timers: Timers[str | TopicPartition] = Timers()
        self._doomed: list[str] = []
        self._checkpoints: dict[str, bytes] = {}
        self.recovery_notes: list[str] = []
        """What the start found and mended, one sentence each."""
        self.cluster_id, self.node_id = claim_identity(storage, config, rng)
        self.was_clean = storage.read(CLEAN_SHUTDOWN_FILE) is not None
        """Whether the last stop was a clean one (or this is the first start)."""
        self._catalogue = load_catalogue(storage, self.recovery_notes)
        self._next_producer_id = self._block_end = self._catalogue.next_producer_id
        self._recover(now_ms)
        storage.delete(CLEAN_SHUTDOWN_FILE)
        self._start_timers(now_ms)

    def _start_timers(self, now_ms: int) -> None:
        retention_ms = self._config.log_retention_check_interval_ms
        self._timers.set(RETENTION, now_ms + min(FIRST_RETENTION_MS, retention_ms))
        self._timers.set(RELEASE, now_ms + RELEASE_INTERVAL_MS)
        self._timers.set(CHECKPOINT, now_ms + CHECKPOINT_INTERVAL_MS)
        self._timers.set(EXPIRY, now_ms + EXPIRY_INTERVAL_MS)
        if self._doomed:
            self._timers.set(REMOVAL, now_ms)

    # ---------------------------------------------------------------- start

    def _recover(self, now_ms: int) -> None:
        """Open every log of the catalogue; say what the folder holds besides."""
        folders = set(self._storage.folders())
        self._finish_deletions(folders)
        recovery_points = self._read_checkpoint(RECOVERY_POINTS_FILE)
        start_offsets = self._read_checkpoint(START_OFFSETS_FILE)
        for entry in self._catalogue.topics:
            topic = self._topic_of(entry)
            for partition in range(entry.partitions):
                tp = TopicPartition(entry.name, partition)
                self._see_folder(topic, tp, folders)
                log = self._open_log(
                    topic, tp, now_ms, self.was_clean, recovery_points.get(tp, 0), start_offsets.get(tp, 0)
                )
                self.recovery_notes += log.take_notes()
            self._add(topic)
        known = {log.folder for topic in self for log in topic.partitions} | set(self._doomed)
        for folder in sorted(folders - known):
            if parse_folder(folder) is not None:
                self.recovery_notes.append(f"left untouched the folder {folder}: no topic of that name is known")

    def _topic_of(self, entry: TopicEntry) -> Topic:
        try:
            config = topic_config(self._config, entry.overrides)
        except ConfigError as error:
            raise ConfigError(f"topic {entry.name}: {error}") from error
        return Topic(entry.name, entry.topic_id, entry.overrides, config, entry.internal)

    def _finish_deletions(self, folders: set[str]) -> None:
        for folder in sorted(folders):
            if is_doomed(folder):
                self._doomed.append(folder)
            elif self._catalogue.deleted and folder_topic_id(self._storage, folder) in self._catalogue.deleted:
                folders.discard(folder)
                folders.add(self._doom(folder))

    def _see_folder(self, topic: Topic, tp: TopicPartition, folders: set[str]) -> None:
        """See that the folder of a known partition is there and is its own."""
        folder = str(tp)
        if folder not in folders:
            self.recovery_notes.append(f"{tp}: its folder was missing; it begins empty")
            self._make_folder(topic, tp)
            return
        found = folder_topic_id(self._storage, folder)
        if found is None:
            self._storage.replace(
                f"{folder}/{PARTITION_METADATA_FILE}", build_partition_metadata(topic.topic_id), durable=False
            )
        elif found != topic.topic_id:
            self._set_aside(folder, f"it belongs to topic id {uuid_to_text(found)}")
            self._make_folder(topic, tp)

    def _set_aside(self, folder: str, why: str) -> None:
        stray = stray_folder(folder, self._rng.getrandbits(128))
        self._storage.rename_folder(folder, stray)
        self.recovery_notes.append(f"{folder}: {why}; the folder is now called {stray}")

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        data = self._storage.read(name)
        try:
            return {} if data is None else parse_offsets(data)
        except ValueError as error:
            self.recovery_notes.append(f"{name} cannot be read ({error}); did without")
            return {}

    # ---------------------------------------------------------------- look-up

    def __iter__(self) -> Iterator[Topic]:
        return (self._topics[name] for name in sorted(self._topics))

    def __len__(self) -> int:
        return len(self._topics)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, or None if there is no such."""
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    # ---------------------------------------------------------------- changes

    def check_new(self, name: str, partitions: int, overrides: Mapping[str, str | None]) -> TopicConfig:
        """The options that a topic would be made with; raises what ``create`` would raise (``validate_only``)."""
        check_topic_name(name, self._topics)
        if name in self._topics:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        _check_partitions(partitions)
        return self._checked_config(overrides)

    def _checked_config(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        try:
            return topic_config(self._config, overrides)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error

    def create(
        self,
        name: str,
        partitions: int,
        overrides: Mapping[str, str | None],
        now_ms: int,
        *,
        internal: bool = False,
    ) -> Topic:
        """Make a topic; it is durable when this returns. Raises ApiError with Kafka's codes."""
        config = self.check_new(name, partitions, overrides)
        kept = {option: value for option, value in overrides.items() if value is not None}
        topic = Topic(name, new_topic_id(self._rng), kept, config, internal)
        entry = TopicEntry(name, topic.topic_id, partitions, kept, internal)
        try:
            self._save([*self._catalogue.topics, entry], self._catalogue.deleted)
            for partition in range(partitions):
                self._make_partition(topic, TopicPartition(name, partition), now_ms)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name!r}: {error}") from error
        self._add(topic)
        return topic

    def delete(self, name: str, now_ms: int = 0) -> Topic:
        """Forget a topic for good and return it; its folders are emptied by the next ticks."""
        topic = self._known(name)
        rest = [entry for entry in self._catalogue.topics if entry.name != name]
        try:
            self._save(rest, [*self._catalogue.deleted, topic.topic_id])
            del self._topics[name]
            del self._by_id[topic.topic_id]
            for log in topic.partitions:
                self._timers.cancel(log.tp)
                log.drop()
                self._doom(log.folder)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name!r}: {error}") from error
        self._catalogue.deleted = [topic_id for topic_id in self._catalogue.deleted if topic_id != topic.topic_id]
        self._timers.set(REMOVAL, now_ms)
        return topic

    def _doom(self, folder: str) -> str:
        doomed = doomed_folder(folder, self._rng.getrandbits(128))
        self._storage.rename_folder(folder, doomed)
        self._doomed.append(doomed)
        return doomed

    def add_partitions(self, name: str, total: int, now_ms: int = 0) -> Topic:
        """Let a topic have ``total`` partitions, which must be more than it has."""
        topic = self._known(name)
        present = len(topic.partitions)
        if total <= present:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, f"topic {name!r} has {present} partitions; {total} would not be more"
            )
        _check_partitions(total)
        changed = [
            TopicEntry(e.name, e.topic_id, total if e.name == name else e.partitions, e.overrides, e.internal)
            for e in self._catalogue.topics
        ]
        try:
            self._save(changed, self._catalogue.deleted)
            for partition in range(present, total):
                self._make_partition(topic, TopicPartition(name, partition), now_ms)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name!r}: {error}") from error
        return topic

    def alter_config(self, name: str, overrides: Mapping[str, str | None]) -> Topic:
        """Give a topic these options and no others; they bear on its logs at once."""
        topic = self._known(name)
        config = self._checked_config(overrides)
        kept = {option: value for option, value in overrides.items() if value is not None}
        changed = [
            TopicEntry(e.name, e.topic_id, e.partitions, kept if e.name == name else e.overrides, e.internal)
            for e in self._catalogue.topics
        ]
        self._save(changed, self._catalogue.deleted)
        topic.overrides, topic.config = kept, config
        for log in topic.partitions:
            log.config = config
        return topic

    def next_producer_id(self) -> int:
        """An id that no producer had before, nor has after a crash: ids are reserved by the thousand."""
        if self._next_producer_id >= self._block_end:
            block_end = self._block_end + PRODUCER_ID_BLOCK
            catalogue = Catalogue(self._catalogue.topics, self._catalogue.deleted, block_end)
            catalogue.save(self._storage)
            self._catalogue, self._block_end = catalogue, block_end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def _known(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def _add(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic

    def _save(self, topics: list[TopicEntry], deleted: list[bytes]) -> None:
        """Write the catalogue; only what is written is true."""
        catalogue = Catalogue(topics, deleted, self._catalogue.next_producer_id)
        catalogue.save(self._storage)
        self._catalogue = catalogue

    def _make_partition(self, topic: Topic, tp: TopicPartition, now_ms: int) -> None:
        if self._storage.files(str(tp)):
            self._set_aside(str(tp), "a topic of that name was made")
        self._make_folder(topic, tp)
        self._open_log(topic, tp, now_ms, clean=True)

    def _make_folder(self, topic: Topic, tp: TopicPartition) -> None:
        self._storage.make_folder(str(tp))
        self._storage.replace(
            f"{tp}/{PARTITION_METADATA_FILE}", build_partition_metadata(topic.topic_id), durable=False
        )

    def _open_log(
        self,
        topic: Topic,
        tp: TopicPartition,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        start_offset: int = 0,
    ) -> PartitionLog:
        log = PartitionLog(
            tp,
            self._storage,
            topic.config,
            now_ms,
            clean=clean,
            recovery_point=recovery_point,
            start_offset=start_offset,
            on_flush_due=self._timers.set,
        )
        topic.partitions.append(log)
        return log

    # ---------------------------------------------------------------- time

    @property
    def wake_at_ms(self) -> int | None:
        """When ``tick`` has something to do."""
        return self._timers.wake_at_ms

    def tick(self, now_ms: int) -> list[str]:
        """Do what is due: flush, retain, expire, write checkpoints, give back files. Says what went or was mended."""
        notes: list[str] = []
        for due in list(self._timers.pop_due(now_ms)):
            try:
                notes += self._do(due, now_ms)
            except StorageError as error:
                notes.append(f"{due}: {error}")
        return notes

    def _do(self, due: str | TopicPartition, now_ms: int) -> list[str]:
        if isinstance(due, TopicPartition):
            log = self.log(due.topic, due.partition)
            if log is not None:
                log.flush_if_due(now_ms)
            return []
        if due == REMOVAL:
            return self._remove_one(now_ms)
        if due == RETENTION:
            self._timers.set(RETENTION, now_ms + self._config.log_retention_check_interval_ms)
            return [note for log in self._logs() for note in log.retain(now_ms)]
        if due == EXPIRY:
            self._timers.set(EXPIRY, now_ms + EXPIRY_INTERVAL_MS)
            for log in self._logs():
                log.producers.expire(now_ms, self._config.producer_id_expiration_ms)
            return []
        if due == CHECKPOINT:
            self._timers.set(CHECKPOINT, now_ms + CHECKPOINT_INTERVAL_MS)
            self._write_checkpoints()
            return []
        self._timers.set(RELEASE, now_ms + RELEASE_INTERVAL_MS)
        for log in self._logs():
            log.release()
        return [note for log in self._logs() for note in log.take_notes()]

    def _remove_one(self, now_ms: int) -> list[str]:
        """Empty one folder of a deleted topic; a large one takes its time, so the others wait for the next tick."""
        if not self._doomed:
            return []
        folder = self._doomed.pop()
        if self._doomed:
            self._timers.set(REMOVAL, now_ms)
        self._storage.delete_folder(folder)
        return [f"removed {folder}"]

    def _logs(self) -> Iterator[PartitionLog]:
        return (log for topic in self for log in topic.partitions)

    def _write_checkpoints(self) -> None:
        """Write the offsets that spare the next start some work, where they changed."""
        points, starts = {}, {}
        for log in self._logs():
            log.settle()
            if log.recovery_point:
                points[log.tp] = log.recovery_point
            if log.log_start_offset > log.segments[0].base_offset:
                starts[log.tp] = log.log_start_offset
        for name, offsets in ((RECOVERY_POINTS_FILE, points), (START_OFFSETS_FILE, starts)):
            content = build_offsets(offsets)
            if self._checkpoints.get(name) != content:
                self._storage.replace(name, content)
                self._checkpoints[name] = content

    def close(self) -> list[str]:
        """Flush and close every log and mark the stop as clean; returns what went wrong, and then it was not."""
        problems = []
        for log in self._logs():
            try:
                log.close()
            except StorageError as error:
                problems.append(f"{log.tp}: {error}")
        try:
            self._write_checkpoints()
            if not problems:
                self._storage.replace(CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN)
        except StorageError as error:
            problems.append(str(error))
        return problems


def _check_partitions(partitions: int) -> None:
    if partitions < 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions; at least 1 is needed")
    if partitions > PARTITIONS_MAX:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions; at most {PARTITIONS_MAX} are made")
