"""Where a partition lives, and who leads it: pure decisions over node ids.

The nodes of a kohort share one storage, so a replica is a node that may lead, and it is in sync as soon as it is up.
The rest is Kafka's: the leader is one of the replicas, the first of them is preferred, a partition whose replicas are
all down has no leader, and a reassignment is pending until every node that it adds is up.

``kohort-cluster.json`` holds the placements of a cluster of several nodes; it is replaced as a whole with every change.
Kafka keeps them in its metadata quorum; the format is ours.
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
    """One partition. While a reassignment is pending, ``replicas`` holds both the old nodes and the new."""

    replicas: list[int]
    leader: int = NO_LEADER
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)

    @property
    def is_pending(self) -> bool:
        return bool(self.adding or self.removing)

    def in_sync(self, live: Collection[int]) -> list[int]:
        """Return the replicas that are up; the last leader counts while none is, as in Kafka."""
        return [node for node in self.replicas if node in live] or self.replicas[:1]

    def offline(self, live: Collection[int]) -> list[int]:
        """Return the replicas that are down."""
        return [node for node in self.replicas if node not in live]


def spread(nodes: Sequence[int], first: int, count: int) -> list[int]:
    """Return ``count`` of ``nodes``, from the one at ``first`` on: neighbours lead, and follow, in turn."""
    return [nodes[(first + i) % len(nodes)] for i in range(count)]


def elect(placement: Placement, live: Collection[int]) -> int:
    """Return who leads: whoever does, as long as it is up and a replica; else the first replica that is up."""
    staying = [node for node in placement.replicas if node in live and node not in placement.removing]
    if placement.leader in staying:
        return placement.leader
    leaving = [node for node in placement.removing if node in live]
    if not staying and placement.leader in leaving:
        return placement.leader
    return next(iter(staying or leaving), NO_LEADER)


def elect_preferred(placement: Placement, live: Collection[int]) -> int:
    """Return the first replica. Raises ApiError ELECTION_NOT_NEEDED where it leads, PREFERRED_LEADER_NOT_AVAILABLE if
    down."""
    preferred = placement.replicas[0]
    if placement.leader == preferred:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"node {preferred} leads already")
    if preferred not in live:
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"node {preferred} is down")
    return preferred


def elect_any(placement: Placement, live: Collection[int]) -> int:
    """Return any replica that is up, for a partition without a leader (an unclean election loses nothing here)."""
    if placement.leader in live:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"node {placement.leader} leads already")
    found = elect(placement, live)
    if found == NO_LEADER:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"of the replicas {placement.replicas} none is up")
    return found


def reassigned(placement: Placement, target: Sequence[int], known: Collection[int], live: Collection[int]) -> Placement:
    """Return the partition on its way to ``target``, or there. Raises ApiError INVALID_REPLICA_ASSIGNMENT.

    A reassignment that was pending is replaced, from where it began.
    """
    if not target:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica")
    if len(set(target)) < len(target):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a node stands twice in {list(target)}")
    unknown = [node for node in target if node not in known]
    if unknown:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"there is no node {unknown[0]}")
    old = [node for node in placement.replicas if node not in placement.adding]
    adding = [node for node in target if node not in old]
    removing = [node for node in old if node not in target]
    made = Placement([*target, *removing], placement.leader, adding, removing)
    return completed(made, live)


def cancelled(placement: Placement) -> Placement:
    """Return the partition as it was before its reassignment. Raises ApiError NO_REASSIGNMENT_IN_PROGRESS."""
    if not placement.is_pending:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is under way")
    old = [node for node in placement.replicas if node not in placement.adding]
    return Placement([*placement.removing, *(node for node in old if node not in placement.removing)], placement.leader)


def completed(placement: Placement, live: Collection[int]) -> Placement:
    """Return the partition once what can be completed is: every node that is added has to be up, a dead old one has
    not.

    Nor is a partition left to nodes none of which is up while an old one could still serve it.
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
    """Return what is written, less the nodes that are no more. Raises StorageError if it cannot be read."""
    nodes = list(known)
    advice = "Mend it, or remove it to have the partitions placed anew"
    return load(storage, CLUSTER_FILE, lambda content: _parse(content, nodes), advice) or {}


def _parse(content: Any, nodes: list[int]) -> dict[bytes, list[Placement]]:
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
