"""Sessions of consumer group members, and the timers of their deadlines.

The rules: protocol/consumer-groups.md#timers. A heartbeat increases ``Presence.expires_at_ms``, but does not set the
session timer. When the timer fires, the coordinator compares ``expires_at_ms`` with the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kohort.coordinator.consumer.group import ConsumerGroups, ModernGroup
from kohort.coordinator.consumer.group_epoch import settings_of
from kohort.coordinator.consumer.member import ConsumerMember, ConsumerPresence
from kohort.coordinator.consumer.reconcile import ReconciliationState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Vitals
from kohort.coordinator.outcome import CancelTimer, Outcome, SetTimer, TimerKey, TimerKind
from kohort.wire.messages.group_consumer import LEAVING_FOR_A_WHILE_EPOCH

NO_CONNECTION = -1
MEMBER_TIMERS: Final[tuple[TimerKind, ...]] = ("member_session", "revocation", "rejoin", "resync")


def timers_of(group: ModernGroup) -> Iterator[TimerKey]:
    for member_id in group.members:
        yield from timers_of_member(group.group_id, member_id)
    yield TimerKey("regex", group.group_id)
    yield TimerKey("target", group.group_id)


def timers_of_member(group_id: str, member_id: str) -> list[TimerKey]:
    return [TimerKey(kind, group_id, member_id) for kind in MEMBER_TIMERS]


def session_timeout_ms(group: ModernGroup, member: ConsumerMember, ctx: Context) -> int:
    """Return a member's session timeout in ms: the group option, or for a classic member the value in its JoinGroup."""
    classic = member.metadata.classic_member_metadata
    return settings_of(group.group_id, ctx).session_timeout_ms if classic is None else classic.session_timeout_ms


def begin_session(
    group: ModernGroup, member: ConsumerMember, ctx: Context, connection: int = NO_CONNECTION
) -> SetTimer:
    expires_at_ms = ctx.now_ms + session_timeout_ms(group, member, ctx)
    group.presence[member.member_id] = ConsumerPresence(
        expires_at_ms=expires_at_ms, last_seen_ms=ctx.now_ms, connection=connection
    )
    return SetTimer(TimerKey("member_session", group.group_id, member.member_id), expires_at_ms)


def renew_session(group: ModernGroup, member: ConsumerMember, connection: int, ctx: Context) -> list[SetTimer]:
    """Renew a member's session. Set the session timer only if the session now ends earlier than before."""
    presence = group.presence[member.member_id]
    presence.note_request(connection, ctx.now_ms)
    expires_at_ms = ctx.now_ms + session_timeout_ms(group, member, ctx)
    is_earlier = expires_at_ms < presence.expires_at_ms
    presence.expires_at_ms = expires_at_ms
    return [SetTimer(TimerKey("member_session", group.group_id, member.member_id), expires_at_ms)] if is_earlier else []


def begin_sessions_of(groups: ConsumerGroups, group_id: str, member_id: str, connection: int, ctx: Context) -> Outcome:
    group = groups.consumer[group_id]
    timer = begin_session(group, group.members[member_id], ctx, connection)
    return Outcome(timers=[timer], round_changed=False)


def begin_all(group: ModernGroup, ctx: Context) -> list[SetTimer]:
    timers = []
    for member in group.members.values():
        timers.append(begin_session(group, member, ctx))
        if awaits_revocation(member):
            timers.append(begin_revocation(group.group_id, member.member_id, member.metadata.rebalance_timeout_ms, ctx))
    return timers


def awaits_revocation(member: ConsumerMember) -> bool:
    """Return True if a member with the consumer protocol must revoke partitions within its rebalance timeout."""
    return (
        member.current.state is ReconciliationState.UNREVOKED_PARTITIONS
        and member.epoch != LEAVING_FOR_A_WHILE_EPOCH
        and not member.is_classic
    )


def begin_revocation(group_id: str, member_id: str, rebalance_timeout_ms: int, ctx: Context) -> SetTimer:
    return SetTimer(TimerKey("revocation", group_id, member_id), ctx.now_ms + max(0, rebalance_timeout_ms))


def await_revocation(group_id: str, member: ConsumerMember, ctx: Context) -> SetTimer | CancelTimer:
    """Set the revocation timer if the member must revoke partitions; else cancel it."""
    if awaits_revocation(member):
        return begin_revocation(group_id, member.member_id, member.metadata.rebalance_timeout_ms, ctx)
    return CancelTimer(TimerKey("revocation", group_id, member.member_id))


def cancel_member_timers(group_id: str, member_id: str) -> list[CancelTimer]:
    return [CancelTimer(key) for key in timers_of_member(group_id, member_id)]


def vitals_of(group: ModernGroup, member: ConsumerMember, ctx: Context) -> Vitals | None:
    presence = group.presence.get(member.member_id)
    if presence is None:
        return None
    vitals = presence.evidence(session_timeout_ms(group, member, ctx), member.metadata.rebalance_timeout_ms, ctx)
    places = [
        (name, p) for id_, p, _ in member.current.partitions() if (name := ctx.topics.topic_name(id_)) is not None
    ]
    client_metrics = ctx.evidence.client_metrics.of(member.identity)
    return replace(vitals, lag=ctx.lag_of(group.group_id, places), client_metrics=client_metrics)
