"""Catalogue of the topics of a data folder: ``kohort-topics.json``, replaced once for all changes of a request.

Kafka stores names, ids, partition counts and options of topics in its metadata quorum. Without ``kohort-topics.json``
(a data folder of Kafka, or a lost file) the topics are read from the ``partition.metadata`` of each partition.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.log.data_folder import PARTITION_METADATA_FILE, parse_partition_metadata
from kohort.log.storage import Storage, read_json
from kohort.log.topic_names import parse_folder
from kohort.model import uuid_from_text, uuid_to_text
from kohort.notes import Note, warning

CATALOGUE_FILE: Final = "kohort-topics.json"
VERSION: Final = 1
PARTITIONS_MAX: Final = 10_000
"""Maximum number of partitions of a topic. In Kafka the limit applies to all partitions of one request."""
LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF
QUORUM_LOG: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
COMPACTED_IN_KAFKA: Final = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """Catalogue entry of one topic; immutable, so that its JSON is built once."""

    name: str
    topic_id: bytes
    partitions: int
    overrides: dict[str, str]
    internal: bool

    line: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        content = {
            "name": self.name,
            "topic_id": uuid_to_text(self.topic_id),
            "partitions": self.partitions,
            "overrides": self.overrides,
            "internal": self.internal,
        }
        object.__setattr__(self, "line", json.dumps(content).encode())


@dataclass(slots=True)
class Catalogue:
    topics: dict[str, TopicEntry] = field(default_factory=dict)
    deleted: list[bytes] = field(default_factory=list)
    """Ids of deleted topics; their folders may still exist."""
    next_producer_id: int = 0
    cluster_id: str = ""
    """Cluster id that replaces a lost ``meta.properties``; "" if unknown."""

    def save(self, storage: Storage) -> None:
        head = {
            "version": VERSION,
            "cluster_id": self.cluster_id,
            "next_producer_id": self.next_producer_id,
            "deleted": [uuid_to_text(topic_id) for topic_id in self.deleted],
        }
        text = json.dumps(head).encode()[:-1] + b',\n "topics": [\n'
        text += b",\n".join([entry.line for entry in self.topics.values()]) + b"\n]}\n"
        storage.replace(CATALOGUE_FILE, text)


def load_catalogue(storage: Storage, notes: list[Note]) -> Catalogue:
    """Load the catalogue, or rebuild it from the folders. Raises StorageError if it is malformed."""
    advice = "Repair the file, or delete it: the next start reads the topics from their folders, without their options"
    found = read_json(storage, CATALOGUE_FILE, _parse, advice)
    return _from_folders(storage, notes) if found is None else found


def _parse(content: Any) -> Catalogue:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    catalogue = Catalogue(
        next_producer_id=_number(content, "next_producer_id", 0, LONG_MAX),
        cluster_id=str(content.get("cluster_id", "")),
    )
    catalogue.deleted = [uuid_from_text(text) for text in content["deleted"]]
    for entry in map(_entry, content["topics"]):
        if entry.name in catalogue.topics:
            raise ValueError(f"topic {entry.name} occurs twice")
        catalogue.topics[entry.name] = entry
    if len({entry.topic_id for entry in catalogue.topics.values()}) < len(catalogue.topics):
        raise ValueError("two topics have the same id")
    return catalogue


def _entry(topic: Any) -> TopicEntry:
    name, partitions = topic["name"], _number(topic, "partitions", 1, PARTITIONS_MAX)
    if parse_folder(f"{name}-0") != (name, 0):
        raise ValueError(f"invalid topic name {name!r}")
    overrides = {str(option): str(value) for option, value in topic["overrides"].items()}
    return TopicEntry(name, uuid_from_text(topic["topic_id"]), partitions, overrides, bool(topic["internal"]))


def _number(content: Any, name: str, least: int, most: int) -> int:
    value = content[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, expected {least} to {most}")
    return value


def _from_folders(storage: Storage, notes: list[Note]) -> Catalogue:
    found: dict[str, TopicEntry] = {}
    for folder in storage.folders():
        tp = parse_folder(folder)
        topic_id = folder_topic_id(storage, folder)
        if tp is None or topic_id is None or tp.topic == QUORUM_LOG:
            continue
        known = found.get(tp.topic)
        partitions = max(known.partitions if known else 0, tp.partition + 1)
        internal = tp.topic in COMPACTED_IN_KAFKA
        overrides = {"cleanup.policy": "compact"} if internal else {}
        topic_id = known.topic_id if known else topic_id
        found[tp.topic] = TopicEntry(tp.topic, topic_id, partitions, overrides, internal)
    if found:
        names = ", ".join(sorted(found))
        notes.append(warning(f"{CATALOGUE_FILE} is missing: read {names} from their folders, with default options"))
    return Catalogue(topics=found)


def folder_topic_id(storage: Storage, folder: str) -> bytes | None:
    """Return the topic id of a folder's ``partition.metadata``; None without a valid file."""
    data = storage.read(f"{folder}/{PARTITION_METADATA_FILE}")
    if data is None:
        return None
    try:
        return parse_partition_metadata(data)
    except ValueError:
        return None
