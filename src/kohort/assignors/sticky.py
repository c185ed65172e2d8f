"""sticky assignor. It balances partition counts, then minimizes moved partitions (KIP-54).

The rules: protocol/assignors.md#previous-ownership.

sticky is eager: members revoke all partitions before they rejoin. So they report their previous partitions as user
data. cooperative-sticky also uses ``deal``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohort.assignors.previous_ownership import MemberData, PartitionNumbers, ReadMemberData, decide_ownership
from kohort.assignors.spec import (
    Assignment,
    Assignor,
    MemberSubscription,
    SubscribedTopics,
    in_hash_order,
    known_topics,
)
from kohort.assignors.sticky_equal import EqualSubscriptions
from kohort.assignors.sticky_mixed import MixedSubscriptions
from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.schema import Message, array, int32, string


class StickyTopic(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class StickyUserData(Message, versions="0-1"):
    """User data of the sticky assignor: a member's previous partitions and, from version 1 on, their generation."""

    previous_assignment: list[StickyTopic] = array(StickyTopic)
    generation: int = int32("1+", default=-1)


class Dealt(NamedTuple):
    """Result of a sticky assignor: the assignment, and the partitions that move.

    ``transferring``: moving partitions as a dict: partition -> new owner; None if the members' subscriptions differ.
    """

    assignment: Assignment
    transferring: dict[TopicPartition, str] | None


def deal(topics: SubscribedTopics, members: Sequence[MemberSubscription], read: ReadMemberData) -> Dealt:
    """Assign partitions with as few moves as possible. ``read`` returns the previous partitions of a member."""
    if not members:
        return Dealt({}, {})
    ordered = in_hash_order(members)
    names = known_topics(topics, ordered)
    numbering = PartitionNumbers(names, topics.counts)
    ownership = decide_ownership(ordered, numbering, read)
    if len({frozenset(subscribed) for subscribed in {m.topics for m in ordered}}) == 1:
        equal = EqualSubscriptions(topics, numbering, ordered, ownership)
        return Dealt(equal.assign(), equal.transferring())
    return Dealt(MixedSubscriptions(topics, numbering, ordered, ownership).assign(), None)


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    return deal(topics, members, read_claim).assignment


def read_claim(member: MemberSubscription) -> MemberData:
    """Return a member's previous partitions from its user data; no partitions if the user data is unreadable."""
    if not member.user_data:
        return MemberData((), None)
    for version in (1, 0):
        try:
            data, _ = decode(StickyUserData, version, bytes(member.user_data))
        except ProtocolError:
            continue
        runs = [(t.topic, t.partitions) for t in data.previous_assignment]
        return MemberData(runs, data.generation if version else -1)
    return MemberData((), None)


def user_data(owned: Iterable[TopicPartition], generation: int) -> bytes | None:
    if generation < 0:
        return None
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(owned):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    previous = [StickyTopic(topic=t, partitions=p) for t, p in by_topic.items()]
    return encode_bytes(StickyUserData(previous_assignment=previous, generation=generation), 1)


STICKY = Assignor("sticky", assign, user_data)
