"""Replicas and leaders of partitions: decisions without I/O.

All nodes share one storage, so a replica is a node that may lead, and is in sync while it is up. As in Kafka, the first
replica is preferred, a partition without live replicas has no leader, and a reassignment is pending until all added
nodes are up.

``kohort-cluster.json`` stores the placements of several nodes, rewritten with each change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.broker.cluster.json_files import encoded, load
from kohort.errors import ApiError, ErrorCode
from kohort.log.storage import Storage
from kohort.model import uuid_from_text, uuid_to_text

NO_LEADER: Final = -1
CLUSTER_FILE: Final = "kohort-cluster.json"


@dataclass(slots=True)
class Placement:
    """Replicas and leader of a partition; during a reassignment both old and new replicas."""

    replicas: list[int]
    leader: int = NO_LEADER
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    @property
    def is_pending(self) -> bool:
        return bool(self.adding or self.removing)

    def in_sync(self, live: Collection[int]) -> list[int]:
        """Return the in-sync replicas: all live replicas, or only the first replica if none is live."""
        return [node for node in self.replicas if node in live] or self.replicas[:1]

    def offline(self, live: Collection[int]) -> list[int]:
        return [node for node in self.replicas if node not in live]


def spread(nodes: Sequence[int], first: int, count: int) -> list[int]:
    """Return ``count`` nodes as replicas of a partition, round-robin from position ``first`` on."""
    return [nodes[(first + i) % len(nodes)] for i in range(count)]


def elect(placement: Placement, live: Collection[int]) -> int:
    """Return the next leader: the current one if it is a live replica, else the first live replica."""
    staying = [node for node in placement.replicas if node in live and node not in placement.removing]
    if placement.leader in staying:
        return placement.leader
    leaving = [node for node in placement.removing if node in live]
    if not staying and placement.leader in leaving:
        return placement.leader
    return next(iter(staying or leaving), NO_LEADER)


def elect_preferred(placement: Placement, live: Collection[int]) -> int:
    """Return the preferred leader (the first replica). Raises ApiError if it already leads or is down."""
    preferred = placement.replicas[0]
    if placement.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"node {preferred} already leads the partition")
    if preferred not in live:
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"node {preferred} is down")
    return preferred


def elect_any(placement: Placement, live: Collection[int]) -> int:
    """Return a live replica as leader of a leaderless partition. Raises ApiError if all replicas are down."""
    if placement.leader in live:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"node {placement.leader} already leads the partition")
    found = elect(placement, live)
    if found == NO_LEADER:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"all replicas {placement.replicas} are down")
    return found


def reassigned(placement: Placement, target: Sequence[int], known: Collection[int], live: Collection[int]) -> Placement:
    """Start a reassignment to the replicas ``target``, which replaces a pending reassignment. Raises ApiError."""
    if not target:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    if len(set(target)) < len(target):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"duplicate node in the replicas {list(target)}")
    unknown = [node for node in target if node not in known]
    if unknown:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"unknown node {unknown[0]}")
    old = [node for node in placement.replicas if node not in placement.adding]
    adding = [node for node in target if node not in old]
    removing = [node for node in old if node not in target]
    made = Placement([*target, *removing], placement.leader, adding, removing)
    return completed(made, live)


def cancelled(placement: Placement) -> Placement:
    """Cancel a partition's pending reassignment. Raises ApiError if no reassignment is pending."""
    if not placement.is_pending:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "the partition has no pending reassignment")
    old = [node for node in placement.replicas if node not in placement.adding]
    return Placement([*placement.removing, *(node for node in old if node not in placement.removing)], placement.leader)


def completed(placement: Placement, live: Collection[int]) -> Placement:
    """Complete a reassignment when all added nodes are up; removed nodes may be down.

    The reassignment stays pending if only removed nodes are up, as these can still serve the partition.
    """
    kept = [node for node in placement.replicas if node not in placement.removing]
    if any(node not in live for node in placement.adding) or (placement.removing and not set(kept) & set(live)):
        return placement
    return Placement(kept, placement.leader)


def save_placements(storage: Storage, placements: Mapping[bytes, Iterable[Placement]]) -> None:
    topics = {
        uuid_to_text(topic_id): [[p.replicas, p.leader, p.adding, p.removing] for p in partitions]
        for topic_id, partitions in placements.items()
    }
    storage.replace(CLUSTER_FILE, encoded({"topics": topics}))


def load_placements(storage: Storage, known: Iterable[int]) -> dict[bytes, list[Placement]]:
    """Return the stored replicas and leaders, as a dict: topic id to placements. Raises StorageError.

    Nodes that are not in ``known`` are left out.
    """
    nodes = list(known)

    def parse(content: Any) -> dict[bytes, list[Placement]]:
        topics = content["topics"].items()
        return {uuid_from_text(text): [_placement(entry, nodes) for entry in entries] for text, entries in topics}

    return load(storage, CLUSTER_FILE, parse, "Repair the file, or remove it to place all partitions again") or {}


def _placement(entry: Any, nodes: list[int]) -> Placement:
    replicas, leader, adding, removing = entry
    kept = [int(node) for node in dict.fromkeys(replicas) if node in nodes]
    if not kept:
        # all replicas were on removed nodes; no records are lost, as all nodes share the storage
        return Placement([nodes[0]])
    return Placement(
        kept,
        leader if leader in nodes else NO_LEADER,
        [int(node) for node in adding if node in nodes],
        [int(node) for node in removing if node in nodes],
    )
