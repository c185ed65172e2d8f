"""What has changed of a modern group since its epoch rose last, and whose its partitions are to be."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kohort.coordinator.consumer_records import RegexResolved
from kohort.coordinator.journal import EpochCause, Who
from kohort.insight.observed.state import WatchedMember, WatchedModernGroup
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)

Ids = dict[str, list[int]]
"""Partitions by topic id in hexadecimal."""
Place = tuple[str, int]
"""A topic id in hexadecimal, and a partition."""
Planned = dict[str, dict[int, str]]


def said(before: WatchedMember | None, who: Who, value: ConsumerGroupMemberMetadataValue, at_ms: int) -> WatchedMember:
    """Return a member with what it says of itself now."""
    topics = tuple(sorted(set(value.subscribed_topic_names)))
    after = WatchedMember(who, joined_ms=at_ms, heard_ms=at_ms) if before is None else before
    return msgspec.structs.replace(
        after,
        who=who,
        topics=topics,
        regex=value.subscribed_topic_regex or None,
        assignor=value.server_assignor,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        heard_ms=at_ms,
    )


def resolve(group: WatchedModernGroup, record: RegexResolved) -> None:
    """Take the topics that an expression matches now."""
    before = group.regexes.get(record.regex)
    if record.value is None:
        group.regexes.pop(record.regex, None)
        return
    after = group.regexes[record.regex] = tuple(sorted(set(record.value.topics)))
    if before != after:
        was = set(before or ())
        group.resolved.append((tuple(sorted({*after} - was)), tuple(sorted(was - {*after}))))


def cause_of(group: WatchedModernGroup, other_topics: bool) -> EpochCause:
    """Return why the epoch rose, by what was written since it rose before."""
    if group.gone:
        (who, signs), *others = group.gone
        return EpochCause(event="member_gone", who=who, signs=signs, others=tuple(other for other, _ in others))
    if group.joined:
        who, *more = group.joined
        topics = group.members[who.member_id].topics if who.member_id in group.members else ()
        return EpochCause(event="member_joined", who=who, others=tuple(more), topics_added=topics)
    if group.subscribed:
        who, added, removed = group.subscribed[0]
        return EpochCause(event="subscription_changed", who=who, topics_added=added, topics_removed=removed)
    if group.resolved:
        added, removed = group.resolved[0]
        return EpochCause(event="regex_resolved", topics_added=added, topics_removed=removed)
    if group.preferred:
        who, assignor = group.preferred[0]
        return EpochCause(event="assignor_changed", who=who, assignor=assignor or None)
    return EpochCause(event="topics_changed" if other_topics else "unexplained")


def forget_changes(group: WatchedModernGroup) -> None:
    """Begin anew: what was written until now has its epoch."""
    group.joined, group.gone, group.subscribed, group.preferred, group.resolved = [], [], [], [], []


def release(group: WatchedModernGroup, member: WatchedMember, at_ms: int) -> None:
    """Take what a member that is gone had as nobody's from now on."""
    for topic, partition in held(member):
        group.released.setdefault(topic, {})[partition] = at_ms


def held(member: WatchedMember) -> set[Place]:
    """Return what nobody else may have: what the member has, and what it has not yet given up."""
    return flat(member.assigned) | flat(member.pending)


def flat(ids: Ids) -> set[Place]:
    """Return partitions one by one."""
    return {(topic, partition) for topic, partitions in ids.items() for partition in partitions}


def by_topic(places: Iterable[Place]) -> Ids:
    """Return partitions by topic id."""
    found: Ids = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found


def ids_of(told: Iterable[TargetTopicPartition] | Iterable[CurrentTopicPartitions]) -> Ids:
    """Return partitions as a record has them, by topic id."""
    found: Ids = {}
    for one in told:
        found.setdefault(one.topic_id.hex(), []).extend(one.partitions)
    return {topic: sorted(set(partitions)) for topic, partitions in found.items() if partitions}


def planned(group: WatchedModernGroup) -> Planned:
    """Return whose each partition is to be, by the shares of the target that are written."""
    found: Planned = {}
    for member_id, target in group.targets.items():
        for topic, partitions in target.items():
            found.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    return found


def changes(before: Planned, after: Planned) -> list[tuple[Place, tuple[str | None, str | None]]]:
    """Return the partitions that are to be somebody else's: whose they were to be, and are to be now."""
    places = {(topic, p) for told in (before, after) for topic, of in told.items() for p in of}
    ends = ((place, (_owner(before, place), _owner(after, place))) for place in sorted(places))
    return [(place, (was, now)) for place, (was, now) in ends if was != now]


def _owner(told: Planned, place: Place) -> str | None:
    return told.get(place[0], {}).get(place[1])
