"""Signs of life of the members of a consumer group, and the timers that wait for them.

The rules: protocol/consumer-groups.md#timers. A session timer is set once and looks at ``Presence.expires_at_ms``
when it fires: a heartbeat only moves that moment.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kohort.coordinator.consumer.group import ConsumerGroups, ModernGroup
from kohort.coordinator.consumer.group_epoch import settings_of
from kohort.coordinator.consumer.member import ConsumerMember, ConsumerPresence
from kohort.coordinator.consumer.reconcile import ReconciliationState
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Vitals
from kohort.coordinator.outcome import CancelTimer, Outcome, SetTimer, TimerKey
from kohort.wire.messages.group_consumer import LEAVING_FOR_A_WHILE_EPOCH


def member_session_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a silent member."""
    return TimerKey("member_session", group_id, member_id)


def revocation_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a member that does not revoke within its rebalance timeout."""
    return TimerKey("revocation", group_id, member_id)


def rejoin_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a member of the classic protocol that was told to join again."""
    return TimerKey("rejoin", group_id, member_id)


def resync_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a member of the classic protocol that joined and does not sync."""
    return TimerKey("resync", group_id, member_id)


def regex_timer(group_id: str) -> TimerKey:
    """Return the key of the timer that resolves the expressions of a group, beside the heartbeats."""
    return TimerKey("regex", group_id)


def target_timer(group_id: str) -> TimerKey:
    """Return the key of the timer that computes the target of a large group, a step at a time."""
    return TimerKey("target", group_id)


def timers_of(group: ModernGroup) -> Iterator[TimerKey]:
    """Yield every timer that a group can have set."""
    for member_id in group.members:
        yield from timers_of_member(group.group_id, member_id)
    yield regex_timer(group.group_id)
    yield target_timer(group.group_id)


def timers_of_member(group_id: str, member_id: str) -> tuple[TimerKey, ...]:
    """Return every timer that a member can have set."""
    return (
        member_session_timer(group_id, member_id),
        revocation_timer(group_id, member_id),
        rejoin_timer(group_id, member_id),
        resync_timer(group_id, member_id),
    )


NO_CONNECTION = -1


def session_timeout_ms(group: ModernGroup, member: ConsumerMember, ctx: Context) -> int:
    """Return how long a member may be silent: the group's, or what a member of the classic protocol asked for."""
    classic = member.metadata.classic_member_metadata
    return settings_of(group.group_id, ctx).session_timeout_ms if classic is None else classic.session_timeout_ms


def begin_session(
    group: ModernGroup, member: ConsumerMember, ctx: Context, connection: int = NO_CONNECTION
) -> SetTimer:
    """Begin to watch a member that joined, or was read from the log."""
    expires_at_ms = ctx.now_ms + session_timeout_ms(group, member, ctx)
    group.presence[member.member_id] = ConsumerPresence(
        expires_at_ms=expires_at_ms, last_seen_ms=ctx.now_ms, connection=connection
    )
    return SetTimer(member_session_timer(group.group_id, member.member_id), expires_at_ms)


def renew_session(group: ModernGroup, member: ConsumerMember, connection: int, ctx: Context) -> list[SetTimer]:
    """Note a sign of life of a member. Its timer is set anew only where the session ends earlier than before."""
    presence = group.presence[member.member_id]
    presence.note_request(connection, ctx.now_ms)
    expires_at_ms = ctx.now_ms + session_timeout_ms(group, member, ctx)
    is_earlier = expires_at_ms < presence.expires_at_ms
    presence.expires_at_ms = expires_at_ms
    return [SetTimer(member_session_timer(group.group_id, member.member_id), expires_at_ms)] if is_earlier else []


def begin_sessions_of(groups: ConsumerGroups, group_id: str, member_id: str, connection: int, ctx: Context) -> Outcome:
    """Begin to watch a member that joined, once its records are written."""
    group = groups.consumer[group_id]
    timer = begin_session(group, group.members[member_id], ctx, connection)
    return Outcome(timers=[timer], round_changed=False)


def begin_all(group: ModernGroup, ctx: Context) -> list[SetTimer]:
    """Begin to watch every member of a group that was read from the log: all waits begin anew."""
    timers = []
    for member in group.members.values():
        timers.append(begin_session(group, member, ctx))
        if awaits_revocation(member):
            timers.append(begin_revocation(group.group_id, member.member_id, member.metadata.rebalance_timeout_ms, ctx))
    return timers


def awaits_revocation(member: ConsumerMember) -> bool:
    """Tell whether a member must say within its rebalance timeout that it gave something up."""
    return (
        member.current.state is ReconciliationState.UNREVOKED_PARTITIONS
        and member.epoch != LEAVING_FOR_A_WHILE_EPOCH
        and not member.is_classic
    )


def begin_revocation(group_id: str, member_id: str, rebalance_timeout_ms: int, ctx: Context) -> SetTimer:
    """Wait for a member to report that it revoked."""
    return SetTimer(revocation_timer(group_id, member_id), ctx.now_ms + max(0, rebalance_timeout_ms))


def await_revocation(group_id: str, member: ConsumerMember, ctx: Context) -> SetTimer | CancelTimer:
    """Set the revocation timer of a member that has something to revoke; cancel it for any other."""
    if awaits_revocation(member):
        return begin_revocation(group_id, member.member_id, member.metadata.rebalance_timeout_ms, ctx)
    return CancelTimer(revocation_timer(group_id, member.member_id))


def cancel_member_timers(group_id: str, member_id: str) -> list[CancelTimer]:
    """Cancel whatever waits for a member that is gone."""
    return [CancelTimer(key) for key in timers_of_member(group_id, member_id)]


def vitals_of(group: ModernGroup, member: ConsumerMember, ctx: Context) -> Vitals | None:
    """Return what is known of a member's signs of life, as evidence for the journal."""
    presence = group.presence.get(member.member_id)
    if presence is None:
        return None
    vitals = presence.evidence(session_timeout_ms(group, member, ctx), member.metadata.rebalance_timeout_ms, ctx)
    places = [
        (name, p) for id_, p, _ in member.current.partitions() if (name := ctx.topics.topic_name(id_)) is not None
    ]
    client_metrics = ctx.evidence.client_metrics.of(member.who)
    return replace(vitals, lag=ctx.lag_of(group.group_id, places), client_metrics=client_metrics)
