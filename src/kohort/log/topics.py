"""The topics of a broker and the logs of their partitions: recovered at start, made, deleted, looked after.

A change is written to the catalogue first and to the folders after; a start finishes what was interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.clock import Rng
from kohort.config import BrokerConfig, TopicConfig, topic_config
from kohort.config.topic import check_lags
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.catalogue import PARTITIONS_MAX, Catalogue, TopicEntry, folder_topic_id, load_catalogue
from kohort.log.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEAN_SHUTDOWN_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINTS_FILE,
    START_OFFSETS_FILE,
    build_partition_metadata,
    parse_offsets,
)
from kohort.log.identity import claim_identity, new_topic_id
from kohort.log.names import check_topic_name, doomed_folder, is_doomed, parse_folder, stray_folder
from kohort.log.partition import PartitionLog
from kohort.log.storage import Room, Storage
from kohort.log.upkeep import Upkeep
from kohort.model import TopicPartition, uuid_to_text
from kohort.notes import Note, info, warning

PRODUCER_ID_BLOCK: Final = 1000


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
        self._upkeep = Upkeep(storage, config, self._logs, now_ms)
        self.recovery_notes: list[Note] = []
        """What the start found and mended, one sentence each."""
        self._refusals: list[Note] = []
        self._catalogue = load_catalogue(storage, self.recovery_notes)
        remembered = self._catalogue.cluster_id
        self.cluster_id, self.node_id = claim_identity(storage, config, rng, remembered, self.recovery_notes)
        if remembered != self.cluster_id:
            self._catalogue.cluster_id = self.cluster_id
            if self._catalogue.topics:
                self._catalogue.save(storage)
        self.was_clean = storage.read(CLEAN_SHUTDOWN_FILE) is not None
        """Whether the last stop left nothing to recover."""
        self._next_producer_id = self._block_end = self._catalogue.next_producer_id
        self._recover(now_ms)
        storage.delete(CLEAN_SHUTDOWN_FILE)

    @property
    def place(self) -> str:
        """The folder of the logs."""
        return self._storage.place

    def room(self) -> Room:
        """The room on its disk. Raises StorageError where the disk says nothing."""
        return self._storage.room()

    # ---------------------------------------------------------------- start

    def _recover(self, now_ms: int) -> None:
        """Open every log of the catalogue; say what the folder holds besides."""
        folders = set(self._storage.folders())
        self._finish_deletions(folders, now_ms)
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
        checked = sum(1 for log in self._logs() if log.size_bytes)
        if checked and not self.was_clean:
            said = f"the last stop was not clean: checked {checked} logs from their recovery points"
            self.recovery_notes.append(info(said))
        self._upkeep.recovered(self._logs())
        known = {log.folder for log in self._logs()}
        for folder in sorted(folders - known):
            if parse_folder(folder) is not None:
                said = f"left untouched the folder {folder}: no topic of that name is known"
                self.recovery_notes.append(warning(said))

    def _topic_of(self, entry: TopicEntry) -> Topic:
        try:
            config = topic_config(self._config, entry.overrides)
        except ConfigError as error:
            raise ConfigError(f"topic {entry.name}: {error}") from error
        return Topic(entry.name, entry.topic_id, entry.overrides, config, entry.internal)

    def _finish_deletions(self, folders: set[str], now_ms: int) -> None:
        """A deletion that a stop interrupted goes on."""
        for folder in sorted(folders):
            if is_doomed(folder):
                self._upkeep.remove(folder, now_ms)
            elif self._catalogue.deleted and folder_topic_id(self._storage, folder) in self._catalogue.deleted:
                folders.discard(folder)
                self._doom(folder, now_ms)

    def _see_folder(self, topic: Topic, tp: TopicPartition, folders: set[str]) -> None:
        """See that the folder of a known partition is there and is its own."""
        folder = str(tp)
        if folder not in folders:
            self.recovery_notes.append(warning(f"{tp}: its folder was missing; it begins empty"))
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
        self.recovery_notes.append(warning(f"{folder}: {why}; the folder is now called {stray}"))

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        data = self._storage.read(name)
        try:
            return {} if data is None else parse_offsets(data)
        except ValueError as error:
            self.recovery_notes.append(warning(f"{name} cannot be read ({error}); did without"))
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
        return self.check_config(overrides)

    def check_config(self, overrides: Mapping[str, str | None]) -> TopicConfig:
        """The options that a topic of these overrides has. Raises ApiError INVALID_CONFIG."""
        try:
            config = topic_config(self._config, overrides)
            check_lags(config)
        except ConfigError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error
        return config

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
        others = self._catalogue.topics
        self._save([*others, entry], self._catalogue.deleted)
        try:
            for partition in range(partitions):
                self._make_partition(topic, TopicPartition(name, partition), now_ms)
        except StorageError as error:
            self._catalogue.topics = others
            self._catalogue.deleted.append(topic.topic_id)
            raise self._refused(name, error) from error
        self._add(topic)
        return topic

    def delete(self, name: str, now_ms: int = 0) -> Topic:
        """Forget a topic for good and return it; its folders are emptied by the next ticks."""
        topic = self._known(name)
        rest = [entry for entry in self._catalogue.topics if entry.name != name]
        self._save(rest, [*self._catalogue.deleted, topic.topic_id])
        del self._topics[name]
        del self._by_id[topic.topic_id]
        try:
            for log in topic.partitions:
                self._upkeep.forget(log.tp)
                log.drop()
                self._doom(log.folder, now_ms)
            self._upkeep.write_checkpoints()
        except StorageError as error:
            raise self._refused(name, error) from error
        self._catalogue.deleted = [topic_id for topic_id in self._catalogue.deleted if topic_id != topic.topic_id]
        return topic

    def _doom(self, folder: str, now_ms: int) -> None:
        doomed = doomed_folder(folder, self._rng.getrandbits(128))
        self._storage.rename_folder(folder, doomed)
        self._upkeep.remove(doomed, now_ms)

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
            for partition in range(present, total):
                self._make_partition(topic, TopicPartition(name, partition), now_ms)
            self._save(changed, self._catalogue.deleted)  # last: what was refused must not be there after a restart
        except (StorageError, ApiError) as error:
            for log in topic.partitions[present:]:
                self._upkeep.forget(log.tp)
                log.drop()
            del topic.partitions[present:]
            raise self._refused(name, error) from error
        return topic

    def alter_config(self, name: str, overrides: Mapping[str, str | None]) -> Topic:
        """Give a topic these options and no others; they bear on its logs at once."""
        topic = self._known(name)
        config = self.check_config(overrides)
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
            self._save(self._catalogue.topics, self._catalogue.deleted, block_end)
            self._block_end = block_end
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

    def _save(self, topics: list[TopicEntry], deleted: list[bytes], next_producer_id: int | None = None) -> None:
        """Write the catalogue; only what is written is true."""
        if next_producer_id is None:
            next_producer_id = self._catalogue.next_producer_id
        catalogue = Catalogue(topics, deleted, next_producer_id, self.cluster_id)
        try:
            catalogue.save(self._storage)
        except StorageError as error:
            self.tell(warning(f"the catalogue of topics cannot be written: {error}", "catalogue"))
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        self._catalogue = catalogue

    def _refused(self, name: str, error: StorageError | ApiError) -> ApiError:
        self.tell(warning(f"topic {name!r} cannot be changed: {error}", ("disk", name)))
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"topic {name!r}: {error}")

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
            on_flush_due=self._upkeep.flush_at,
            tell=self.tell,
        )
        topic.partitions.append(log)
        return log

    # ---------------------------------------------------------------- time

    @property
    def wake_at_ms(self) -> int | None:
        """When ``tick`` has something to do."""
        return self._upkeep.wake_at_ms

    def tick(self, now_ms: int) -> list[Note]:
        """Do what is due: flush, retain, expire, write checkpoints, give back files. Says what went or was mended."""
        return self._upkeep.tick(now_ms)

    def tell(self, refused: Note) -> None:
        """Have the broker's log say what the disk refused."""
        self._refusals.append(refused)

    def take_refusals(self) -> list[Note]:
        """What the disk refused to those who asked since the last call: their answers had KAFKA_STORAGE_ERROR."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def _logs(self) -> Iterator[PartitionLog]:
        return (log for topic in self for log in topic.partitions)

    def close(self) -> list[str]:
        """Flush and close every log and mark the stop as clean; returns what went wrong, and then it was not."""
        problems = []
        self._upkeep.close()
        for log in self._logs():
            try:
                log.close()
            except StorageError as error:
                problems.append(f"{log.tp}: {error}")
        try:
            self._upkeep.write_checkpoints()
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
