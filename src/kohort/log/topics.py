"""Topics of a broker and the logs of their partitions.

A request that creates, deletes or grows topics first saves the catalogue once, then changes the folders of its topics
in steps: each folder costs system calls. The next broker start finishes an interrupted change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from kohort.clock import Rng, WallTime, random_uuid
from kohort.config import BrokerConfig, TopicConfig, topic_config
from kohort.config.topic import check_lags, usable_overrides
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.aborted import AbortedPages
from kohort.log.catalogue import PARTITIONS_MAX, Catalogue, TopicEntry, folder_topic_id, load_catalogue
from kohort.log.data_folder import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_FILE,
    RECOVERY_POINTS_FILE,
    START_OFFSETS_FILE,
    ensure_cluster_id,
    load_offsets,
)
from kohort.log.partition import LogCheckpoint, LogCounters, LogHooks, PartitionLog
from kohort.log.partition_folders import PartitionFolders
from kohort.log.producers import ProducerRoom
from kohort.log.storage import Storage
from kohort.log.topic_names import TakenNames, is_deleted_folder, parse_folder
from kohort.log.upkeep import Upkeep
from kohort.model import TopicPartition
from kohort.notes import Note, info, warning
from kohort.steps import Pace, Steps, at_once

CONFIGS_KEPT: Final = 100
"""Number of cached topic configurations: most topics have the same overrides."""


class TopicConfigs:
    def __init__(self, broker: BrokerConfig) -> None:
        self.cached = lru_cache(CONFIGS_KEPT)(lambda overrides: topic_config(broker, dict(overrides)))

    def of(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        return self.cached(tuple(sorted(overrides.items())))


PRODUCER_ID_BLOCK: Final = 1000
CHECK_US: Final = 40
REFUSE_US: Final = 600  # includes the search for the nearest option name
MAKE_US: Final = 400
RECONFIGURE_US: Final = 8
"""Costs in microseconds: to check a new topic, to reject a topic, to create a partition, to reconfigure a log."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int
    overrides: Mapping[str, str | None]
    internal: bool = False


@dataclass(slots=True, eq=False)
class Topic:
    name: str
    topic_id: bytes
    overrides: dict[str, str]
    config: TopicConfig
    internal: bool
    partitions: list[PartitionLog] = field(default_factory=list)
    made_at_ms: int | None = None
    """Time in ms at which the topic was created; None for topics loaded at the broker start."""


