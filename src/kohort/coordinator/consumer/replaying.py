"""Replay of consumer group records, after an append and while loading. It also updates the indices of the group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from sys import intern

from kohort.coordinator.consumer.group import FIRST_EPOCH, ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import NEW_MEMBER, current_of, target_of
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    OldMetadataRemoved,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
)
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import ConsumerGroupRegularExpressionValue


def replay_consumer_group(group: ModernGroup, record: ConsumerGroupRecord) -> None:
    """Apply a consumer group record to its group.

    After compaction, a member's assignment may precede its metadata. A tombstone may come without the record that it
    deletes.
    """
    if isinstance(record, EpochWritten):
        group.epoch = FIRST_EPOCH if record.value is None else record.value.epoch
        group.metadata_hash = 0 if record.value is None else record.value.metadata_hash
    elif isinstance(record, MemberWritten):
        _replay_member(group, record.member_id, record.value)
    elif isinstance(record, TargetEpochWritten):
        group.target_epoch = FIRST_EPOCH if record.value is None else record.value.assignment_epoch
        group.target_at_ms = 0 if record.value is None else record.value.assignment_timestamp
    elif isinstance(record, TargetWritten):
        if record.value is None:
            group.targets.pop(record.member_id, None)
        else:
            group.targets[record.member_id] = target_of(record.value)
    elif isinstance(record, CurrentWritten):
        _replay_current(group, record)
    elif isinstance(record, RegexResolved):
        _replay_regex(group, record.regex, record.value)
    else:
        assert isinstance(record, OldMetadataRemoved)


def _replay_member(group: ModernGroup, member_id: str, metadata: ConsumerMetadata | None) -> None:
    member = group.members.get(member_id)
    if member is not None:
        _count(group, member.metadata, -1)
        if member.instance_id is not None and group.instances.get(member.instance_id) == member_id:
            del group.instances[member.instance_id]
    if metadata is None:
        if member is not None:
            _release(group, member)
            del group.members[member_id]
            group.presence.pop(member_id, None)
        return
    _count(group, metadata, 1)
    if metadata.instance_id is not None:
        group.instances[metadata.instance_id] = member_id
    if member is None:
        _add_member(group, ConsumerMember(member_id, metadata))
    else:
        member.metadata = metadata


def _add_member(group: ModernGroup, member: ConsumerMember) -> None:
    group.members[member.member_id] = member
    group.most_members = max(group.most_members, len(group.members))


def _count(group: ModernGroup, metadata: ConsumerMetadata, by: int) -> None:
    _add_names(group, group.subscribers, metadata.subscribed_topic_names, by)
    if metadata.subscribed_topic_regex:
        _add(group.regex_users, metadata.subscribed_topic_regex, by)
    if metadata.server_assignor is not None:
        _add(group.assignor_votes, metadata.server_assignor, by)
    if metadata.classic_member_metadata is not None:
        group.classic_members += by
        for name in {protocol.name for protocol in metadata.classic_member_metadata.supported_protocols}:
            _add(group.classic_protocols, name, by)


def _replay_regex(group: ModernGroup, regex: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
    before = group.regexes.pop(regex, None)
    if before is not None:
        _add_names(group, group.matched, before.topics, -1)
    if value is None:
        return
    # several patterns may match the same topics: share the strings of the topic names
    topics = list(map(intern, value.topics))
    group.regexes[regex] = ConsumerGroupRegularExpressionValue(
        topics=topics, version=value.version, timestamp=value.timestamp
    )
    _add_names(group, group.matched, topics, 1)


def _add_names(group: ModernGroup, counter: Counter[str], names: Iterable[str], by: int) -> None:
    begun_or_ended = []
    for name in names:
        count = counter.get(name, 0) + by
        if count:
            counter[name] = count
        else:
            del counter[name]
        if count == (by > 0):
            begun_or_ended.append(name)
    if group.volatile.topics is not None:
        group.volatile.topics.changed.update(begun_or_ended)


def _add(counter: Counter[str], name: str, by: int) -> None:
    counter[name] += by
    if not counter[name]:
        del counter[name]


def _replay_current(group: ModernGroup, record: CurrentWritten) -> None:
    member = group.members.get(record.member_id)
    if record.value is None:
        if member is not None:
            _release(group, member)
            member.current = NEW_MEMBER
        return
    if member is None:
        member = ConsumerMember(record.member_id, ConsumerMetadata())
        _add_member(group, member)
    _release(group, member)
    member.current = current_of(record.value)
    for topic_id, partition, _ in member.current.partitions():
        group.owners[topic_id, partition] = member.member_id


def _release(group: ModernGroup, member: ConsumerMember) -> None:
    for topic_id, partition, _ in member.current.partitions():
        if group.owners.get((topic_id, partition)) == member.member_id:
            del group.owners[topic_id, partition]
