"""cooperative-sticky assignor: members keep their partitions while they rejoin (KIP-429).

The rules: protocol/assignors.md#cooperative-sticky.

A moving partition has no owner for one generation: the previous owner revokes it and rejoins. The next generation
assigns the partition to its new owner. So no partition ever has two owners.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.assignors.previous_ownership import MemberData, as_runs
from kohort.assignors.spec import Assignment, Assignor, MemberSubscription, SubscribedTopics
from kohort.assignors.sticky import deal
from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.schema import Message, int32


class CooperativeUserData(Message, versions="0"):
    """User data of cooperative-sticky: the member's generation. Subscription versions 0 and 1 lack this field."""

    generation: int = int32()


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Return each member's partitions, except those that another member must revoke first."""
    dealt = deal(topics, members, read_claim)
    transferring = dealt.transferring
    if transferring is None:
        transferring = moving_partitions(members, dealt.assignment)
    for new_owner in set(transferring.values()):
        dealt.assignment[new_owner] = [p for p in dealt.assignment[new_owner] if p not in transferring]
    return dealt.assignment


def moving_partitions(
    members: Iterable[MemberSubscription], assignment: Mapping[str, Sequence[TopicPartition]]
) -> dict[TopicPartition, str]:
    """Return the partitions that move from one member to another, as a dict: partition -> new owner."""
    gained: dict[TopicPartition, str] = {}
    lost: set[TopicPartition] = set()
    for member in members:
        owned, assigned = set(member.owned), set(assignment[member.member_id])
        gained |= dict.fromkeys(assigned - owned, member.member_id)
        lost |= owned - assigned
    return {partition: owner for partition, owner in gained.items() if partition in lost}


def read_claim(member: MemberSubscription) -> MemberData:
    """Return the partitions that a member reports as owned, and the generation in which it owned them.

    Both are in the Subscription; before its version 2 the generation is in the user data.
    """
    owned = as_runs(member.owned)
    if member.generation is not None:
        return MemberData(owned, member.generation)
    if not member.user_data:
        return MemberData(owned, None)
    try:
        data, _ = decode(CooperativeUserData, 0, bytes(member.user_data))
    except ProtocolError:
        return MemberData(owned, -1)
    return MemberData(owned, data.generation)


def user_data(_owned_partitions: Iterable[TopicPartition], generation: int) -> bytes | None:
    return encode_bytes(CooperativeUserData(generation=generation), 0)


COOPERATIVE_STICKY = Assignor("cooperative-sticky", assign, user_data, cooperative=True)
