"""What becomes of groups when a node goes: who coordinates them then, who leads what they read, what begins anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kohort.coordinator.partitioning import partition_of
from kohort.insight.findings.what_if import GroupLossFinding, NodeLossFinding
from kohort.insight.names import count, limit
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.scenario import Assumptions
from kohort.model import TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
UNWRITTEN: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})
"""States of classic groups in which a round is under way, of which nothing is written."""


class PartitionPlace(NamedTuple):
    """The node that leads a partition (-1: none), those that hold it in the order of preference, those in sync."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    def leader_without(self, node: int) -> int | None:
        """Return who leads without a node: the first replica that is in sync; None where there is none."""
        if self.leader != node:
            return None if self.leader < 0 else self.leader
        return next((replica for replica in self.replicas if replica != node and replica in self.isr), None)


class ClusterPlaces(NamedTuple):
    """Where partitions are, and the hosts of the nodes."""

    places: Mapping[TopicPartition, PartitionPlace]
    hosts: Mapping[int, str]
    offsets_partitions: int = 0
    """Of ``__consumer_offsets``; 0 where that is not known."""


def lose_node(
    node: int, groups: Iterable[GroupSnapshot], cluster: ClusterPlaces, assume: Assumptions | None = None
) -> NodeLossFinding:
    """Return what the groups would do without a node; an in-sync replica takes over, as Kafka elects by default."""
    assume = assume or Assumptions()
    found = tuple(_group(node, snapshot, cluster, assume) for snapshot in groups)
    coordinated = [one for one in found if one.coordinated]
    rebalancing = [one for one in coordinated if one.begins_anew]
    offline = tuple(dict.fromkeys(name for one in found for name in one.offline))
    moving = {
        tp
        for snapshot in groups
        for tp in _read(snapshot)
        if (place := cluster.places.get(tp)) is not None and place.leader == node
    }
    told = [
        f"without node {node}: another coordinator for {len(coordinated)} of {count(len(found), 'group')}, "
        f"another leader for {len(moving) - len(offline)} of the partitions that they read"
    ]
    if rebalancing:
        told.append(f"{count(len(rebalancing), 'rebalance')} under way would begin anew")
    if offline:
        told.append(f"{count(len(offline), 'partition')} would have no leader: no other replica is in sync")
    stranded = sum(one.coordinated and one.known and one.next_coordinator is None for one in found)
    if stranded:
        told.append(f"{count(stranded, 'group')} would have no coordinator until it is back")
    return NodeLossFinding(
        node=node,
        host=cluster.hosts.get(node, ""),
        groups=found,
        coordinated=len(coordinated),
        leaders_move=len(moving) - len(offline),
        offline=offline,
        sentence="; ".join(told),
        assumptions=(
            f"a member that has not found its new coordinator within its session timeout, "
            f"{limit(assume.session_timeout_ms)} unless it is set, is put out; each session begins anew there",
            "a replica that is in sync takes over; unclean.leader.election.enable is off",
        ),
    )


def _read(snapshot: GroupSnapshot) -> list[TopicPartition]:
    return [p.partition for p in snapshot.partitions if not p.gone]


def _group(node: int, snapshot: GroupSnapshot, cluster: ClusterPlaces, assume: Assumptions) -> GroupLossFinding:
    led = [tp for tp in _read(snapshot) if tp in cluster.places and cluster.places[tp].leader == node]
    offline = tuple(str(tp) for tp in led if cluster.places[tp].leader_without(node) is None)
    coordinated = snapshot.coordinator_id == node
    place = None
    if cluster.offsets_partitions:
        number = partition_of(snapshot.group, cluster.offsets_partitions)
        place = cluster.places.get(TopicPartition(OFFSETS_TOPIC, number))
    following = place.leader_without(node) if coordinated and place is not None else None
    begins_anew = coordinated and snapshot.state in UNWRITTEN
    beside = tuple(m.member_id for m in snapshot.members if m.host.lstrip("/") == cluster.hosts.get(node))
    return GroupLossFinding(
        group=snapshot.group,
        state=snapshot.state,
        members=len(snapshot.members),
        coordinated=coordinated,
        known=place is not None,
        next_coordinator=following,
        begins_anew=begins_anew,
        leaders_move=len(led) - len(offline),
        offline=offline,
        same_host=beside,
        first_out_s=assume.session_timeout_ms / 1000 if coordinated and snapshot.members else None,
        sentence=_coordinated(snapshot, following, known=place is not None)
        if coordinated
        else _only_read(len(led) - len(offline), len(offline)),
    )


def _only_read(leaders: int, offline: int) -> str:
    told = [f"waits for {count(leaders, 'new leader')}"] if leaders else []
    told += [f"cannot read {count(offline, 'partition')}"] if offline else []
    return f"it {', '.join(told)}, and does not rebalance" if told else "nothing changes"


def _coordinated(snapshot: GroupSnapshot, following: int | None, *, known: bool) -> str:
    if known and following is None:
        return "it has no coordinator then: members read on, and cannot commit, join or rebalance"
    who = "another node" if following is None else f"node {following}"
    if snapshot.state in UNWRITTEN:
        return f"its rebalance is not written yet: it begins anew at {who}, from the generation before"
    if snapshot.state in ("Assigning", "Reconciling"):
        return f"{who} goes on with what is written: epoch, target, who has come how far"
    if not snapshot.members:
        return f"{who} reads its offsets"
    return f"{who} goes on with its generation: nobody rebalances, and nothing moves"
