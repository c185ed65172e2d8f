"""Conversion of a consumer group to a classic group when its last consumer-protocol member leaves.

The rules: protocol/consumer-groups.md#both-protocols-in-one-group. The decision to convert the group takes the place of
the decision to remove that member.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.assignors.server.iteration import in_group_order
from kohort.coordinator.classic.group import generation_of
from kohort.coordinator.classic.join import protocols_of
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.rebalance import begin_sessions, open_round
from kohort.coordinator.classic.round import Round
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.fencing import group_tombstones
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import NO_TARGET, Target, target_of
from kohort.coordinator.consumer.sessions import timers_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupConverted, Trigger
from kohort.coordinator.migration.embedded import assignment_for, may_downgrade
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import CancelTimer, Outcome
from kohort.coordinator.records import EpochWritten, GroupWritten, MemberWritten, Record, TargetWritten
from kohort.wire.consumer_protocol import PROTOCOL_TYPE
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata


class _GroupAfter(NamedTuple):
    """Members and target assignments that a consumer group will have after the replay of records."""

    members: dict[str, ConsumerMetadata]
    targets: dict[str, Target]
    removed: list[str]
    is_settled: bool
    """True if the group epoch does not change, and all remaining members have reached their target assignment."""


def downgraded(groups: Groups, group_id: str, out: Outcome, ctx: Context) -> Outcome:
    """Return a decision that converts the group if ``out`` removes its last consumer-protocol member; else ``out``."""
    group = groups.consumer.get(group_id)
    if group is None or not _may_be_due(group, out.records, ctx):
        return out
    after = _after(group, out.records)
    is_replaced = len(after.members) == len(group.members)
    if not after.removed or is_replaced or not _is_due(after, ctx):
        return out
    return _convert(groups, group, after, group.members[after.removed[0]], out, ctx)


def _may_be_due(group: ModernGroup, records: list[Record], ctx: Context) -> bool:
    removed = sum(isinstance(record, MemberWritten) and record.value is None for record in records)
    if not removed or not group.classic_members or not may_downgrade(ctx.config):
        return False
    has_consumer_member = len(group.members) - group.classic_members > removed
    return not has_consumer_member and len(group.members) - removed <= ctx.config.group_max_size


def is_last_consumer_member(group: ModernGroup, member: ConsumerMember, ctx: Context) -> bool:
    """Return True if the group becomes classic when static member ``member`` rejoins with the classic protocol."""
    if member.is_classic or group.classic_members != len(group.members) - 1:
        return False
    return may_downgrade(ctx.config) and len(group.members) <= ctx.config.group_max_size


def downgraded_by(groups: Groups, group: ModernGroup, replaced: ConsumerMember, out: Outcome, ctx: Context) -> Outcome:
    """Convert a consumer group to a classic group: its last consumer-protocol member rejoined as a classic member.

    That member is static. The records of its join precede the tombstones of the consumer group, as in Kafka.
    """
    after = _after(group, out.records)
    others = (group.members[member_id] for member_id in after.members.keys() & group.members.keys())
    # A classic group has no target assignment. So members must rejoin if they have not reached their target.
    is_settled = after.is_settled and all(group.is_settled(one) for one in others if one is not replaced)
    conversion = _convert(groups, group, after._replace(is_settled=is_settled), replaced, out, ctx)
    end = [record for record in conversion.records if isinstance(record, GroupWritten)]
    conversion.records = [*out.records, *group_tombstones(group, after.members), *end]
    return conversion


def _after(group: ModernGroup, records: list[Record]) -> _GroupAfter:
    kept = in_group_order(group.members, group.most_members)
    members = {member_id: group.members[member_id].metadata for member_id in kept}
    targets = dict(group.targets)
    removed: list[str] = []
    is_settled = group.epoch == group.target_epoch
    for record in records:
        if isinstance(record, MemberWritten):
            was = members.pop(record.member_id, None)
            if record.value is not None:
                members[record.member_id] = record.value
            elif was is not None:
                removed.append(record.member_id)
        elif isinstance(record, TargetWritten) and record.value is not None:
            targets[record.member_id] = target_of(record.value)
        elif isinstance(record, EpochWritten):
            is_settled = False
    return _GroupAfter(members, targets, removed, is_settled)


def _is_due(after: _GroupAfter, ctx: Context) -> bool:
    if not 0 < len(after.members) <= ctx.config.group_max_size or not may_downgrade(ctx.config):
        return False
    return all(metadata.classic_member_metadata is not None for metadata in after.members.values())


def _convert(
    groups: Groups, group: ModernGroup, after: _GroupAfter, by: ConsumerMember, out: Outcome, ctx: Context
) -> Outcome:
    rebalance = _round_of(group, after, ctx)
    written = generation_of(rebalance, with_leader=after.is_settled)
    conversion = Outcome(
        records=[*group_tombstones(group), GroupWritten(group.group_id, written)],
        replies=out.replies,
        timers=[*(change for change in out.timers if isinstance(change, CancelTimer))],
        journal=[entry for entry in out.journal if not entry.CLAIMS_PERSISTED],
        otherwise=out.otherwise,
    )
    conversion.timers += [CancelTimer(key) for key in timers_of(group)]
    who = tuple(member.identity for member in rebalance.members.values())
    conversion.journal.append(
        GroupConverted(
            at_ms=ctx.now_ms,
            group=group.group_id,
            to="classic",
            epoch=rebalance.generation_id,
            members=who,
            by=by.identity,
        )
    )

    def begin_classic() -> Outcome:
        classic = groups.by_id[group.group_id]
        classic.round = rebalance
        then = Outcome()
        begin_sessions(classic, ctx, then)
        if not after.is_settled:
            open_round(classic, ctx, then, Trigger(event="downgraded", member=by.identity))
        return then

    conversion.then = begin_classic
    return conversion


def _round_of(group: ModernGroup, after: _GroupAfter, ctx: Context) -> Round:
    rebalance = Round(GroupState.STABLE, ctx.now_ms, group.epoch)
    rebalance.protocol_type = PROTOCOL_TYPE
    for member_id, metadata in after.members.items():
        classic = metadata.classic_member_metadata
        assert classic is not None
        presence = group.presence.get(member_id)
        rebalance.add(
            Member(
                member_id=member_id,
                instance_id=metadata.instance_id,
                client_id=metadata.client_id,
                client_host=metadata.client_host,
                session_timeout_ms=classic.session_timeout_ms,
                rebalance_timeout_ms=metadata.rebalance_timeout_ms,
                protocols=protocols_of(classic.supported_protocols),
                expires_at_ms=ctx.now_ms + classic.session_timeout_ms,
                last_seen_ms=ctx.now_ms if presence is None else presence.last_seen_ms,
                connection=-1 if presence is None else presence.connection,
            )
        )
    rebalance.protocol_name = rebalance.vote()
    for member in rebalance.members.values():
        classic = after.members[member.member_id].classic_member_metadata
        assert classic is not None
        target = after.targets.get(member.member_id, NO_TARGET)
        member.assignment = assignment_for(classic, target, ctx.topics, rebalance.protocol_name)
    rebalance.parse_subscriptions()
    return rebalance
