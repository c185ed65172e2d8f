"""Memory limit of all groups (``group.coordinator.max.bytes``): clients cannot exhaust the memory of the broker.

Kafka has no such limit. Groups in the log are always loaded. At the limit the coordinator refuses new groups and new
members. Existing groups may grow by small requests until all groups together take twice the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kohort.coordinator.classic.join import FIRST_WITH_REQUIRED_ID
from kohort.coordinator.classic.member import Member
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import MemberWritten, OffsetCommitted, Record, RegexResolved
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import ConsumerGroupRegularExpressionValue
from kohort.wire.messages.group_classic import JoinGroupRequest, SyncGroupRequest

GROUP_BYTES: Final = 3_000
MEMBER_BYTES: Final = 1_500
PENDING_BYTES: Final = 500
OFFSET_BYTES: Final = 400
NAME_BYTES: Final = 100
PARTITION_BYTES: Final = 400
TOPIC_BYTES: Final = 150
"""Estimated memory in bytes of one topic. All estimates assume names of 100 letters (``USUAL_NAME``)."""
USUAL_NAME: Final = 100
LETTER_BYTES: Final = 4
NAME_LETTER_BYTES: Final = 4 * LETTER_BYTES
"""Bytes for each letter of a name beyond ``USUAL_NAME``. Records and journal entries contain copies of the name."""
REGEX_BYTES: Final = 500
MATCH_BYTES: Final = 8
"""Memory in bytes of one match of a subscription pattern, in addition to the name of the topic."""
FREE_BYTES: Final = 16_384
"""Maximum bytes of metadata that an existing member may send after the memory limit is reached."""
MEASUREMENTS: Final = 8
"""The memory of groups is measured whenever requests have added 1/``MEASUREMENTS`` of the memory limit."""
MEASURE_EVERY_MS: Final = 1_000
MEASURED_AT_ONCE: Final = 2_000
"""Number of members whose memory is measured during one request. The measurement takes a few milliseconds."""
OFFSETS_PER_MEMBER: Final = 20
"""Number of offsets that take as long to measure as one member."""
EXISTING_FACTOR: Final = 2
"""Existing groups may grow up to the memory limit times this factor. New groups are refused at the limit itself."""
NO_LIMIT: Final = -1


class Added(NamedTuple):
    """Maximum bytes that a request adds. ``new``: in new groups and members; ``grown``: in existing groups."""

    new: int = 0
    grown: int = 0


NOTHING: Final = Added()


class MemoryBudget:
    """Upper bound for the memory of all groups. Accepted requests increase it; repeated measurements correct it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.at_most = 0
        self._measured_ms: int | None = None
        self._measure_above = limit // MEASUREMENTS
        self._measurement: Iterator[tuple[int, int]] | None = None
        """Measurement in progress: the iterator of ``sizes_of`` over all groups."""
        self._measured = 0
        """Bytes measured so far by the measurement in progress, plus bytes that requests added since its start."""
        self.refused = 0

    def admit(self, added: Added, all_groups: Iterable[Groups], now_ms: int) -> bool:
        """Return False if a request would exceed the memory limit. Otherwise count the bytes of the request as used."""
        size = added.new + added.grown
        if self.limit == NO_LIMIT or not size:
            return True
        if self._measurement is not None or self.at_most + size > min(self._measure_above, self.limit):
            self._continue_measurement(all_groups, now_ms)
        if self.at_most + size > (self.limit if added.new else EXISTING_FACTOR * self.limit):
            self.refused += 1
            return False
        self.at_most += size
        self._measured += size
        return True

    def _continue_measurement(self, all_groups: Iterable[Groups], now_ms: int) -> None:
        if self._measurement is None:
            if self._measured_ms is not None and now_ms - self._measured_ms < MEASURE_EVERY_MS:
                return
            self._measured_ms, self._measured = now_ms, 0
            self._measurement = (one for groups in list(all_groups) for one in sizes_of(groups))
        effort = 0
        for size, took in self._measurement:
            self._measured += size
            effort += took
            if effort >= MEASURED_AT_ONCE:
                return
        self._measurement = None
        self.at_most = self._measured
        self._measure_above = self.at_most + self.limit // MEASUREMENTS


