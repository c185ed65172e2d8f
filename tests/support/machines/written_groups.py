"""Consumer groups from their records: a coordinator state without requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.coordinator.consumer.reconcile import (
    AssignedPartitions,
    CurrentAssignment,
    ReconciliationState,
    Target,
    target_value_of,
    value_of,
)
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
    build_record,
)
from kohort.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import GROUP, CoordinatorStage

T = b"t".ljust(16, b"\x01")
U = b"u".ljust(16, b"\x01")
"""Topic ids of the stage."""


def epochs(group_epoch: int, target_epoch: int | None = None, group: str = GROUP) -> list[ConsumerGroupRecord]:
    """Return the records of a group epoch and a target epoch (default: equal)."""
    target = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=group_epoch if target_epoch is None else target_epoch, assignment_timestamp=1
    )
    return [EpochWritten(group, ConsumerGroupMetadataValue(epoch=group_epoch)), TargetEpochWritten(group, target)]


def member(
    member_id: str,
    epoch: int,
    has: AssignedPartitions | None = None,
    *,
    pending: AssignedPartitions | None = None,
    target: Target | None = None,
    previous_epoch: int = 0,
    names: Sequence[str] = ("t",),
    regex: str | None = None,
    instance_id: str | None = None,
    rack_id: str | None = None,
    classic: bool = False,
    speaks: Sequence[str] = ("range",),
    group: str = GROUP,
) -> list[ConsumerGroupRecord]:
    """Return the records of a member: subscription, target assignment (default: owned), owned partitions."""
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id="app",
        client_host="/127.0.0.1",
        subscribed_topic_names=list(names),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=60_000,
        classic_member_metadata=_of_classic_protocol(speaks) if classic else None,
    )
    state = ReconciliationState.UNREVOKED_PARTITIONS if pending else ReconciliationState.STABLE
    current = CurrentAssignment(epoch, previous_epoch, state, has or {}, pending or {})
    to_have = {topic_id: frozenset(of) for topic_id, of in (has or {}).items()} if target is None else target
    return [
        MemberWritten(group, member_id, metadata),
        TargetWritten(group, member_id, target_value_of(to_have)),
        CurrentWritten(group, member_id, value_of(current)),
    ]


def _of_classic_protocol(names: Sequence[str]) -> ClassicMemberMetadata:
    protocols = [ClassicProtocol(name=name, metadata=subscription("t")) for name in names]
    return ClassicMemberMetadata(session_timeout_ms=10_000, supported_protocols=protocols)


def resolved(matched: Mapping[str, Sequence[str]], group: str = GROUP) -> list[ConsumerGroupRecord]:
    """Return the records of resolved subscription patterns."""
    return [
        RegexResolved(group, regex, ConsumerGroupRegularExpressionValue(topics=list(topics), version=1, timestamp=1))
        for regex, topics in matched.items()
    ]


def write(stage: CoordinatorStage, *records: Sequence[ConsumerGroupRecord]) -> None:
    """Append records, and load them into the coordinator."""
    for several in records:
        for record in several:
            stage.log[stage.coordinator.partition_of(record.group_id)].append(build_record(record))
    stage.restart()
