"""Group epoch of a consumer group. This module decides whether the epoch rises, and names the cause.

The rules: protocol/consumer-groups.md#group-epoch, protocol/consumer-groups.md#options-of-groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from kohort.assignors.server.iteration import in_group_order
from kohort.config.group import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT, in_force
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.subscribed_topics import ExistingTopic, TopicsOfGroup
from kohort.coordinator.context import Context
from kohort.coordinator.journal import ClientIdentity, EpochCause, EpochRaised
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.records import EpochWritten
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import ConsumerGroupMetadataValue


class GroupSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings_of(group_id: str, ctx: Context) -> GroupSettings:
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


class RaisedEpoch(NamedTuple):
    """Next epoch of a consumer group, with the group's topic hash and the cause of the epoch."""

    epoch: int
    metadata_hash: int
    cause: EpochCause


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> EpochWritten:
    return EpochWritten(group_id, ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash))


def note_epoch(group: ModernGroup, epoch: int, cause: EpochCause, members: int, ctx: Context, out: Outcome) -> None:
    """Journal a new group epoch. ``members``: number of members in the group from this epoch on."""
    group.volatile.epoch_raised_ms = ctx.now_ms
    out.journal.append(EpochRaised(at_ms=ctx.now_ms, group=group.group_id, epoch=epoch, cause=cause, members=members))


def current_topics(group: ModernGroup, ctx: Context) -> tuple[TopicsOfGroup, dict[str, ExistingTopic] | None]:
    """Refresh the group's existing topics. Return them and, if ``TopicsView.version`` changed, the previous topics."""
    topics = group.volatile.topics
    if topics is None:
        topics = group.volatile.topics = TopicsOfGroup()
        topics.refresh(group, ctx.topics)
        return topics, None
    return topics, topics.refresh(group, ctx.topics)


def changed_names(
    group: ModernGroup, before: Collection[ConsumerMetadata], after: ConsumerMetadata | None
) -> tuple[list[str], list[str]]:
    """Return the topics to which the group newly subscribes, and the topics to which it no longer subscribes.

    ``before``: previous metadata of members. ``after``: metadata that replaces it; None: the members are removed.
    """
    stays = set() if after is None else set(after.subscribed_topic_names)
    begun = [name for name in stays if not group.subscribes_to(name)]
    fewer = Counter(name for metadata in before for name in metadata.subscribed_topic_names)
    unused = Counter(metadata.subscribed_topic_regex for metadata in before if metadata.subscribed_topic_regex)
    if after is not None and after.subscribed_topic_regex:
        unused[after.subscribed_topic_regex] -= 1
    lost: Counter[str] = Counter()
    for regex, count in unused.items():
        if 0 < count >= group.regex_users[regex] and regex in group.regexes:
            lost.update(group.regexes[regex].topics)
    ended = [
        name
        for name in fewer.keys() | lost.keys()
        if name not in stays and group.subscribers[name] <= fewer[name] and group.matched[name] <= lost[name]
    ]
    return begun, ended


def hash_without(group: ModernGroup, removed: Collection[ConsumerMetadata], ctx: Context) -> int:
    """Return the group's topic hash after the removal of members. ``removed``: metadata of these members."""
    return current_topics(group, ctx)[0].hash_with(*changed_names(group, removed, None), ctx.topics)


def _partitions_changed(
    before: dict[str, ExistingTopic] | None, now: dict[str, ExistingTopic]
) -> dict[str, tuple[int, int]]:
    if before is None:
        return {}
    none = ExistingTopic(b"", 0, b"")
    return {
        name: (before.get(name, none).partitions, now.get(name, none).partitions)
        for name in sorted(before.keys() | now.keys())
        if before.get(name, none)[:2] != now.get(name, none)[:2]
    }


def preferred_assignor(
    group: ModernGroup, ctx: Context, before: ConsumerMetadata | None = None, after: ConsumerMetadata | None = None
) -> str:
    """Return the server assignor that most members of the group prefer.

    ``before``, ``after``: metadata of one member before and after a change that is not yet persisted. If no member has
    a preference, the broker's first assignor is returned. In a tie, the first tied assignor in the order of Kafka's
    hash table wins. In Kafka a tie is won by the preference of the heartbeat's sender, so heartbeats of different
    members raise the epoch again and again.
    """
    votes = group.assignor_votes
    if before is not after and (before is None or after is None or before.server_assignor != after.server_assignor):
        votes = votes.copy()
        if before is not None and before.server_assignor is not None:
            votes[before.server_assignor] -= 1
        if after is not None and after.server_assignor is not None:
            votes[after.server_assignor] += 1
    known = ctx.config.consumer_assignors
    preferred = [name for name, count in votes.items() if count > 0 and name in known]
    if not preferred:
        return known[0]
    return max(in_group_order(preferred), key=votes.__getitem__)


def raised_epoch(
    group: ModernGroup, before: ConsumerMetadata | None, after: ConsumerMetadata, who: ClientIdentity, ctx: Context
) -> RaisedEpoch | None:
    """Return the new group epoch after a heartbeat; None if the heartbeat does not raise the epoch.

    ``before``: previous metadata of the member, or of the static member that it replaces; None for a new member.
    """
    cause = None if before is after else _change_of_member(group, before, after, who)
    if cause is None and before is not after:
        assignor = preferred_assignor(group, ctx, before, after)
        if assignor != preferred_assignor(group, ctx):
            cause = EpochCause(event="assignor_changed", member=who, assignor=assignor)
    if cause is None and group.volatile.converted_amid_rebalance:
        # A group that was converted during a rebalance needs a new epoch, even if no subscription changed.
        cause = EpochCause(event="converted", member=who)
    group.volatile.converted_amid_rebalance = False
    version = ctx.topics.version
    if cause is None and group.volatile.checked_topics_version == version:
        return None
    topics, earlier = current_topics(group, ctx)
    begun, ended = changed_names(group, () if before is None or before is after else (before,), after)
    now = topics.hash_with(begun, ended, ctx.topics)
    if cause is None:
        if now == group.metadata_hash:
            group.volatile.checked_topics_version = version
            return None
        cause = EpochCause(event="topics_changed", partitions_changed=_partitions_changed(earlier, topics.found))
    return RaisedEpoch(group.epoch + 1, now, cause)


def _change_of_member(
    group: ModernGroup, before: ConsumerMetadata | None, after: ConsumerMetadata, who: ClientIdentity
) -> EpochCause | None:
    names_before, names = [] if before is None else before.subscribed_topic_names, after.subscribed_topic_names
    regex_before = (before.subscribed_topic_regex if before is not None else None) or ""
    regex = after.subscribed_topic_regex or ""
    # A new pattern matches no topic until its search has found some. The search then raises the group epoch.
    resolved = regex != regex_before and (not regex or regex in group.regexes)
    if names == names_before and not resolved:
        return None
    return EpochCause(
        event="member_joined" if before is None else "subscription_changed",
        member=who,
        topics_added=_not_among(names, names_before),
        topics_removed=_not_among(names_before, names),
    )


def _not_among(names: list[str], others: list[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(name for name in names if name not in known)
