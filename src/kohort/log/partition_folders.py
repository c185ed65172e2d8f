"""Folders of partitions: created, checked at the start, set aside, deleted with their topic.

A topic is deleted once the catalogue says so. Its folders are renamed after that, in steps; a topic recreated under
the name renames those in its way first.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.clock import Rng
from kohort.errors import StorageError
from kohort.log.catalogue import folder_topic_id
from kohort.log.data_folder import PARTITION_METADATA_FILE, build_partition_metadata
from kohort.log.partition import PartitionLog
from kohort.log.storage import Storage
from kohort.log.topic_names import doomed_folder, stray_folder
from kohort.log.upkeep import Upkeep
from kohort.model import TopicPartition, uuid_to_text
from kohort.notes import Note, warning
from kohort.steps import Pace, Steps

GIVE_UP_US = 80


class PartitionFolders:
    """The folders of one data folder. Every method may raise StorageError."""

    def __init__(self, storage: Storage, rng: Rng, upkeep: Upkeep, notes: list[Note]) -> None:
        self._storage = storage
        self._rng = rng
        self._upkeep = upkeep
        self._notes = notes
        self._leaving: dict[str, PartitionLog] = {}
        """Logs of deleted topics by folder, before its rename."""

    def see(self, topic_id: bytes, tp: TopicPartition, folders: set[str]) -> None:
        """Check that the folder of a known partition exists and has its topic id."""
        folder = str(tp)
        found = folder_topic_id(self._storage, folder) if folder in folders else None
        if found is not None and found != topic_id:
            self._set_aside(folder, f"it belongs to topic id {uuid_to_text(found)}")
        if found != topic_id:
            if found is None:
                said = f"{PARTITION_METADATA_FILE} was missing or cannot be read; written anew"
                said = said if folder in folders else "its folder was missing; it begins empty"
                self._notes.append(warning(f"{tp}: {said}"))
            self._make_if_room(topic_id, tp)

    def _make_if_room(self, topic_id: bytes, tp: TopicPartition) -> None:
        """Make the folder at the start. On a full disk the partition's appends fail."""
        try:
            self._make(topic_id, str(tp))
        except StorageError as error:
            self._notes.append(warning(f"{tp}: {error}; make room and start again, or appends to it may be refused"))

    def make(self, topic_id: bytes, tp: TopicPartition, now_ms: int) -> None:
        folder = str(tp)
        leaving = self._leaving.get(folder)
        if leaving is not None:
            self._give_up(leaving, now_ms)
        if self._storage.files(folder):
            self._set_aside(folder, "a topic of that name was made")
        self._make(topic_id, folder)

    def leave(self, logs: Iterable[PartitionLog]) -> None:
        """Exclude the logs of a deleted topic from checkpoints; ``give_up`` follows."""
        for log in logs:
            self._leaving[log.folder] = log
            self._upkeep.forget(log.tp)

    def give_up(self, logs: Iterable[PartitionLog], now_ms: int, pace: Pace) -> Steps[None]:
        """Close the logs of a deleted topic and remove their folders. The next start retries failures."""
        refused = None
        for log in logs:
            if self._leaving.get(log.folder) is log:
                try:
                    self._give_up(log, now_ms)
                except StorageError as error:
                    refused = error
                if pace.is_due(GIVE_UP_US):
                    yield
        if refused is not None:
            raise refused

    def _give_up(self, log: PartitionLog, now_ms: int) -> None:
        del self._leaving[log.folder]
        log.drop()
        self.doom(log.folder, now_ms)

    def doom(self, folder: str, now_ms: int) -> None:
        doomed = doomed_folder(folder, self._rng.getrandbits(128))
        self._storage.rename_folder(folder, doomed)
        self._upkeep.remove(doomed, now_ms)

    def close(self) -> None:
        for log in self._leaving.values():
            log.drop()

    def _make(self, topic_id: bytes, folder: str) -> None:
        self._storage.make_folder(folder)
        self._claim(topic_id, folder)

    def _claim(self, topic_id: bytes, folder: str) -> None:
        name = f"{folder}/{PARTITION_METADATA_FILE}"
        self._storage.replace(name, build_partition_metadata(topic_id), durable=False)

    def _set_aside(self, folder: str, why: str) -> None:
        stray = stray_folder(folder, self._rng.getrandbits(128))
        self._storage.rename_folder(folder, stray)
        self._notes.append(warning(f"{folder}: {why}; the folder is now called {stray}"))