def added_by_join(request: GroupRequest, groups: Groups) -> Added:
    """Return the maximum bytes that a JoinGroup adds to a classic group."""
    message = request.message_as(JoinGroupRequest)
    if message.group_id in groups.consumer:
        return NOTHING
    group = groups.by_id.get(message.group_id)
    metadata_bytes = sum(len(p.name) + len(p.metadata) for p in message.protocols)
    names = bytes_of_long_names(request.client_id, message.group_instance_id)
    member_there = None if group is None else group.round.members.get(message.member_id)
    if member_there is not None:
        kept = metadata_bytes + names + bytes_of_long_names(message.member_id, message.group_id)
        return _metadata_growth(kept, _bytes_of_classic(message.group_id, member_there))
    only_an_id = not message.member_id and not message.group_instance_id
    if only_an_id and request.api_version >= FIRST_WITH_REQUIRED_ID:
        member = PENDING_BYTES + names
    else:  # the client id or instance id counts twice: it is also a part of the member id
        member = metadata_bytes + MEMBER_BYTES + 2 * names + bytes_of_long_names(message.group_id)
    return Added(member + _added_by_name(message.group_id, groups))


def added_by_sync(request: GroupRequest, groups: Groups) -> Added:
    message = request.message_as(SyncGroupRequest)
    group = groups.by_id.get(message.group_id)
    if group is None or group.round.leader != message.member_id:
        return NOTHING
    given = sum(len(a.assignment) for a in message.assignments)
    return _metadata_growth(given, sum(len(member.assignment) for member in group.round.members.values()))


def _metadata_growth(size: int, before: int) -> Added:
    return Added(size) if size > FREE_BYTES and size != before else Added(grown=max(0, size - before))


def added_by_offsets(records: Iterable[Record], groups: Groups, producer_id: int) -> Added:
    """Return the bytes that offset records add to groups. Offsets of open transactions count, too."""
    new = grown = 0
    named: str | None = None
    for record in records:
        if not isinstance(record, OffsetCommitted) or record.value is None:
            continue
        size = OFFSET_BYTES + _bytes_of_text(record.value.metadata)
        if record.group_id in groups:
            grown += max(0, size - _bytes_before(groups.offsets.get(record.group_id), record, producer_id))
        else:
            new += size + (0 if record.group_id == named else GROUP_BYTES + bytes_of_long_names(record.group_id))
            named = record.group_id
    return Added(new, grown)


def _bytes_before(offsets: GroupOffsets | None, record: OffsetCommitted, producer_id: int) -> int:
    if offsets is None:
        return 0
    if producer_id < 0:
        there = offsets.by_topic.get(record.topic, {}).get(record.partition)
    else:
        there = None if offsets.pending is None else offsets.pending.get(producer_id, record.topic, record.partition)
    if there is None:
        return 0
    return OFFSET_BYTES + (0 if isinstance(there, bytes) else _bytes_of_text(there.metadata))


def _bytes_of_text(text: str | None) -> int:
    return 0 if not text else len(text) if text.isascii() else LETTER_BYTES * len(text)


def added_by_members(records: Iterable[Record], groups: Groups) -> Added:
    """Return the bytes that member records add to consumer groups, minus the bytes of replaced records."""
    sizes: dict[tuple[str, str], int] = {}
    before = new = 0
    for record in records:
        if not isinstance(record, MemberWritten):
            continue
        key = record.group_id, record.member_id
        before += 0 if key in sizes else _bytes_of_member(*key, groups)
        sizes[key] = 0 if record.value is None else MEMBER_BYTES + _metadata_bytes(record.member_id, record.value)
        new += 0 if record.group_id in groups else _added_by_name(record.group_id, groups)
    growth = sum(sizes.values()) - before
    if before and growth <= FREE_BYTES:
        return Added(grown=max(0, growth))
    return Added(max(0, growth) + new)


def _bytes_of_member(group_id: str, member_id: str, groups: Groups) -> int:
    group, classic = groups.consumer.get(group_id), groups.by_id.get(group_id)
    if group is not None and (consumer_member := group.members.get(member_id)) is not None:
        return MEMBER_BYTES + _metadata_bytes(member_id, consumer_member.metadata)
    if classic is not None and (member := classic.round.members.get(member_id)) is not None:
        return MEMBER_BYTES + _bytes_of_classic(group_id, member)
    return 0


