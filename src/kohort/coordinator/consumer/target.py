"""What everybody in a consumer group is to have: when that is computed, and the records of it.

The rules: protocol/consumer-groups.md#target-assignment (KIP-1263 for the interval).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.iteration import as_kafka_keeps, in_member_order
from kohort.assignors.server.spec import MemberSpec
from kohort.coordinator.consumer.assignment import NO_TARGET, Target, target_value_of
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import Said, preferred_assignor
from kohort.coordinator.consumer.settings import settings_of
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.consumer_records import TargetEpochWritten, TargetWritten
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Move
from kohort.coordinator.outcome import TopicsView
from kohort.coordinator.records import Record
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.wire.messages.consumer_group_records import ConsumerGroupTargetAssignmentMetadataValue


class Newcomer(NamedTuple):
    """The member whose heartbeat it is, as it is after that heartbeat."""

    member_id: str
    said: Said
    owned: Target
    """Its target so far, or that of the member whose place it takes."""
    replaces: str | None
    """A member id; maybe its own."""


class ComputedTarget(NamedTuple):
    """A target, with its records in Kafka's order."""

    epoch: int
    targets: Mapping[str, Target]
    records: list[Record]
    assignor: str
    moves: tuple[Move, ...]


def is_target_due(group: ModernGroup, epoch: int, ctx: Context) -> bool:
    """Tell whether a heartbeat that finds the group at ``epoch`` is to compute the target."""
    if epoch <= group.target_epoch:
        return False
    interval_ms = settings_of(group.group_id, ctx).assignment_interval_ms
    return not group.target_at_ms or not interval_ms or ctx.now_ms >= group.target_at_ms + interval_ms


def compute_target(group: ModernGroup, epoch: int, newcomer: Newcomer, ctx: Context) -> ComputedTarget:
    """Return the target of the group with ``newcomer`` in it. Raises UNKNOWN_SERVER_ERROR if the assignor fails."""
    before = None if (member := group.members.get(newcomer.replaces or newcomer.member_id)) is None else member.said
    name = preferred_assignor(group, ctx, before, newcomer.said)
    specs, counts = _specs(group, newcomer, ctx)
    try:
        targets = SERVER_ASSIGNORS[name].assign(specs, counts)
    except KohortError as error:
        problem = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, problem) from error
    changed = []
    for member_id in in_member_order(specs):
        replaces = newcomer.replaces if member_id == newcomer.member_id else None
        had = group.targets.get(replaces or member_id)
        if had is None or had != targets[member_id]:
            changed.append(member_id)
    records: list[Record] = [
        TargetWritten(group.group_id, member_id, target_value_of(targets[member_id])) for member_id in changed
    ]
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=ctx.now_ms)
    records.append(TargetEpochWritten(group.group_id, value))
    before_after = {m: (specs[m].owned, targets[m]) for m in changed}
    return ComputedTarget(epoch, targets, records, name, _moves(before_after, ctx.topics))


def _specs(group: ModernGroup, newcomer: Newcomer, ctx: Context) -> tuple[dict[str, MemberSpec], dict[bytes, int]]:
    """Return the members as the assignor sees them, in the order in which Kafka comes across them."""
    counts: dict[bytes, int] = {}
    subscriptions = Subscriptions(group, ctx.topics)

    def spec(member_id: str, said: Said, owned: Target) -> MemberSpec:
        subscription, is_first = subscriptions.of(member_id, said)
        if is_first:
            counts.update({id_: ctx.topics.partition_count(n) or 0 for n, id_ in subscription.topic_ids.items()})
        return subscription.spec._replace(owned=owned, rack_id=said.rack_id, instance_id=said.instance_id)

    mine = spec(newcomer.member_id, newcomer.said, newcomer.owned)
    specs = {
        m: mine if m == newcomer.member_id else spec(m, group.members[m].said, group.target(m))
        for m in as_kafka_keeps(group.members, group.most_members)
        if m == newcomer.member_id or m != newcomer.replaces
    }
    specs.setdefault(newcomer.member_id, mine)  # who is new, or has a new id, comes last
    return specs, counts


def _moves(before_after: Mapping[str, tuple[Target, Target]], topics: TopicsView) -> tuple[Move, ...]:
    """Returns which partitions are to be somebody else's, as the journal has it."""
    losers: dict[tuple[bytes, int], str] = {}
    takers: dict[tuple[bytes, int], str] = {}
    for member_id, (had, has) in before_after.items():
        for topic in {*had, *has}:
            was, now = had.get(topic, frozenset()), has.get(topic, frozenset())
            if was is not now:
                losers.update(((topic, partition), member_id) for partition in was - now)
                takers.update(((topic, partition), member_id) for partition in now - was)
    named = ((topics.topic_name(topic) or topic.hex(), topic, partition) for topic, partition in {**losers, **takers})
    return tuple(
        Move(name, partition, losers.get((topic, partition)), takers.get((topic, partition)))
        for name, topic, partition in sorted(named)
    )


def own_target(computed: ComputedTarget | None, member_id: str, so_far: Target | None) -> Target:
    """Return what a member is to have: by the target just computed, if there is one."""
    if computed is not None:
        return computed.targets[member_id]
    return NO_TARGET if so_far is None else so_far
