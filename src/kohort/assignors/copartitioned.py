"""co-partitioned: topics that are joined keep their partitions of one number together, and members keep what they had.

Topics with the same subscribers are dealt as one: number n of each of them goes to one member, also where their counts
differ (range holds this only for equal counts, and moves nearly everything when a member joins). A member keeps the
numbers it had, as far as the balance of whole numbers allows; the rest goes to the member that has fewest partitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.assignors.spec import Assignment, Assignor, MemberSubscription, SubscribedTopics, in_order, known_topics
from kohort.assignors.sticky import read_claim, user_data
from kohort.model import TopicPartition


def assign(topics: SubscribedTopics, members: Sequence[MemberSubscription]) -> Assignment:
    """Return the partitions of each member."""
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
    """Return who had what, by the newest claims."""
    claims = [(m.member_id, read_claim(m)) for m in members]
    claims.sort(key=lambda c: (-1 if c[1].generation is None else c[1].generation, c[0]))
    return {
        TopicPartition(t, n): member_id for member_id, claim in claims for t, numbers in claim.runs for n in numbers
    }


def _deal(
    topics: SubscribedTopics,
    names: Sequence[str],
    readers: Sequence[str],
    had: dict[TopicPartition, str],
    given: Assignment,
) -> None:
    numbers = {
        n: [TopicPartition(t, n) for t in names if n < topics.counts[t]]
        for n in range(max(topics.counts[t] for t in names))
    }
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
        # While somebody is under the least, only those may take; then those that have not taken an extra one.
        open_to = [m for m in readers if taken[m] < least] or [m for m in readers if taken[m] == least]
        taker = min(open_to, key=lambda m: len(given[m]))
        taken[taker] += 1
        given[taker] += numbers[n]


COPARTITIONED = Assignor("co-partitioned", assign, user_data)
