"""``kohort-cluster.json``: where the partitions of each topic live; replaced as a whole with every change.

A cluster of one node has no such file. Kafka keeps this in its metadata quorum; the format is ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from kohort.broker.cluster.placement import NO_LEADER, Placement
from kohort.log.storage import Storage, read_json
from kohort.model import uuid_from_text, uuid_to_text

CLUSTER_FILE: Final = "kohort-cluster.json"
VERSION: Final = 1


def save_placements(storage: Storage, placements: Mapping[bytes, Iterable[Placement]]) -> None:
    """Write them, and return when they are on the disk."""
    topics = {
        uuid_to_text(topic_id): [[p.replicas, p.leader, p.adding, p.removing] for p in partitions]
        for topic_id, partitions in placements.items()
    }
    storage.replace(CLUSTER_FILE, msgspec.json.encode({"version": VERSION, "topics": topics}))


def load_placements(storage: Storage, known: Iterable[int]) -> dict[bytes, list[Placement]]:
    """Return what is written, less the nodes that are no more. Raises StorageError if it cannot be read."""
    nodes = list(known)
    advice = "Mend it, or remove it to have the partitions placed anew"
    return read_json(storage, CLUSTER_FILE, lambda content: _parse(content, nodes), advice) or {}


def _parse(content: Any, nodes: list[int]) -> dict[bytes, list[Placement]]:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    return {
        uuid_from_text(text): [_placement(entry, nodes) for entry in partitions]
        for text, partitions in content["topics"].items()
    }


def _placement(entry: Any, nodes: list[int]) -> Placement:
    replicas, leader, adding, removing = entry
    kept = [int(node) for node in dict.fromkeys(replicas) if node in nodes]
    if not kept:
        return Placement([nodes[0]])  # the storage is shared: nothing is lost with the nodes that held it
    return Placement(
        kept,
        leader if leader in nodes else NO_LEADER,
        [int(node) for node in adding if node in nodes],
        [int(node) for node in removing if node in nodes],
    )
