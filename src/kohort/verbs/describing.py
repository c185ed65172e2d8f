"""Results of ``kohort group describe`` and ``kohort groups``, made from descriptions and snapshots of groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from kohort.insight.health import WORST
from kohort.model import NO_EPOCH, TopicPartition
from kohort.results.groups import GroupDescribed, GroupMemberRow, GroupPartitionRow, GroupRow, TopicLagRow
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, MemberDescription
    from kohort.insight.findings.groups import GroupFinding, PartitionFinding
    from kohort.insight.snapshot import GroupSnapshot, PartitionSnapshot

N = TypeVar("N", int, float)
STUCK: Final = frozenset({"stuck", "not-fetching", "not-committing"})
MOST_TOPICS: Final = 100


def partitions_named(names: Iterable[str]) -> list[TopicPartition]:
    """Parse partition names such as ``orders-3``, as findings contain them."""
    return [TopicPartition(topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names)]


def coordinators(admin: Admin) -> dict[int, str]:
    return {n.node_id: f"{n.host}:{n.port}" for n in admin.describe_cluster(timeout_ms=ADMIN_MS).nodes}


def described(
    about: GroupDescription, snapshot: GroupSnapshot, coordinator: str | None, status: GroupFinding | None = None
) -> GroupDescribed:
    """Return the result of ``kohort group describe``. Members come from ``about``, offsets from ``snapshot``."""
    owners = {tp: member for member in about.members for tp in member.assignment}
    partitions = [
        _partition_row(p, owners.get(p.partition))
        for p in snapshot.partitions
        if p.committed is not None or p.partition in owners
    ]
    by_member: Mapping[str | None, list[GroupPartitionRow]] = defaultdict(list)
    for row in partitions:
        by_member[row.member_id].append(row)
    return GroupDescribed(
        group=about.group_id,
        state=about.state,
        group_type=about.group_type,
        group_epoch=_known(about.group_epoch),
        assignment_epoch=_known(about.assignment_epoch),
        protocol_type=about.protocol_type,
        assignor=about.assignor,
        coordinator_id=about.coordinator_id,
        coordinator=coordinator,
        lag=_lag_of(partitions),
        members=[_member_row(m, _lag_of(by_member[m.member_id])) for m in about.members],
        partitions=partitions,
        unowned=[str(tp) for tp in _unowned(about, snapshot, owners)],
        status=status,
        topics=[] if status is None else topic_rows(status),
    )


def _partition_row(p: PartitionSnapshot, owner: MemberDescription | None) -> GroupPartitionRow:
    return GroupPartitionRow(
        topic=p.partition.topic,
        partition=p.partition.partition,
        leader_epoch=p.leader_epoch,
        current_offset=p.committed,
        log_start_offset=p.log_start,
        log_end_offset=p.log_end,
        lag=None if p.committed is None or p.log_end is None else p.log_end - p.committed,
        member_id=owner.member_id if owner else None,
        client_id=owner.client_id if owner else None,
        host=owner.client_host if owner else None,
        metadata=p.metadata,
    )


def _member_row(member: MemberDescription, lag: int | None) -> GroupMemberRow:
    target = member.target_assignment
    return GroupMemberRow(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        topics=list(member.topics),
        assignment=[str(tp) for tp in sorted(member.assignment)],
        member_type=member.member_type,
        member_epoch=None if target is None else member.member_epoch,
        topic_regex=member.topic_regex,
        rack_id=member.rack_id,
        target_assignment=None if target is None else [str(tp) for tp in sorted(target)],
        to_revoke=[str(tp) for tp in member.to_revoke],
        to_get=[str(tp) for tp in member.to_get],
        lag=lag,
    )


def _known(epoch: int) -> int | None:
    return None if epoch == NO_EPOCH else epoch


def _lag_of(rows: Iterable[GroupPartitionRow]) -> int | None:
    return _sum(None if row.lag is None else max(row.lag, 0) for row in rows)


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _unowned(
    about: GroupDescription, snapshot: GroupSnapshot, owners: Mapping[TopicPartition, object]
) -> list[TopicPartition]:
    if about.state != "Stable":
        return []
    topics = {topic for member in about.members for topic in member.topics}
    subscribed = {TopicPartition(t, n) for t in topics for n in range(snapshot.partition_counts.get(t, 0))}
    return sorted(subscribed - owners.keys())


def topic_rows(found: GroupFinding) -> list[TopicLagRow]:
    """Return the lag of each topic that a group subscribes to. The topic with the largest lag is first."""
    by_topic: dict[str, list[PartitionFinding]] = {}
    for one in found.partitions:
        if one.blame != "not_subscribed":
            by_topic.setdefault(one.topic, []).append(one)
    rows = [_topic_row(topic, parts) for topic, parts in by_topic.items()]
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.topic))


def _topic_row(topic: str, parts: Sequence[PartitionFinding]) -> TopicLagRow:
    etas_ms = [one.eta_ms for one in parts if one.eta_ms is not None]
    return TopicLagRow(
        topic=topic,
        partitions=len(parts),
        behind=sum(one.blame != "none" for one in parts),
        lag=_sum(one.lag for one in parts),
        stable_lag=_sum(one.stable_lag for one in parts),
        lag_ms=max((one.lag_ms for one in parts if one.lag_ms is not None), default=None),
        lead=min((one.lead for one in parts if one.lead is not None), default=None),
        written_per_s=_sum(one.written_per_s for one in parts),
        read_per_s=_sum(one.read_per_s for one in parts),
        eta_ms=max(etas_ms) if len(etas_ms) == len(parts) else None,
    )


def worst_first(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """Sort groups by health, the worst first. Groups of equal health are sorted by lag, the largest first."""
    return sorted(rows, key=lambda row: (WORST.index(row.health), -(row.lag or 0), row.group))


def row_of(found: GroupFinding) -> GroupRow:
    return GroupRow(
        group=found.group,
        state=found.state,
        members=len(found.members),
        partitions=len(found.partitions),
        lag=found.lag,
        assignor=found.assignor or "",
        group_type=found.protocol,
        protocol_type=found.protocol_type,
        coordinator_id=found.coordinator_id,
        health=found.health,
        reason=found.reason,
        idle_members=sum(member.state == "idle" for member in found.members),
        lag_ms=found.lag_ms,
        lag_ms_complete=found.lag_ms_complete,
        eta_ms=found.eta_ms,
        draining=found.draining,
        blame=found.blame,
        rebalances_1h=found.rebalances_1h,
        last_rebalance=found.last_rebalance,
        stuck_members=sum(member.state in STUCK for member in found.members),
        stable_share_1h=found.stable_share_1h,
        topics=sorted({one.topic for one in found.partitions})[:MOST_TOPICS],
    )


def unknown_row(group: str, reason: str) -> GroupRow:
    return GroupRow(
        group=group,
        state="Unknown",
        members=None,
        partitions=None,
        lag=None,
        assignor="",
        group_type="",
        protocol_type="",
        coordinator_id=None,
        reason=reason,
        idle_members=None,
        lag_ms_complete=False,
        stuck_members=None,
    )