class Topics:
    """Topics of one data folder. Names are case-sensitive; iteration is in the order of names."""

    def __init__(self, storage: Storage, config: BrokerConfig, rng: Rng, now_ms: int) -> None:
        self.storage = storage
        self._rng = rng
        self._topics: dict[str, Topic] = {}
        self.version = 0
        self._by_id: dict[bytes, Topic] = {}
        self._names = TakenNames()
        self._configs = TopicConfigs(config)
        self._making: dict[str, Topic] = {}
        self._growing: dict[str, list[PartitionLog]] = {}
        self.producer_room = ProducerRoom(config, lambda: (log.producers for log in self._logs()), self.report)
        self.aborted_pages, self.counters, self.wall = AbortedPages(), LogCounters(), WallTime()
        self._upkeep = Upkeep(storage, config, self._logs, self.producer_room, now_ms, self.wall)
        self._hooks = LogHooks(
            self._upkeep.flush_at, self.report, self.counters, self.producer_room, self.aborted_pages, self.wall
        )
        self.recovery_notes: list[Note] = []
        self._folders = PartitionFolders(storage, rng, self._upkeep, self.recovery_notes)
        self._disk_errors: list[Note] = []
        self._catalogue = load_catalogue(storage, self.recovery_notes)
        catalogue_cluster_id = self._catalogue.cluster_id
        self.cluster_id = ensure_cluster_id(storage, config, rng, catalogue_cluster_id, self.recovery_notes)
        self.node_id = config.node_id
        if catalogue_cluster_id != self.cluster_id:
            self._catalogue.cluster_id = self.cluster_id
            if self._catalogue.topics:
                self._catalogue.save(storage)
        self.was_clean = storage.read(CLEAN_SHUTDOWN_FILE) is not None
        self._next_producer_id = self._block_end = self._catalogue.next_producer_id
        self._recover(now_ms)
        storage.delete(CLEAN_SHUTDOWN_FILE)

    # ---------------------------------------------------------------- start

    def _recover(self, now_ms: int) -> None:
        folders = set(self.storage.folders())
        self._finish_deletions(folders, now_ms)
        recovery_points = load_offsets(self.storage, RECOVERY_POINTS_FILE, self.recovery_notes)
        start_offsets = load_offsets(self.storage, START_OFFSETS_FILE, self.recovery_notes)
        for entry in self._catalogue.topics.values():
            topic = self._topic_of(entry)
            for partition in range(entry.partitions):
                tp = TopicPartition(entry.name, partition)
                self._folders.check(topic.topic_id, tp, folders)
                at_start = LogCheckpoint(self.was_clean, recovery_points.get(tp, 0), start_offsets.get(tp, 0))
                log = self._open_log(topic, tp, now_ms, at_start)
                topic.partitions.append(log)
                self.recovery_notes += log.take_notes()
            self._add(topic)
        checked = sum(1 for log in self._logs() if log.size_bytes)
        if checked and not self.was_clean:
            self.recovery_notes.append(
                info(f"the last stop was not clean: checked {checked} logs from their recovery points")
            )
        self._upkeep.cleaner.keep_only(log.tp for log in self._logs())
        self.producer_room.count()
        known = {log.folder for log in self._logs()}
        for folder in sorted(folders - known):
            if parse_folder(folder) is not None:
                self.recovery_notes.append(warning(f"ignored the folder {folder}: the catalogue has no such topic"))

    def _topic_of(self, entry: TopicEntry) -> Topic:
        usable, problems = usable_overrides(entry.overrides)
        for problem in problems:
            self.recovery_notes.append(warning(f"topic {entry.name}: the broker's default applies: {problem}"))
        return Topic(entry.name, entry.topic_id, usable, self._configs.of(usable), entry.internal)

    def _finish_deletions(self, folders: set[str], now_ms: int) -> None:
        for folder in sorted(folders):
            if is_deleted_folder(folder):
                self._upkeep.remove(folder, now_ms)
            elif self._catalogue.deleted and folder_topic_id(self.storage, folder) in self._catalogue.deleted:
                folders.discard(folder)
                self._folders.mark_deleted(folder, now_ms)

    # ---------------------------------------------------------------- lookup

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
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    # ---------------------------------------------------------------- changes

    def check_new(self, new: NewTopic) -> TopicConfig:
        self._names.check_new(new.name)
        _check_partitions(new.partitions)
        return self.check_config(new.overrides)

    def check_config(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        try:
            config = self._configs.of(overrides)
            check_lags(config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return config

    def reconfigure(self, config: BrokerConfig) -> Steps[None]:
        """Apply changed broker options: to new topics at once, to logs and timers in steps."""
        self._configs = TopicConfigs(config)
        self.producer_room.expire_after_ms = config.producer_id_expiration_ms
        self._upkeep.cleaner.config = config
        pace = Pace()
        for topic in (*self._topics.values(), *self._making.values()):
            topic.config = self._configs.of(topic.overrides)
            for log in topic.partitions:
                log.config = topic.config
                if pace.is_due(RECONFIGURE_US):
                    yield

    def create(
        self, name: str, partitions: int, overrides: Mapping[str, str | None], now_ms: int, *, internal: bool = False
    ) -> Topic:
        """Create a topic, durably. Raises ApiError with Kafka's codes."""
        (made,) = at_once(self.create_all([NewTopic(name, partitions, overrides, internal)], now_ms))
        if isinstance(made, ApiError):
            raise made
        return made

    def create_all(self, wanted: Sequence[NewTopic], now_ms: int) -> Steps[list[Topic | ApiError]]:
        """Create topics durably; return a topic or an error for each. A topic becomes visible with all partitions.

        The catalogue is saved before the first folder is created: a broker start creates missing folders.
        """
        pace = Pace()
        results: list[Topic | ApiError] = []
        for new in wanted:
            result = self._begin(new)
            results.append(result)
            if pace.is_due(REFUSE_US if isinstance(result, ApiError) else CHECK_US):
                yield
        prefix = [result for result in results if isinstance(result, Topic)]
        counts = {new.name: new.partitions for new in wanted}
        entries = {}
        for t in prefix:
            entries[t.name] = TopicEntry(t.name, t.topic_id, counts[t.name], t.overrides, t.internal)
            if pace.is_due(CHECK_US):
                yield
        try:
            if prefix:
                self._save({**self._catalogue.topics, **entries}, self._catalogue.deleted)
        except ApiError as error:
            for refused in prefix:
                self._discard(refused)
            return [error if isinstance(result, Topic) else result for result in results]
        failed: dict[str, ApiError] = {}
        for topic in prefix:
            try:
                yield from self._make_partitions(topic, topic.partitions, counts[topic.name], now_ms, pace)
            except StorageError as error:
                self._discard(topic)
                del self._catalogue.topics[topic.name]
                self._catalogue.deleted.append(topic.topic_id)
                failed[topic.name] = self._refused(topic.name, error)
            else:
                del self._making[topic.name]
                topic.made_at_ms = now_ms
                self._add(topic)
        return [failed.get(result.name, result) if isinstance(result, Topic) else result for result in results]

    def _begin(self, new: NewTopic) -> Topic | ApiError:
        try:
            config = self.check_new(new)
        except ApiError as error:
            return error.with_traceback(None)  # the result must not keep the frames of the traceback alive
        kept = {option: value for option, value in new.overrides.items() if value is not None}
        topic = Topic(new.name, random_uuid(self._rng), kept, config, new.internal)
        self._making[new.name] = topic
        self._names.add(new.name)
        return topic

    def _discard(self, topic: Topic) -> None:
        del self._making[topic.name]
        self._names.discard(topic.name)
        for log in topic.partitions:
            self._upkeep.forget(log.tp)
            log.drop()

    def _make_partitions(
        self, topic: Topic, made: list[PartitionLog], total: int, now_ms: int, pace: Pace
    ) -> Steps[None]:
        present = 0 if made is topic.partitions else len(topic.partitions)
        while (partition := present + len(made)) < total:
            tp = TopicPartition(topic.name, partition)
            self._folders.make(topic.topic_id, tp, now_ms)
            made.append(self._open_log(topic, tp, now_ms, LogCheckpoint(clean=True)))
            if pace.is_due(MAKE_US):
                yield

    def delete(self, name: str, now_ms: int = 0) -> Topic:
        """Delete a topic and return it; later ticks delete its folders."""
        (gone,) = at_once(self.delete_all([name], now_ms))
        if isinstance(gone, ApiError):
            raise gone
        return gone

    def delete_all(self, names: Sequence[str], now_ms: int) -> Steps[list[Topic | ApiError]]:
        """Delete topics from the catalogue, then their folders in steps; return a topic or an error for each."""
        results: list[Topic | ApiError] = [self._topics.get(name) or _unknown(name) for name in names]
        gone = {topic.name: topic for topic in results if isinstance(topic, Topic)}
        ids = [topic.topic_id for topic in gone.values()]
        rest = {name: entry for name, entry in self._catalogue.topics.items() if name not in gone}
        try:
            if gone:
                self._save(rest, [*self._catalogue.deleted, *ids])
        except ApiError as error:
            return [error if isinstance(result, Topic) else result for result in results]
        for topic in gone.values():
            self.version += 1
            del self._topics[topic.name]
            del self._by_id[topic.topic_id]
            self._names.discard(topic.name)
        leaving = {name: [*topic.partitions, *self._growing.pop(name, ())] for name, topic in gone.items()}
        for logs in leaving.values():
            self._folders.exclude(logs)
        refused: dict[str, ApiError] = {}
        try:
            if gone:  # a recreated topic must not load the checkpoints of the deleted one
                yield from self._upkeep.write_checkpoints_in_steps()
        except StorageError as error:
            refused |= {name: self._refused(name, error) for name in gone}
        pace = Pace()
        for name, logs in leaving.items():
            try:
                yield from self._folders.delete_in_steps(logs, now_ms, pace)
            except StorageError as error:
                refused[name] = self._refused(name, error)
        done = {topic.topic_id for topic in gone.values() if topic.name not in refused}
        self._catalogue.deleted = [topic_id for topic_id in self._catalogue.deleted if topic_id not in done]
        return [refused.get(result.name, result) if isinstance(result, Topic) else result for result in results]

    def add_partitions(self, name: str, total: int, now_ms: int = 0) -> Topic:
        """Grow a topic to ``total`` partitions. Raises ApiError unless ``total`` is larger."""
        return at_once(self.add_partitions_in_steps(name, total, now_ms))

    def add_partitions_in_steps(self, name: str, total: int, now_ms: int) -> Steps[Topic]:
        """Grow a topic in steps; all new partitions become visible at the end, or none."""
        topic = self._known(name)
        present = len(topic.partitions)
        if total <= present:
            problem = f"topic {name!r} has {present} partitions; {total} is not more"
            raise ApiError(ErrorCode.INVALID_PARTITIONS, problem)
        _check_partitions(total)
        if name in self._growing:
            problem = f"another request is adding partitions to topic {name!r}"
            raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, problem)
        made = self._growing[name] = []
        try:
            for _ in self._make_partitions(topic, made, total, now_ms, Pace()):
                yield
                if self._growing.get(name) is not made:  # the topic and its folders were deleted during the steps
                    raise _unknown(name)
            entry = TopicEntry(name, topic.topic_id, total, topic.overrides, topic.internal)
            self._save({**self._catalogue.topics, name: entry}, self._catalogue.deleted)
        except (StorageError, ApiError) as error:
            if self._growing.get(name) is not made:
                raise
            del self._growing[name]
            for log in made:
                self._upkeep.forget(log.tp)
                log.drop()
            raise self._refused(name, error) from error
        del self._growing[name]
        for log in made:
            if log.config is not topic.config:
                log.config = topic.config
        topic.partitions += made
        self.version += 1
        return topic

    def alter_config(self, name: str, overrides: Mapping[str, str | None]) -> Topic:
        """Replace the overrides of a topic and apply them to its logs."""
        topic = self._known(name)
        config = self.check_config(overrides)
        kept = {option: value for option, value in overrides.items() if value is not None}
        entry = TopicEntry(name, topic.topic_id, len(topic.partitions), kept, topic.internal)
        self._save({**self._catalogue.topics, name: entry}, self._catalogue.deleted)
        topic.overrides, topic.config = kept, config
        for log in topic.partitions:
            log.config = config
        return topic

    def next_producer_id(self) -> int:
        """Return a unique producer id; ids are reserved in blocks, so that no id repeats after a crash."""
        if self._next_producer_id >= self._block_end:
            block_end = self._block_end + PRODUCER_ID_BLOCK
            self._save(self._catalogue.topics, self._catalogue.deleted, block_end)
            self._block_end = block_end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def _known(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise _unknown(name)
        return topic

    def _add(self, topic: Topic) -> None:
        self.version += 1
        self._topics[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._names.add(topic.name)

    def _save(self, topics: dict[str, TopicEntry], deleted: list[bytes], next_producer_id: int | None = None) -> None:
        if next_producer_id is None:
            next_producer_id = self._catalogue.next_producer_id
        catalogue = Catalogue(topics, deleted, next_producer_id, self.cluster_id)
        try:
            catalogue.save(self.storage)
        except StorageError as error:
            self.report(warning(f"cannot write the topic catalogue: {error}", "catalogue"))
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._catalogue = catalogue

    def _refused(self, name: str, error: StorageError | ApiError) -> ApiError:
        self.report(warning(f"cannot change topic {name!r}: {error}", ("disk", name)))
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name!r}: {error}")

    def _open_log(self, topic: Topic, tp: TopicPartition, now_ms: int, known: LogCheckpoint) -> PartitionLog:
        return PartitionLog(tp, self.storage, topic.config, now_ms, known, self._hooks)

    # ---------------------------------------------------------------- timers

    @property
    def wake_at_ms(self) -> int | None:
        return self._upkeep.wake_at_ms

    def tick(self, now_ms: int) -> list[Note]:
        """Run due flushes, retention, compaction and checkpoints; return notes."""
        return self._upkeep.tick(now_ms)

    def report(self, error: Note) -> None:
        self._disk_errors.append(error)

    def take_disk_errors(self) -> list[Note]:
        """Return the disk errors since the last call; the requests were answered with KAFKA_STORAGE_ERROR."""
        errors, self._disk_errors = self._disk_errors, []
        return errors

    def _logs(self) -> Iterator[PartitionLog]:
        return (log for topic in self for log in topic.partitions)

    def close(self) -> list[str]:
        """Close all logs and mark the stop as clean; return the problems that make it unclean."""
        problems = []
        self._upkeep.cleaner.abandon()
        self._folders.close()
        for logs in (*(topic.partitions for topic in self._making.values()), *self._growing.values()):
            for log in logs:
                log.drop()
        for log in self._logs():
            try:
                log.close()
            except StorageError as error:
                problems.append(f"{log.tp}: {error}")
        try:
            self._upkeep.write_checkpoints()
            if not problems:
                self.storage.replace(CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN)
        except StorageError as error:
            problems.append(str(error))
        return problems


def _unknown(name: str) -> ApiError:
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")


def _check_partitions(partitions: int) -> None:
    if partitions < 1:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions; at least 1 is required")
    if partitions > PARTITIONS_MAX:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"{partitions} partitions; at most {PARTITIONS_MAX} are allowed")
