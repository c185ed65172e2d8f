"""The small text files beside the logs, in Kafka's own form.

======================================= =====================================================================
recovery-point-offset-checkpoint        up to which offset each log is known to be on the disk
log-start-offset-checkpoint             from which offset on each log may be read, where that is inside a segment
<partition>/partition.metadata          the id of the topic that the folder belongs to
meta.properties                         whose folder this is: cluster and node
.kafka_cleanshutdown                    present from a clean stop to the next start: the logs need no recovery
======================================= =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.model import TopicPartition, uuid_from_text, uuid_to_text

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE: Final = "log-start-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'


def build_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return a checkpoint of offsets: a version (0), a count, then ``topic partition offset`` by line."""
    lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def parse_offsets(data: bytes) -> dict[TopicPartition, int]:
    """Return the offsets of such a file; raises ValueError for anything else."""
    lines = data.decode("ascii").split("\n")
    if lines[0] != "0" or lines[-1] or len(lines) != int(lines[1]) + 3:
        raise ValueError("its lines are not a version, a count, and as many entries")
    offsets = {}
    for line in lines[2:-1]:
        topic, partition, offset = line.split(" ")
        if int(offset) < 0:
            raise ValueError(f"offset {offset} of {topic}-{partition}")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def build_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n".encode()


def parse_partition_metadata(data: bytes) -> bytes:
    """Return the topic id of a partition's folder; raises ValueError for anything else."""
    fields = dict(line.split(": ", 1) for line in data.decode("ascii").splitlines() if line)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ValueError("it has no version 0 and topic_id")
    return uuid_from_text(fields["topic_id"])
