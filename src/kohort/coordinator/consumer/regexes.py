"""When the regular expressions of a group are to be resolved again: beside the heartbeats, by a timer.

The rules: protocol/consumer-groups.md#regular-expressions.
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import Said
from kohort.coordinator.consumer.timers import regex_timer
from kohort.coordinator.context import Context
from kohort.coordinator.outcome import GroupRequest, SetTimer

REFRESH_AT_MOST_EVERY_MS: Final = 10_000


def refresh_timers(group: ModernGroup, said: Said, request: GroupRequest, ctx: Context) -> list[SetTimer]:
    """Return the timer that resolves the expressions of the group, if that is due with a heartbeat of a member that
    says ``said``: one is unresolved, topics were made since the last time, or that is long ago. Topics that whoever
    sends the heartbeat may not describe are left out, for all members."""
    regex = said.subscribed_topic_regex
    if not regex and not group.regex_users:
        return []
    soft = group.soft
    if soft.resolving is not None and ctx.now_ms < soft.resolving.stepped_ms + REFRESH_AT_MOST_EVERY_MS:
        return []  # it is under way
    last_ms = soft.regexes_refreshed_ms if group.regexes else None  # what is forgotten is not waited for
    if last_ms is not None and ctx.now_ms < last_ms + REFRESH_AT_MOST_EVERY_MS:
        return []
    is_unresolved = any(one not in group.regexes for one in (*group.regex_users, *([regex] if regex else ())))
    is_old = last_ms is None or ctx.now_ms >= last_ms + ctx.config.group_consumer_regex_refresh_interval_ms
    if is_unresolved or is_old or ctx.topics.version != soft.regexes_topics_version:
        soft.wanted_by = request.may_describe
        return [SetTimer(regex_timer(group.group_id), ctx.now_ms)]
    return []
