"""What topics the regular expressions of a group match, found beside the heartbeats, a step at a time (ADR 11).

The rules: protocol/consumer-groups.md#regular-expressions. All expressions are tried on the names that there were when
it began. What is found is written with each step, with an epoch of the group where the topics changed.
"""

from __future__ import annotations

from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import hash_of_topics
from kohort.coordinator.consumer.timers import regex_timer
from kohort.coordinator.consumer.topic_search import TopicSearch
from kohort.coordinator.consumer_records import EpochWritten, RegexResolved
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause, EpochRaised
from kohort.coordinator.outcome import Outcome, SetTimer
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
)

STEP_PAUSE_MS: Final = 1


def resolve(group: ModernGroup, ctx: Context) -> Outcome:
    """Go on with the resolution of a group's expressions, and write what this step has found."""
    out = Outcome(round_changed=False)
    soft = group.soft
    if soft.resolving is None:
        if not group.regex_users:
            return out
        soft.resolving = TopicSearch(list(group.regex_users), ctx.topics.names(), soft.wanted_by, ctx.now_ms)
        soft.regexes_refreshed_ms, soft.regexes_topics_version = ctx.now_ms, ctx.topics.version
    found = soft.resolving.step(ctx.now_ms)
    if soft.resolving.is_done:
        soft.resolving = None
    else:
        out.timers.append(SetTimer(regex_timer(group.group_id), ctx.now_ms + STEP_PAUSE_MS))
    news = {
        regex: topics
        for regex, topics in found.items()
        if group.regex_users[regex] and (regex not in group.regexes or group.regexes[regex].topics != topics)
    }
    for regex, topics in news.items():
        value = ConsumerGroupRegularExpressionValue(topics=topics, version=ctx.topics.version, timestamp=ctx.now_ms)
        out.records.append(RegexResolved(group.group_id, regex, value))
    _raise_epoch(group, news, ctx, out)
    return out


def _raise_epoch(group: ModernGroup, news: dict[str, list[str]], ctx: Context, out: Outcome) -> None:
    """Write the next epoch of the group, if what some expression matches is not what it was."""
    added: set[str] = set()
    removed: set[str] = set()
    for regex, topics in news.items():
        before = set(group.regexes[regex].topics) if regex in group.regexes else set()
        added.update(set(topics) - before)
        removed.update(before - set(topics))
    if not added and not removed:
        return
    names = {name for name, count in group.subscribers.items() if count > 0}
    for regex in group.regex_users:
        if regex in news:
            names.update(news[regex])
        elif regex in group.regexes:
            names.update(group.regexes[regex].topics)
    epoch = group.epoch + 1
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=hash_of_topics(names, ctx.topics))
    out.records.append(EpochWritten(group.group_id, value))
    group.soft.epoch_raised_ms = ctx.now_ms
    cause = EpochCause(
        event="regex_resolved", topics_added=tuple(sorted(added)), topics_removed=tuple(sorted(removed - added))
    )
    out.journal.append(
        EpochRaised(at_ms=ctx.now_ms, group=group.group_id, epoch=epoch, cause=cause, members=len(group.members))
    )
