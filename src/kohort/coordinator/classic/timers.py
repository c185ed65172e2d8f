"""Keys and delays of the timers of a classic group.

A session timer is set once and looks at ``Member.expires_at_ms`` when it fires: a heartbeat only moves that moment.
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.outcome import TimerKey

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""The session of a member whose first generation is still to come, whatever it asked for.

The rules: protocol/groups.md#new-members.
"""


def round_timer(group_id: str) -> TimerKey:
    """Return the key of the timer that ends the join phase: after the initial delay, or when the rebalance timeout is
    over."""
    return TimerKey("round", group_id)


def sync_timer(group_id: str) -> TimerKey:
    """Return the key of the timer that ends the wait for SyncGroup requests of a new generation."""
    return TimerKey("sync", group_id)


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that removes a silent member."""
    return TimerKey("session", group_id, member_id)


def pending_timer(group_id: str, member_id: str) -> TimerKey:
    """Return the key of the timer that forgets an id that was handed out and did not come back."""
    return TimerKey("pending", group_id, member_id)
