"""Folders of partitions: created, checked at broker start, renamed on a conflict, deleted with their topic.

The deletion of a topic begins when the catalogue without the topic is saved. Then its folders are renamed, and deleted
later in steps. A new topic of the same name first renames the remaining folders of the deleted topic.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.clock import Rng
from kohort.errors import StorageError
from kohort.log.catalogue import folder_topic_id
from kohort.log.data_folder import PARTITION_METADATA_FILE, build_partition_metadata
from kohort.log.partition import PartitionLog
from kohort.log.storage import Storage
from kohort.log.topic_names import renamed_folder
from kohort.log.upkeep import Upkeep
from kohort.model import TopicPartition, uuid_to_text
from kohort.notes import Note, warning
from kohort.steps import Pace, Steps

DELETE_US = 80


class PartitionFolders:
    """Partition folders of one data folder. Every method may raise StorageError."""

    def __init__(self, storage: Storage, rng: Rng, upkeep: Upkeep, notes: list[Note]) -> None:
        self._storage = storage
        self._rng = rng
        self._upkeep = upkeep
        self._notes = notes
        self._leaving: dict[str, PartitionLog] = {}
        """Logs of deleted topics whose folders are not yet renamed, as a dict: folder to log."""

    def check(self, topic_id: bytes, tp: TopicPartition, folders: set[str]) -> None:
        """Check at broker start that a partition's folder exists and has the topic's id; repair it."""
        folder = str(tp)
        found = folder_topic_id(self._storage, folder) if folder in folders else None
        if found is not None and found != topic_id:
            self._set_aside(folder, f"it belongs to topic id {uuid_to_text(found)}")
        if found != topic_id:
            if found is None and folder in folders:
                self._notes.append(warning(f"{tp}: {PARTITION_METADATA_FILE} was missing or damaged; recreated"))
            elif found is None:
                self._notes.append(warning(f"{tp}: its folder was missing; the partition begins empty"))
            try:
                self._make(topic_id, folder)
            except StorageError as error:
                self._notes.append(warning(f"{tp}: {error}; free disk space and restart, else appends may fail"))

    def make(self, topic_id: bytes, tp: TopicPartition, now_ms: int) -> None:
        folder = str(tp)
        leaving = self._leaving.get(folder)
        if leaving is not None:
            self._delete(leaving, now_ms)
        if self._storage.files(folder):
            self._set_aside(folder, "a topic with this name was created")
        self._make(topic_id, folder)

    def exclude(self, logs: Iterable[PartitionLog]) -> None:
        """Exclude the logs of a deleted topic from checkpoints; ``delete_in_steps`` follows."""
        for log in logs:
            self._leaving[log.folder] = log
            self._upkeep.forget(log.tp)

    def delete_in_steps(self, logs: Iterable[PartitionLog], now_ms: int, pace: Pace) -> Steps[None]:
        """Close the logs of a deleted topic and delete their folders. The next broker start retries failures."""
        failed = None
        for log in logs:
            if self._leaving.get(log.folder) is log:
                try:
                    self._delete(log, now_ms)
                except StorageError as error:
                    failed = error
                if pace.is_due(DELETE_US):
                    yield
        if failed is not None:
            raise failed

    def _delete(self, log: PartitionLog, now_ms: int) -> None:
        del self._leaving[log.folder]
        log.drop()
        self.mark_deleted(log.folder, now_ms)

    def mark_deleted(self, folder: str, now_ms: int) -> None:
        renamed = renamed_folder(folder, self._rng.getrandbits(128), "delete")
        self._storage.rename_folder(folder, renamed)
        self._upkeep.remove(renamed, now_ms)

    def close(self) -> None:
        for log in self._leaving.values():
            log.drop()

    def _make(self, topic_id: bytes, folder: str) -> None:
        self._storage.make_folder(folder)
        name = f"{folder}/{PARTITION_METADATA_FILE}"
        self._storage.replace(name, build_partition_metadata(topic_id), durable=False)

    def _set_aside(self, folder: str, why: str) -> None:
        stray = renamed_folder(folder, self._rng.getrandbits(128), "stray")
        self._storage.rename_folder(folder, stray)
        self._notes.append(warning(f"{folder}: {why}; renamed the folder to {stray}"))
