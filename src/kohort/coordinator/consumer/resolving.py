"""Search for the topics that match a group's subscription patterns, in steps between heartbeats (ADR 11).

The rules: protocol/consumer-groups.md#regular-expressions. A search uses the topic names that exist when it begins.
Each step persists the matching topics that it found. If a pattern matches other topics than before, the step also
raises the group epoch.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import current_topics, epoch_record, note_epoch
from kohort.coordinator.consumer.subscribed_topics import TopicSearch
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause
from kohort.coordinator.outcome import GroupRequest, Outcome, SetTimer, TimerKey, may_describe_all
from kohort.coordinator.records import RegexResolved
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import ConsumerGroupRegularExpressionValue

REFRESH_AT_MOST_EVERY_MS: Final = 10_000
STEP_PAUSE_MS: Final = 1


def refresh_timers(
    group: ModernGroup, metadata: ConsumerMetadata, request: GroupRequest, ctx: Context
) -> list[SetTimer]:
    """Return the timer that starts a topic search, as a list; an empty list if no search is due.

    A search is due for a new pattern, for new topics, or after the refresh interval. Its result applies to all members,
    but has only topics that the sender of the heartbeat may describe.
    """
    regex = metadata.subscribed_topic_regex
    if not regex and not group.regex_users:
        return []
    volatile = group.volatile
    if volatile.resolving is not None and ctx.now_ms < volatile.resolving.stepped_ms + REFRESH_AT_MOST_EVERY_MS:
        return []  # a topic search of this group is running
    # A group without search results starts a search at once.
    last_ms = volatile.regexes_refreshed_ms if group.regexes else None
    if last_ms is not None and ctx.now_ms < last_ms + REFRESH_AT_MOST_EVERY_MS:
        return []
    is_unresolved = any(one not in group.regexes for one in (*group.regex_users, *([regex] if regex else ())))
    is_old = last_ms is None or ctx.now_ms >= last_ms + ctx.config.group_consumer_regex_refresh_interval_ms
    if is_unresolved or is_old or ctx.topics.version != volatile.regexes_topics_version:
        volatile.regex_may_describe = request.may_describe
        return [SetTimer(TimerKey("regex", group.group_id), ctx.now_ms)]
    return []


def resolve(group: ModernGroup, ctx: Context) -> Outcome:
    out = Outcome(round_changed=False)
    volatile = group.volatile
    if volatile.resolving is None and not group.regex_users:
        return out
    if not ctx.searches.may_step(group.group_id, ctx.now_ms):
        out.timers.append(SetTimer(TimerKey("regex", group.group_id), ctx.searches.next_ms(ctx.now_ms)))
        return out
    if volatile.resolving is None:
        volatile.resolving = TopicSearch(
            _unresolved(group, ctx), ctx.topics.names(), volatile.regex_may_describe, ctx.now_ms
        )
        volatile.regexes_refreshed_ms, volatile.regexes_topics_version = ctx.now_ms, ctx.topics.version
    found = volatile.resolving.step(ctx.now_ms)
    if volatile.resolving.is_done:
        volatile.resolving = None
        ctx.searches.done()
    else:
        again = SetTimer(TimerKey("regex", group.group_id), ctx.now_ms + STEP_PAUSE_MS)
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


def _unresolved(group: ModernGroup, ctx: Context) -> list[str]:
    """Return the patterns for which a search is due.

    If topics are unchanged and the client may describe all topics, these are the new patterns; else all patterns.
    """
    volatile = group.volatile
    unchanged = volatile.regexes_topics_version == ctx.topics.version
    only_new = unchanged and volatile.regex_may_describe is may_describe_all
    return [regex for regex in group.regex_users if not only_new or regex not in group.regexes]


def _raise_epoch(group: ModernGroup, news: dict[str, list[str]], ctx: Context, out: Outcome) -> None:
    added: set[str] = set()
    removed: set[str] = set()
    for regex, topics in news.items():
        before = set(group.regexes[regex].topics) if regex in group.regexes else set()
        added.update(set(topics) - before)
        removed.update(before - set(topics))
    if not added and not removed:
        return
    epoch = group.epoch + 1
    out.records.append(epoch_record(group.group_id, epoch, _hash_with(group, news, added, removed, ctx)))
    cause = EpochCause(
        event="regex_resolved", topics_added=tuple(sorted(added)), topics_removed=tuple(sorted(removed - added))
    )
    note_epoch(group, epoch, cause, len(group.members), ctx, out)


def _hash_with(group: ModernGroup, news: dict[str, list[str]], added: set[str], removed: set[str], ctx: Context) -> int:
    fewer = Counter(topic for regex in news if regex in group.regexes for topic in group.regexes[regex].topics)
    more = Counter(topic for topics in news.values() for topic in topics)
    ended = [
        topic
        for topic in removed
        if topic not in group.subscribers and group.matched[topic] - fewer[topic] + more[topic] <= 0
    ]
    begun = [topic for topic in added if not group.subscribes_to(topic)]
    return current_topics(group, ctx)[0].hash_with(begun, ended, ctx.topics)
