"""Small text files beside the logs, in Kafka's format.

- ``recovery-point-offset-checkpoint``: offset up to which each log is flushed.
- ``log-start-offset-checkpoint``: start offset of each log that starts inside a segment.
- ``<partition>/partition.metadata``: id of the folder's topic.
- ``meta.properties``: cluster id and node id of the data folder.
- ``.kafka_cleanshutdown``: exists from a clean stop to the next start: the logs need no recovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.clock import Rng, random_uuid
from kohort.config.broker import BrokerConfig
from kohort.config.properties import build_properties, parse_properties
from kohort.errors import ConfigError
from kohort.log.storage import Storage
from kohort.log.topic_names import parse_folder
from kohort.model import TopicPartition, uuid_from_text, uuid_to_text
from kohort.notes import Note, warning

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE: Final = "log-start-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'


def build_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Build a checkpoint: a version (0), a count, then lines of ``topic partition offset``."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Parse a checkpoint of offsets. Raises ValueError."""
    lines = data.decode("ascii").split("\n")
    if lines[0] != "0" or lines[-1] or len(lines) != int(lines[1]) + 3:
        raise ValueError("expected a version, a count, and that many entries")
    offsets = {}
    for line in lines[2:-1]:
        topic, partition, offset = line.split(" ")
        if int(offset) < 0:
            raise ValueError(f"{topic}-{partition} has the offset {offset}")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def load_offsets(storage: Storage, name: str, notes: list[Note]) -> dict[TopicPartition, int]:
    """Load a checkpoint of offsets; empty if it is missing, or damaged (with a warning in ``notes``)."""
    data = storage.read(name)
    try:
        return {} if data is None else parse_offsets(data)
    except ValueError as error:
        notes.append(warning(f"ignored the damaged {name} ({error})"))
        return {}


def build_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()


def parse_partition_metadata(data: bytes) -> bytes:
    """Parse the topic id of a partition folder. Raises ValueError."""
    fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("expected version 0 and topic_id")
    return uuid_from_text(fields["topic_id"])


VERSION: Final = "1"


def ensure_cluster_id(
    storage: Storage, config: BrokerConfig, rng: Rng, catalogue_cluster_id: str, notes: list[Note]
) -> str:
    """Return the cluster id of a data folder; write ``meta.properties`` if it is missing or damaged.

    Raises ConfigError if cluster.id or node.id differ from the file. ``catalogue_cluster_id``: cluster id of the topic
    catalogue, or "". It replaces the id of a lost file, with a warning in ``notes``; Kafka refuses to start.
    """
    data = storage.read(META_PROPERTIES_FILE)
    found = parse_properties((data or b"").decode("utf-8", "replace"), is_damaged=True)
    properties = {name: value for name, value in found.items() if _is_plausible(name, value)}
    written = properties.get("cluster.id", "")
    cluster_id = written or catalogue_cluster_id
    node_id = properties.get("node.id", properties.get("broker.id"))
    if cluster_id and config.cluster_id and cluster_id != config.cluster_id:
        raise ConfigError(
            f"cluster.id={config.cluster_id!r}: the data folder belongs to cluster {cluster_id!r}"
            f" ({META_PROPERTIES_FILE}); omit the option or use another folder"
        )
    if node_id and node_id != str(config.node_id):
        raise ConfigError(
            f"node.id={config.node_id}: the data folder belongs to node {node_id} ({META_PROPERTIES_FILE});"
            f" set node.id={node_id} or use another"
        )
    cluster_id = cluster_id or config.cluster_id or uuid_to_text(random_uuid(rng))
    if not written or not node_id:
        kept = {"version": VERSION, "directory.id": uuid_to_text(random_uuid(rng))} | properties
        kept |= {"cluster.id": cluster_id, "node.id": str(config.node_id)}
        storage.replace(META_PROPERTIES_FILE, build_properties(kept).encode())
        if data is not None or any(parse_folder(folder) for folder in storage.folders()):
            sources = [] if node_id else [f"node id {config.node_id} comes from the options"]
            if not written and catalogue_cluster_id:
                sources.insert(0, f"cluster id {cluster_id} comes from the topic catalogue")
            elif not written:
                sources.insert(0, f"cluster id {cluster_id} is new, the old one is lost")
            state = "missing" if data is None else "damaged"
            notes.append(warning(f"{META_PROPERTIES_FILE} was {state} and was recreated: {'; '.join(sources)}"))
    elif catalogue_cluster_id and catalogue_cluster_id != written:
        notes.append(warning(f"{META_PROPERTIES_FILE} has cluster {written!r}, the catalogue {catalogue_cluster_id!r}"))
    return cluster_id


def _is_plausible(name: str, value: str) -> bool:
    return bool(value) and name.isascii() and name.isprintable() and value.isascii() and value.isprintable()
