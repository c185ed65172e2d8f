"""kohort's own assignors: co-partitioned, rack-aware, redundant. All members of the group must offer them.

co-partitioned: topics with the same subscribers are assigned together. One member gets partition n of all these topics,
even if their partition counts differ. (range does so only for topics with equal partition counts, and moves nearly all
partitions when a member joins.) Members keep their previous partition numbers, unless some of them would then have more
numbers than others. The remaining numbers go to the members with the fewest partitions.

rack-aware: a partition goes to the least loaded subscriber in a rack of the partition's replicas. If there is none, it
goes to the least loaded subscriber in any rack. Kafka's assignors prefer balance to racks (KIP-881); this assignor
prefers racks, to save traffic between zones. A member's rack is its ``client.rack``; a replica has its broker's rack.

redundant: each partition goes to several members, as hot standby or for comparison. The group has only one committed
offset for each partition: let only one member commit, or store offsets outside of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kohort.assignors.spec import (
    Assignment,
    Assignor,
    MemberSubscription,
    SubscribedTopics,
    in_order,
    known_topics,
    no_user_data,
)
from kohort.assignors.sticky import read_claim, user_data
from kohort.errors import ConfigError
from kohort.model import TopicPartition


def assign_together(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    assignment: Assignment = {m.member_id: [] for m in members}
    together: dict[tuple[str, ...], list[str]] = {}
    for topic in known_topics(topics, members):
        readers = tuple(m.member_id for m in in_order(members) if topic in m.topics)
        together.setdefault(readers, []).append(topic)
    had = _owners(members)
    for readers, names in together.items():
        _deal(topics, names, readers, had, assignment)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _owners(members: Sequence[MemberSubscription]) -> dict[TopicPartition, str]:
    claims = [(m.member_id, read_claim(m)) for m in members]
    claims.sort(key=lambda c: (-1 if c[1].generation is None else c[1].generation, c[0]))
    runs = ((topic, numbers, member_id) for member_id, claim in claims for topic, numbers in claim.runs)
    return {TopicPartition(topic, n): member_id for topic, numbers, member_id in runs for n in numbers}


def _deal(
    topics: SubscribedTopics,
    names: Sequence[str],
    readers: Sequence[str],
    had: dict[TopicPartition, str],
    given: Assignment,
) -> None:
    most = max(topics.counts[t] for t in names)
    numbers = {n: [TopicPartition(t, n) for t in names if n < topics.counts[t]] for n in range(most)}
    least, extras = divmod(len(numbers), len(readers))
    taken = dict.fromkeys(readers, 0)
    left = []
    for n, partitions in numbers.items():
        keeper = had.get(partitions[0])
        room = taken.get(keeper, least + 1) if keeper is not None else least + 1
        if keeper is not None and (room < least or (room == least and extras)):
            extras -= room == least
            taken[keeper] += 1
            given[keeper] += partitions
        else:
            left.append(n)
    for n in left:
        # Members with fewer than ``least`` numbers come first. After them, members with ``least`` get one more.
        open_to = [m for m in readers if taken[m] < least] or [m for m in readers if taken[m] == least]
        taker = min(open_to, key=lambda m: len(given[m]))
        taken[taker] += 1
        given[taker] += numbers[n]


COPARTITIONED = Assignor("co-partitioned", assign_together, user_data)


def assign_by_rack(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    assignment: Assignment = {m.member_id: [] for m in members}
    ordered = in_order(members)
    readers = {t: [m for m in ordered if t in m.topics] for t in known_topics(topics, members)}
    near = {
        p: [m.member_id for m in of_topic if m.rack and m.rack in topics.racks_of(p)]
        for t, of_topic in readers.items()
        for p in topics.partitions(t)
    }
    # Partitions with few subscribers in their racks come first. Partitions with no subscriber in their racks come last.
    for partition in sorted(near, key=lambda p: len(near[p]) or len(ordered) + 1):
        candidates = near[partition] or [m.member_id for m in readers[partition.topic]]
        assignment[min(candidates, key=lambda m: len(assignment[m]))].append(partition)
    for partitions in assignment.values():
        partitions.sort()
    return assignment


RACK_AWARE = Assignor("rack-aware", assign_by_rack, no_user_data)


def redundant(copies: int) -> Assignor:
    """Return an assignor that assigns each partition to ``copies`` subscribers, or to all if there are fewer.

    The name of the assignor is ``redundant-<copies>``. Raises ConfigError if ``copies`` is less than 1.
    """
    if copies < 1:
        raise ConfigError(f"redundant(copies={copies}): expected at least 1 copy of each partition")
    return Assignor(f"redundant-{copies}", partial(_assign_copies, copies), no_user_data)


def _assign_copies(copies: int, topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    assignment: Assignment = {m.member_id: [] for m in members}
    ordered = in_order(members)
    for topic in known_topics(topics, members):
        readers = [m.member_id for m in ordered if topic in m.topics]
        for partition in topics.partitions(topic):
            # sorted() is stable: members with equally many partitions remain in member order.
            for member_id in sorted(readers, key=lambda m: len(assignment[m]))[:copies]:
                assignment[member_id].append(partition)
    return assignment


REDUNDANT = Assignor("redundant", partial(_assign_copies, 2), no_user_data)
