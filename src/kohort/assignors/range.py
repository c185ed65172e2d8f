"""range assignor: each member gets a run of consecutive partitions of each topic, in its own rack where possible.

The rules: protocol/assignors.md#range (racks: KIP-881). Topics with equal subscribers and equal partition counts are
divided equally: one member gets partition n of all these topics (co-partitioning). This also applies with racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kohort.assignors.spec import (
    Assignment,
    Assignor,
    MemberSubscription,
    SubscribedTopics,
    in_order,
    known_topics,
    no_user_data,
    racks_matter,
)
from kohort.model import TopicPartition


class _TopicState:
    def __init__(self, topic: str, topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> None:
        self.topic = topic
        self.members = members
        self.unassigned = dict.fromkeys(topics.partitions(topic))
        self.size = len(self.unassigned)
        self._topics = topics
        self._racks = {m.member_id: m.rack for m in members}
        self._base, self._extras = divmod(self.size, len(members))
        self._taken = dict.fromkeys(self._racks, 0)
        self.by_rack = racks_matter(topics, self.unassigned, members)

    def allowance(self, member_id: str) -> int:
        return max(0, self._base + (self._extras > 0) - self._taken[member_id])

    def fits(self, member_id: str, partition: TopicPartition) -> bool:
        """Return True if a replica of the partition is in the member's rack, or if the member has no rack."""
        rack = self._racks[member_id]
        return not rack or rack in self._topics.racks_of(partition)

    def give(self, member_id: str, partitions: Sequence[TopicPartition], assignment: Assignment) -> None:
        assignment[member_id].extend(partitions)
        self._taken[member_id] += len(partitions)
        if self._taken[member_id] > self._base:
            self._extras -= 1
        for partition in partitions:
            del self.unassigned[partition]


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    assignment: Assignment = {m.member_id: [] for m in members}
    ordered = in_order(members)
    names = known_topics(topics, members)
    states = [_TopicState(topic, topics, [m for m in ordered if topic in m.topics]) for topic in names]
    by_rack = any(state.by_rack for state in states)
    if by_rack:
        _deal_by_rack(states, assignment)
    for state in states:
        _deal_ranges(state, lambda _member, _partition: True, assignment)
    if by_rack:
        for partitions in assignment.values():
            partitions.sort()
    return assignment


def _deal_ranges(state: _TopicState, may_take: Callable[[str, TopicPartition], bool], assignment: Assignment) -> None:
    """Assign the unassigned partitions of a topic to its subscribers, in the order of the members.

    Each subscriber gets the lowest unassigned partitions that ``may_take`` allows, up to the number that it may get.
    """
    for member in state.members:
        allowance = state.allowance(member.member_id)
        taken = [p for p in state.unassigned if may_take(member.member_id, p)][:allowance]
        if taken:
            state.give(member.member_id, taken, assignment)


def _deal_by_rack(states: Iterable[_TopicState], assignment: Assignment) -> None:
    alike: dict[tuple[tuple[tuple[str, str], ...], int], list[_TopicState]] = {}
    for state in states:
        alike.setdefault((tuple((m.member_id, m.rack) for m in state.members), state.size), []).append(state)
    for group in alike.values():
        if len(group) > 1:
            _deal_alike(group, assignment)
        elif group[0].by_rack:
            _deal_ranges(group[0], group[0].fits, assignment)


def _deal_alike(states: list[_TopicState], assignment: Assignment) -> None:
    """Assign partition n of all co-partitioned topics to the same member: the first member with room and matching rack.

    A member has room if it has fewer partitions than it may get, in each topic. Its rack matches if replicas of all
    these partitions are in the rack, or if the member has no rack.
    """
    remaining = [m.member_id for m in states[0].members]
    for number in range(states[0].size):
        for member_id in remaining:
            if all(s.allowance(member_id) and s.fits(member_id, TopicPartition(s.topic, number)) for s in states):
                for state in states:
                    state.give(member_id, [TopicPartition(state.topic, number)], assignment)
                if not any(state.allowance(member_id) for state in states):
                    remaining.remove(member_id)
                break


RANGE = Assignor("range", assign, no_user_data)
