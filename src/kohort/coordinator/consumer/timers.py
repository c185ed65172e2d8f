"""Keys of the timers of a consumer group (protocol/consumer-groups.md#timers)."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.outcome import TimerKey


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
