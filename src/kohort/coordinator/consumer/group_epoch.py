"""When the epoch of a consumer group rises with a heartbeat, and the hash that tells that topics have changed.

The rules: protocol/consumer-groups.md#group-epoch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from kohort.assignors.server.iteration import as_kafka_keeps
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.context import Context
from kohort.coordinator.journal import EpochCause, Who
from kohort.coordinator.outcome import TopicsView
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue

Said = ConsumerGroupMemberMetadataValue


class RaisedEpoch(NamedTuple):
    """The next epoch of a group, with the hash to be written, and why."""

    epoch: int
    metadata_hash: int
    cause: EpochCause


def hash_of_topics(names: Iterable[str], topics: TopicsView) -> int:
    """Return a number of 64 bits, signed, for what the names stand for now: 0 where none of these topics exists.

    It is compared with the one that this coordinator wrote, and with nothing else; so it need not be Kafka's (XXH3,
    which the standard library lacks), but must be the same in every process.
    """
    digest = blake2b(digest_size=8)
    there = False
    for name in sorted(names):
        topic_id = topics.topic_id(name)
        if topic_id is not None:
            there = True
            encoded = name.encode("utf-8", "surrogatepass")
            count = topics.partition_count(name) or 0
            digest.update(topic_id + len(encoded).to_bytes(4) + encoded + count.to_bytes(4))
    return int.from_bytes(digest.digest(), signed=True) if there else 0


def topics_there(names: Iterable[str], topics: TopicsView) -> dict[str, tuple[bytes, int]]:
    """Return those of the topics that there are, with id and number of partitions."""
    there = ((name, topics.topic_id(name)) for name in names)
    return {name: (known, topics.partition_count(name) or 0) for name, known in there if known is not None}


def _partitions_changed(
    before: dict[str, tuple[bytes, int]] | None, now: dict[str, tuple[bytes, int]], names: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Returns which of the topics are not as they were, if that is known: how many partitions they had and have."""
    if before is None:
        return {}
    none = (b"", 0)
    return {
        name: (before.get(name, none)[1], now.get(name, none)[1])
        for name in sorted(names)
        if before.get(name, none) != now.get(name, none)
    }


def names_subscribed_to(group: ModernGroup, before: Iterable[Said] = (), after: Said | None = None) -> set[str]:
    """Return the topics of all members, if what ``before`` says is taken away and ``after`` added."""
    names = group.subscribers.copy()
    unused: Counter[str] = Counter()
    for said in before:
        names.subtract(said.subscribed_topic_names)
        if said.subscribed_topic_regex:
            unused[said.subscribed_topic_regex] += 1
    found = {name for name, count in names.items() if count > 0}
    if after is not None:
        found.update(after.subscribed_topic_names)
        if after.subscribed_topic_regex:
            unused[after.subscribed_topic_regex] -= 1
    matched = group.matched
    for regex, count in unused.items():
        if count >= group.regex_users[regex] and regex in group.regexes and count > 0:
            matched = matched - Counter(group.regexes[regex].topics)
    return found.union(matched)


def preferred_assignor(group: ModernGroup, ctx: Context, before: Said | None = None, after: Said | None = None) -> str:
    """Return the assignor that most members ask for, with ``after`` in place of ``before``; nobody: the first of
    the broker's. Of several that as many ask for it is the first of Kafka's table, whoever says so, and when: with
    Kafka it is the one that the heartbeat names, so that each heartbeat of some members raises the epoch."""
    votes = group.assignor_votes
    if before is not after and (before is None or after is None or before.server_assignor != after.server_assignor):
        votes = votes.copy()
        if before is not None and before.server_assignor is not None:
            votes[before.server_assignor] -= 1
        if after is not None and after.server_assignor is not None:
            votes[after.server_assignor] += 1
    known = ctx.config.consumer_assignors
    asked = [name for name, count in votes.items() if count > 0 and name in known]
    if not asked:
        return known[0]
    return max(as_kafka_keeps(asked), key=votes.__getitem__)


def raised_epoch(
    group: ModernGroup, before: Said | None, after: Said, who: Who, ctx: Context, *, is_new: bool
) -> RaisedEpoch | None:
    """Return the epoch that a heartbeat makes of the group's, or None: nothing that matters to the target changed.

    ``before`` is what the member, or the one whose place it takes, had said; None: it is new.
    """
    cause = None if before is after else _change_of_member(group, before, after, who, is_new=is_new)
    if cause is None and before is not after:
        assignor = preferred_assignor(group, ctx, before, after)
        if assignor != preferred_assignor(group, ctx):
            cause = EpochCause(event="assignor_changed", who=who, assignor=assignor)
    if cause is None and group.soft.converted_amid_rebalance:
        # Whoever comes in place of a static member changes nothing: no epoch would rise, and all would stay without
        # partitions, as with Kafka 4.4.
        cause = EpochCause(event="converted", who=who)
    group.soft.converted_amid_rebalance = False
    version = ctx.topics.version
    if cause is None and group.soft.checked_topics_version == version:
        return None
    names = names_subscribed_to(group, () if before is None else (before,), after)
    now = hash_of_topics(names, ctx.topics)
    seen, group.soft.topics = group.soft.topics, topics_there(names, ctx.topics)
    if cause is None:
        if now == group.metadata_hash:
            group.soft.checked_topics_version = version
            return None
        changed = _partitions_changed(seen, group.soft.topics, names)
        cause = EpochCause(event="topics_changed", partitions_changed=changed)
    return RaisedEpoch(group.epoch + 1, now, cause)


def _change_of_member(
    group: ModernGroup, before: Said | None, after: Said, who: Who, *, is_new: bool
) -> EpochCause | None:
    names_before = set() if before is None else set(before.subscribed_topic_names)
    names = set(after.subscribed_topic_names)
    regex_before = (before.subscribed_topic_regex if before is not None else None) or ""
    regex = after.subscribed_topic_regex or ""
    # A new expression that nobody has resolved yet matches nothing: what it is found to match raises the epoch later.
    resolved = regex != regex_before and (not regex or regex in group.regexes)
    if names == names_before and not resolved:
        return None
    return EpochCause(
        event="member_joined" if is_new else "subscription_changed",
        who=who,
        topics_added=tuple(sorted(names - names_before)),
        topics_removed=tuple(sorted(names_before - names)),
    )
