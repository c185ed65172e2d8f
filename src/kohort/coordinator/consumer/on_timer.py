"""Timers of a consumer group. The load of the group sets them; a change of its coordinator cancels them.

The rules: protocol/consumer-groups.md#timers.
"""

from __future__ import annotations

from typing import Final, get_args

from kohort.coordinator.consumer.evidence import by_name, places
from kohort.coordinator.consumer.fencing import remove_member
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.resolving import resolve
from kohort.coordinator.consumer.sessions import awaits_revocation, begin_all, timers_of
from kohort.coordinator.consumer.target import on_target_timer
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochEvent, GroupLoaded, GroupUnloaded
from kohort.coordinator.outcome import CancelTimer, ConsumerTimer, Outcome, SetTimer, TimerKey, TimerKind

TIMERS_OF_CONSUMER_GROUPS: Final = frozenset[TimerKind](get_args(ConsumerTimer))
RETRY_MS: Final = 500
"""Time in ms until the next attempt to remove a member, after a failed append."""


def on_timer(group: ModernGroup, key: TimerKey, ctx: Context) -> Outcome:
    if key.kind == "regex":
        return resolve(group, ctx)
    if key.kind == "target":
        return on_target_timer(group, ctx)
    out = Outcome(round_changed=False)
    member = group.members.get(key.member_id)
    if member is None:
        return out
    if key.kind == "member_session":
        presence = group.presence[key.member_id]
        if presence.expires_at_ms > ctx.now_ms:
            out.timers.append(SetTimer(key, presence.expires_at_ms))
        else:
            presence.expires_at_ms = ctx.now_ms + RETRY_MS
            _remove(group, member, "session_expired", key, ctx, out)
    elif key.kind == "revocation" and awaits_revocation(member):
        _remove(group, member, "revocation_timeout", key, ctx, out)
    elif key.kind == "rejoin" and member.is_classic:
        _remove(group, member, "rejoin_timeout", key, ctx, out)
    elif key.kind == "resync" and member.is_classic:
        _remove(group, member, "resync_timeout", key, ctx, out)
    return out


def _remove(
    group: ModernGroup, member: ConsumerMember, event: EpochEvent, key: TimerKey, ctx: Context, out: Outcome
) -> None:
    remove_member(group, member, event, ctx, out)
    out.otherwise.append(SetTimer(key, ctx.now_ms + RETRY_MS))


def begin_consumer_group(group: ModernGroup, ctx: Context) -> Outcome:
    members = group.members.values()
    loaded = GroupLoaded(
        at_ms=ctx.now_ms,
        group=group.group_id,
        generation=group.epoch,
        members=tuple(member.identity for member in members),
        partitions={member.member_id: by_name(places(member.current), ctx.topics) for member in members},
    )
    return Outcome(timers=[*begin_all(group, ctx)], journal=[loaded], round_changed=False)


def resign_consumer_group(group: ModernGroup, ctx: Context) -> Outcome:
    out = Outcome(timers=[CancelTimer(key) for key in timers_of(group)], round_changed=False)
    out.journal.append(GroupUnloaded(at_ms=ctx.now_ms, group=group.group_id, generation=group.epoch))
    return out
