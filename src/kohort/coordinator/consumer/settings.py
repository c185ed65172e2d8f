"""What holds for one consumer group: options of its own where it has some, else the broker's.

The rules: protocol/consumer-groups.md#options-of-groups.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.config.group import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, in_force
from kohort.coordinator.context import Context


class GroupSettings(NamedTuple):
    """Times in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings_of(group_id: str, ctx: Context) -> GroupSettings:
    """Return what holds for a group, whether it is there or not. Whoever asks for one of these asks here."""
    config = ctx.config
    if own := ctx.options_of_group(group_id):
        return GroupSettings(
            *(in_force(config, own, name) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL))
        )
    return GroupSettings(
        config.group_consumer_session_timeout_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_assignment_interval_ms,
    )
