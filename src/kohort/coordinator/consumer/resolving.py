"""What topics the regular expressions of a group match, found beside the heartbeats, a step at a time (ADR 11).

The rules: protocol/consumer-groups.md#regular-expressions. All expressions are tried on the names that there were when
it began. What is found is written with each step, with an epoch of the group where the topics changed.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import hash_of_topics, topics_there
from kohort.coordinator.consumer.timers import regex_timer
from kohort.coordinator.consumer.topic_search import TopicSearch
from kohort.coordinator.consumer_records import EpochWritten, RegexResolved
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause, EpochRaised
from kohort.coordinator.outcome import Outcome, SetTimer, may_describe_all
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
        if not ctx.searches.takes(group.group_id, ctx.now_ms):
            return _later(group, ctx, out)
        soft.resolving = TopicSearch(_wanted(group, ctx), ctx.topics.names(), soft.wanted_by, ctx.now_ms)
        soft.regexes_refreshed_ms, soft.regexes_topics_version = ctx.now_ms, ctx.topics.version
    elif not ctx.searches.takes(group.group_id, ctx.now_ms):
        return _later(group, ctx, out)
    found = soft.resolving.step(ctx.now_ms)
    if soft.resolving.is_done:
        soft.resolving = None
        ctx.searches.done()
    else:
        again = SetTimer(regex_timer(group.group_id), ctx.now_ms + STEP_PAUSE_MS)
        out.timers.append(again)
        out.otherwise.append(again)
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


def _later(group: ModernGroup, ctx: Context, out: Outcome) -> Outcome:
    out.timers.append(SetTimer(regex_timer(group.group_id), ctx.searches.next_ms(ctx.now_ms)))
    return out


def _wanted(group: ModernGroup, ctx: Context) -> list[str]:
    """Returns the expressions to be tried: where everybody may know of every topic, and there are the topics that there
    were, those that were tried match what they matched."""
    tried = group.soft.regexes_topics_version == ctx.topics.version and group.soft.wanted_by is may_describe_all
    return [regex for regex in group.regex_users if not tried or regex not in group.regexes]


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
    epoch = group.epoch + 1
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=_hash_with(group, news, added, removed, ctx))
    out.records.append(EpochWritten(group.group_id, value))
    group.soft.epoch_raised_ms = ctx.now_ms
    out.then = partial(_note_topics, group, added, ctx)
    cause = EpochCause(
        event="regex_resolved", topics_added=tuple(sorted(added)), topics_removed=tuple(sorted(removed - added))
    )
    out.journal.append(
        EpochRaised(at_ms=ctx.now_ms, group=group.group_id, epoch=epoch, cause=cause, members=len(group.members))
    )


def _note_topics(group: ModernGroup, added: set[str], ctx: Context) -> Outcome:
    """Remember what topics that are written by now are like, so that the journal can name those that change."""
    if group.soft.topics is not None:
        group.soft.topics |= topics_there(added, ctx.topics)
    return Outcome(round_changed=False)


def _hash_with(group: ModernGroup, news: dict[str, list[str]], added: set[str], removed: set[str], ctx: Context) -> int:
    """Returns the hash of the topics that the group will subscribe to: the one that is written, where these are the
    same as before, as with the second of two expressions that match the same."""
    is_current = not removed and group.soft.checked_topics_version == ctx.topics.version
    if is_current and all(group.subscribes_to(topic) for topic in added):
        return group.metadata_hash
    matched = group.matched.copy()
    for regex, topics in news.items():
        if regex in group.regexes:
            matched.subtract(group.regexes[regex].topics)
        matched.update(topics)
    return hash_of_topics({*group.subscribers, *(topic for topic, count in matched.items() if count > 0)}, ctx.topics)
