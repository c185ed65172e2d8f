"""How much groups may hold in memory, the budget of it: what strangers can make grow with requests of no authority.

Kafka has no such limit. Groups that are there are served whatever they hold, and groups that are read from the log are
taken; what would add to them is refused until some have gone: a group of a new name, a member that joins, an existing
member that says much more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.coordinator.classic.join import FIRST_WITH_REQUIRED_ID
from kohort.coordinator.consumer_records import RegexResolved
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.records import Record
from kohort.wire.messages.consumer_group_records import ConsumerGroupRegularExpressionValue
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort.wire.messages.group_consumer import JOINING_EPOCH, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import OffsetCommitRequest

GROUP_BYTES: Final = 3_000
MEMBER_BYTES: Final = 1_500
PENDING_BYTES: Final = 500
OFFSET_BYTES: Final = 400
NAME_BYTES: Final = 100
PARTITION_BYTES: Final = 400
TOPIC_BYTES: Final = 150
"""What an object of each kind takes beside the bytes that it was given, about."""
REGEX_BYTES: Final = 500
MATCH_BYTES: Final = 8
"""A name in the list of an expression's: the names themselves are shared."""
FREE_BYTES: Final = 16_384
"""Metadata up to this size from who is a member already is always taken."""
LOOK_EVERY_MS: Final = 1_000
NO_LIMIT: Final = -1


class MemoryBudget:
    """Keeps an upper bound of what all groups hold: what was let in is added, what went is seen by looking again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._at_most = 0
        self._looked_ms: int | None = None
        self.refused = 0

    @property
    def at_most(self) -> int:
        """How many bytes all groups hold, at most, as far as is known."""
        return self._at_most

    @property
    def limit(self) -> int:
        """How many they may; -1 for no limit."""
        return self._limit

    def takes(self, added: int, all_groups: Iterable[Groups], now_ms: int) -> bool:
        """Tell whether a request that adds so many bytes, at most, may be decided on; if so, they are counted."""
        if self._limit == NO_LIMIT:
            return True
        if self._at_most + added > self._limit and added:
            if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_EVERY_MS:
                self._looked_ms = now_ms
                self._at_most = sum(map(bytes_of, all_groups))
            if self._at_most + added > self._limit:
                self.refused += 1
                return False
        self._at_most += added
        return True


def added_by_join(request: GroupRequest, groups: Groups) -> int:
    """Return how many bytes a JoinGroup adds, at most, to what groups hold."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    group = groups.by_id.get(message.group_id)
    said = sum(len(p.name) + len(p.metadata) for p in message.protocols)
    if group is not None and message.member_id in group.round.members:
        return said if said > FREE_BYTES else 0
    only_an_id = not message.member_id and not message.group_instance_id
    member = PENDING_BYTES if only_an_id and request.api_version >= FIRST_WITH_REQUIRED_ID else said + MEMBER_BYTES
    return member + (GROUP_BYTES if group is None else 0)


def added_by_commit(request: GroupRequest, groups: Groups) -> int:
    """Return how many bytes an OffsetCommit adds, at most, to what groups hold: none to a group that is there."""
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    if message.group_id not in groups:
        return GROUP_BYTES + sum(
            OFFSET_BYTES + len(p.committed_metadata or "") for topic in message.topics for p in topic.partitions
        )
    return 0


def added_by_consumer_heartbeat(request: GroupRequest, groups: Groups) -> int:
    """Return how many bytes a ConsumerGroupHeartbeat adds, at most, to what groups hold."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    names = message.subscribed_topic_names
    said = 0 if names is None else sum(map(len, names)) + NAME_BYTES * len(names)
    said += len(message.subscribed_topic_regex or "")
    group = groups.consumer.get(message.group_id)
    if group is not None and message.member_id in group.members:
        return said if said > FREE_BYTES else 0
    if message.member_epoch != JOINING_EPOCH:
        return 0
    return said + MEMBER_BYTES + (GROUP_BYTES if group is None else 0)


def added_by_expressions(records: Iterable[Record]) -> int:
    """Return how many bytes the topics take, at most, that expressions are found to match."""
    found = ((r.regex, r.value) for r in records if isinstance(r, RegexResolved))
    return sum(_bytes_of_regex(regex, value) + NAME_BYTES * len(value.topics) for regex, value in found if value)


def _bytes_of_regex(regex: str, value: ConsumerGroupRegularExpressionValue) -> int:
    return REGEX_BYTES + len(regex) + MATCH_BYTES * len(value.topics)


def bytes_of(groups: Groups) -> int:
    """Return how many bytes the groups of one partition hold, about."""
    size = 0
    for group in groups.by_id.values():
        this = group.round
        size += GROUP_BYTES + PENDING_BYTES * len(this.pending_join)
        for member in this.members.values():
            size += MEMBER_BYTES + len(member.assignment)
            size += sum(len(name) + len(metadata) for name, metadata in member.protocols)
    for consumer in groups.consumer.values():
        size += GROUP_BYTES + PARTITION_BYTES * len(consumer.owners) + NAME_BYTES * len(consumer.matched)
        size += TOPIC_BYTES * len(consumer.soft.topics or ())
        size += sum(_bytes_of_regex(regex, value) for regex, value in consumer.regexes.items())
        for said in (member.said for member in consumer.members.values()):
            size += MEMBER_BYTES + len(said.subscribed_topic_regex or "")
            size += sum(map(len, said.subscribed_topic_names)) + NAME_BYTES * len(said.subscribed_topic_names)
    return size + OFFSET_BYTES * sum(map(len, groups.offsets.values()))
