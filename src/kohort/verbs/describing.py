"""A group with its members and its partitions, as programs get it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kohort.model import NO_EPOCH, TopicPartition
from kohort.results.groups import GroupDescribed, GroupMemberRow, GroupPartitionRow, MemberMetrics
from kohort.verbs.groups import GroupState

if TYPE_CHECKING:
    from kohort.client.admin.model import MemberDescription

Said = Callable[[str, "MemberDescription"], MemberMetrics | None]
"""What the client of a group's member pushed last."""


def described(found: GroupState, left: list[TopicPartition], said: Said) -> GroupDescribed:
    """Return a group for programs."""
    about = found.description
    return GroupDescribed(
        group=about.group_id,
        state=about.state,
        group_type=about.group_type,
        group_epoch=_known(about.group_epoch),
        assignment_epoch=_known(about.assignment_epoch),
        protocol_type=about.protocol_type,
        assignor=about.assignor,
        coordinator_id=about.coordinator_id,
        coordinator=found.coordinator,
        lag=found.lag,
        members=[_member_row(found, m, said) for m in about.members],
        partitions=[
            GroupPartitionRow(
                topic=p.partition.topic,
                partition=p.partition.partition,
                leader_epoch=p.leader_epoch,
                current_offset=p.committed,
                log_start_offset=p.log_start_offset,
                log_end_offset=p.log_end_offset,
                lag=p.lag,
                member_id=p.member.member_id if p.member else None,
                client_id=p.member.client_id if p.member else None,
                host=p.member.client_host if p.member else None,
                metadata=p.metadata,
            )
            for p in found.partitions
        ],
        unowned=[str(tp) for tp in left],
    )


def _member_row(found: GroupState, member: MemberDescription, said: Said) -> GroupMemberRow:
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
        to_give_up=[str(tp) for tp in member.to_give_up],
        to_get=[str(tp) for tp in member.to_get],
        lag=found.lag_of(member),
        client_metrics=said(found.description.group_id, member),
    )


def _known(epoch: int) -> int | None:
    return None if epoch == NO_EPOCH else epoch
