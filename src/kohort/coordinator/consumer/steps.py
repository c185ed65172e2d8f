"""What one request of a member brings about: what it says, the group's epoch, the target, the member's next step.

The rules: protocol/consumer-groups.md#group-epoch, protocol/consumer-groups.md#reconciliation. Each step is computed on
values, from what the one before has made.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kohort.coordinator.consumer.arrival import Arrival
from kohort.coordinator.consumer.assignment import (
    Current,
    ReconciliationState,
    target_value_of,
    value_of,
)
from kohort.coordinator.consumer.evidence import note_reconciled
from kohort.coordinator.consumer.fencing import tombstones_of_member
from kohort.coordinator.consumer.group import ComputedTarget, ModernGroup
from kohort.coordinator.consumer.group_epoch import RaisedEpoch, Said, raised_epoch
from kohort.coordinator.consumer.member import ConsumerMember, who_says
from kohort.coordinator.consumer.reconcile import Goal, Owned, reconciled
from kohort.coordinator.consumer.sessions import (
    awaits_revocation,
    begin_revocation,
    forget_timers_of,
)
from kohort.coordinator.consumer.target import (
    Newcomer,
    begin_in_steps,
    compute_target,
    is_target_due,
    note_target,
    own_target,
)
from kohort.coordinator.consumer.timers import rejoin_timer, resync_timer, revocation_timer
from kohort.coordinator.consumer_records import (
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetWritten,
)
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochRaised, StaticReplaced, Who
from kohort.coordinator.outcome import CancelTimer, Outcome, SetTimer
from kohort.wire.messages.consumer_group_records import ConsumerGroupMetadataValue


def advance(
    group: ModernGroup, arrival: Arrival, said: Said, owned: Owned | None, ctx: Context, out: Outcome
) -> Current:
    """Return how far the member is after what it said and owns, and put the records of that into ``out``."""
    if arrival.replaces is not None:
        _take_place(group, arrival, arrival.replaces, ctx, out)
    who = who_says(arrival.member_id, said)
    raised = _say(group, arrival, said, who, ctx, out)
    computed = _compute_target(group, arrival, said, raised, ctx, out)
    return _reconcile(group, arrival, said, (computed, owned, who), ctx, out)


def advance_without_target(
    group: ModernGroup, arrival: Arrival, said: Said, owned: Owned | None, ctx: Context, out: Outcome
) -> Current:
    """Do as ``advance`` in a group that becomes a classic one: no target is computed, and the member stays where it is
    if one would be due."""
    if arrival.replaces is not None:
        _take_place(group, arrival, arrival.replaces, ctx, out)
    who = Who(arrival.member_id, said.client_id, said.client_host, said.instance_id)
    raised = _say(group, arrival, said, who, ctx, out)
    if raised is not None or group.epoch > group.target_epoch:
        return arrival.current
    return _reconcile(group, arrival, said, (None, owned, who), ctx, out)


def _take_place(group: ModernGroup, arrival: Arrival, old: ConsumerMember, ctx: Context, out: Outcome) -> None:
    """Write a static member anew under the id that it has now, with all that it had."""
    assert arrival.said is not None
    group_id, member_id = group.group_id, arrival.member_id
    out.timers += forget_timers_of(group_id, old.member_id)
    out.records += tombstones_of_member(group_id, old.member_id)
    out.records += [
        MemberWritten(group_id, member_id, arrival.said),
        TargetWritten(group_id, member_id, target_value_of(group.target(old.member_id))),
        CurrentWritten(group_id, member_id, value_of(arrival.current)),
    ]
    who = who_says(member_id, old.said)
    out.journal.append(
        StaticReplaced(
            at_ms=ctx.now_ms, group=group_id, who=who, old_member_id=old.member_id, software=arrival.software
        )
    )


def _say(group: ModernGroup, arrival: Arrival, said: Said, who: Who, ctx: Context, out: Outcome) -> RaisedEpoch | None:
    """Write what the member says that is new, and the epoch of the group that this, or a change of topics, makes."""
    before = arrival.said
    if said is not before:
        out.records.append(MemberWritten(group.group_id, arrival.member_id, said))
        if before is not None:
            out.records += _unused_regex(group, before, said)
            if before.classic_member_metadata is not None:
                timers = (rejoin_timer, resync_timer)
                out.timers += [CancelTimer(timer(group.group_id, arrival.member_id)) for timer in timers]
    raised = raised_epoch(group, before, said, who, ctx, is_new=before is None)
    if raised is not None:
        value = ConsumerGroupMetadataValue(epoch=raised.epoch, metadata_hash=raised.metadata_hash)
        out.records.append(EpochWritten(group.group_id, value))
        group.soft.epoch_raised_ms = ctx.now_ms
        members = len(group.members) + (before is None)
        cause = raised.cause
        if cause.who is not None and arrival.software is not None:
            cause = msgspec.structs.replace(cause, software=arrival.software)
        out.journal.append(
            EpochRaised(at_ms=ctx.now_ms, group=group.group_id, epoch=raised.epoch, cause=cause, members=members)
        )
    return raised


def _unused_regex(group: ModernGroup, before: Said, said: Said) -> list[RegexResolved]:
    """Returns the tombstone of an expression that this member was the last to use."""
    regex = before.subscribed_topic_regex
    if not regex or regex == said.subscribed_topic_regex or group.regex_users[regex] > 1 or regex not in group.regexes:
        return []
    return [RegexResolved(group.group_id, regex, None)]


def _compute_target(
    group: ModernGroup, arrival: Arrival, said: Said, raised: RaisedEpoch | None, ctx: Context, out: Outcome
) -> ComputedTarget | None:
    """Write a new target, if one is due."""
    epoch = group.epoch if raised is None else raised.epoch
    if not is_target_due(group, epoch, ctx):
        return None
    pending = group.soft.pending_target
    if pending is not None:
        if pending.error is not None:
            group.soft.pending_target = None
            raise pending.error
        return None
    replaces = None if arrival.replaces is None else arrival.replaces.member_id
    newcomer = Newcomer(arrival.member_id, said, own_target(None, arrival.member_id, arrival.target), replaces)
    computed = compute_target(group, epoch, newcomer, ctx)
    if computed is None:
        begin_in_steps(group, ctx, out)
        return None
    for member_id in computed.changed:
        value = target_value_of(computed.targets[member_id])
        out.records.append(TargetWritten(group.group_id, member_id, value))
    note_target(group, computed, ctx, out)
    return computed


def _reconcile(
    group: ModernGroup,
    arrival: Arrival,
    said: Said,
    known: tuple[ComputedTarget | None, Owned | None, Who],
    ctx: Context,
    out: Outcome,
) -> Current:
    """Write how much nearer the member is to what it is to have, and wait for it where it must give something up."""
    computed, owned, who = known
    target_epoch = group.target_epoch if computed is None else computed.epoch
    before = arrival.current
    changed = arrival.said is None or _subscribes_otherwise(arrival.said, said)
    if before.state is ReconciliationState.STABLE and before.epoch == target_epoch and not changed:
        return before
    target = own_target(computed, arrival.member_id, arrival.target)
    names = group.topics_of(said)
    goal = Goal(target_epoch, target, _topic_ids(names, ctx), changed, names_none=not names)
    after = reconciled(before, goal, owned, lambda topic, partition: (topic, partition) not in group.owners)
    if after is before:
        return before
    out.records.append(CurrentWritten(group.group_id, arrival.member_id, value_of(after)))
    out.timers.append(_revocation(group.group_id, ConsumerMember(arrival.member_id, said, after), ctx))
    out.journal.append(note_reconciled(group, who, before, after, (target_epoch, target), ctx))
    return after


def _subscribes_otherwise(before: Said, said: Said) -> bool:
    if before is said:
        return False
    return before.subscribed_topic_names != said.subscribed_topic_names or (
        (before.subscribed_topic_regex or "") != (said.subscribed_topic_regex or "")
    )


def _topic_ids(names: Iterable[str], ctx: Context) -> frozenset[bytes]:
    ids = (ctx.topics.topic_id(name) for name in names)
    return frozenset(topic_id for topic_id in ids if topic_id is not None)


def _revocation(group_id: str, member: ConsumerMember, ctx: Context) -> SetTimer | CancelTimer:
    if awaits_revocation(member):
        return begin_revocation(group_id, member.member_id, member.said.rebalance_timeout_ms, ctx)
    return CancelTimer(revocation_timer(group_id, member.member_id))