def _metadata_bytes(member_id: str, metadata: ConsumerMetadata) -> int:
    names = metadata.subscribed_topic_names
    size = bytes_of_long_names(member_id, metadata.client_id, metadata.instance_id, metadata.rack_id)
    size += len(metadata.subscribed_topic_regex or "") + sum(map(len, names)) + NAME_BYTES * len(names)
    if (classic := metadata.classic_member_metadata) is not None:
        size += sum(len(p.name) + len(p.metadata) for p in classic.supported_protocols)
    return size


def _bytes_of_classic(group_id: str, member: Member) -> int:
    size = bytes_of_long_names(member.member_id, member.client_id, member.instance_id)
    size += sum(len(name) + len(metadata) for name, metadata in member.protocols)
    return size + (0 if member.join is None else bytes_of_long_names(group_id))


def added_by_patterns(records: Iterable[Record]) -> int:
    """Return the maximum bytes of subscription patterns and of the topics that match them."""
    found = ((r.regex, r.value) for r in records if isinstance(r, RegexResolved))
    return sum(_bytes_of_regex(regex, value) + NAME_BYTES * len(value.topics) for regex, value in found if value)


def _bytes_of_regex(regex: str, value: ConsumerGroupRegularExpressionValue) -> int:
    return REGEX_BYTES + len(regex) + MATCH_BYTES * len(value.topics)


def _added_by_name(group_id: str, groups: Groups) -> int:
    return 0 if group_id in groups else GROUP_BYTES + bytes_of_long_names(group_id)


def bytes_of_long_names(*names: str | None) -> int:
    """Return the bytes for all letters beyond ``USUAL_NAME`` in each name."""
    return sum(NAME_LETTER_BYTES * (len(name) - USUAL_NAME) for name in names if name and len(name) > USUAL_NAME)


def sizes_of(groups: Groups) -> Iterator[tuple[int, int]]:
    """Yield the estimated bytes of each group and of its offsets, and the cost of measuring (1: one classic member).

    Groups may change while the caller handles a result.
    """
    for offsets in list(groups.offsets.values()):
        yield _size_of_offsets(offsets)
    for group_id, group in list(groups.by_id.items()):
        rebalance = group.round
        size = GROUP_BYTES + PENDING_BYTES * (len(rebalance.pending_join) + len(rebalance.fenced))
        size += bytes_of_long_names(group_id, *rebalance.pending_join)
        for member in rebalance.members.values():
            size += MEMBER_BYTES + len(member.assignment) + _bytes_of_classic(group_id, member)
        yield size, 1 + len(rebalance.members)
    for group_id, consumer in list(groups.consumer.items()):
        yield _size_of_consumer_group(group_id, consumer), 1 + 2 * len(consumer.members)


def _size_of_offsets(offsets: GroupOffsets) -> tuple[int, int]:
    count = size = 0
    for partitions in offsets.by_topic.values():
        count += len(partitions)
        for kept in partitions.values():
            if not isinstance(kept, bytes):  # an offset that is kept as bytes has no commit metadata
                size += _bytes_of_text(kept.metadata)
    for *_, value in offsets.pending or ():
        count += 1
        size += 0 if value is None else _bytes_of_text(value.metadata)
    return size + OFFSET_BYTES * count, 1 + count // OFFSETS_PER_MEMBER


def _size_of_consumer_group(group_id: str, consumer: ModernGroup) -> int:
    size = GROUP_BYTES + PARTITION_BYTES * len(consumer.owners) + NAME_BYTES * len(consumer.matched)
    size += TOPIC_BYTES * len(consumer.volatile.topics or ()) + PENDING_BYTES * len(consumer.volatile.fenced)
    size += bytes_of_long_names(group_id)
    size += sum(_bytes_of_regex(regex, value) for regex, value in consumer.regexes.items())
    members = consumer.members.items()
    return size + sum(MEMBER_BYTES + _metadata_bytes(member_id, known.metadata) for member_id, known in members)
