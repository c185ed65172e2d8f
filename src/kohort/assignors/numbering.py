"""Partitions of many topics as plain numbers: what is done a million times is done on ints, not on pairs.

With T topics, in the order of their names, partition p of the r-th topic is ``p * T + r``. So numbers in ascending
order are partitions by number and then by topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, repeat
from operator import itemgetter

from kohort.model import TopicPartition

Run = tuple[str, Sequence[int]]
"""A topic and some of its partitions."""


class PartitionNumbers:
    """The numbers of the partitions of ``names``; ``counts`` says how many partitions each has."""

    def __init__(self, names: Sequence[str], counts: Mapping[str, int]) -> None:
        self.topics = len(names)
        self.total = sum(counts[name] for name in names)
        self._names = names
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._counts = [counts[name] for name in names]

    def ranks(self, topics: Iterable[str]) -> frozenset[int]:
        """Return the places of topics among the names: the remainders of their partitions' numbers."""
        return frozenset(self._ranks[topic] for topic in topics if topic in self._ranks)

    def of_topic(self, rank: int) -> range:
        """Return the numbers of all partitions of a topic."""
        return range(rank, rank + self._counts[rank] * self.topics, self.topics)

    def of_runs(self, runs: Iterable[Run]) -> list[int]:
        """Return the numbers of partitions, in the order given, without those that do not exist."""
        found: list[int] = []
        step = self.topics
        for topic, partitions in runs:
            rank = self._ranks.get(topic)
            if rank is None or not partitions:
                continue
            if len(partitions) == 1:
                if 0 <= partitions[0] < self._counts[rank]:
                    found.append(partitions[0] * step + rank)
                continue
            if min(partitions) < 0 or max(partitions) >= self._counts[rank]:
                partitions = [p for p in partitions if 0 <= p < self._counts[rank]]
            found += [p * step + rank for p in partitions]
        return found

    def partition(self, number: int) -> TopicPartition:
        """Return the partition that has a number."""
        partition, rank = divmod(number, self.topics)
        return TopicPartition(self._names[rank], partition)

    def partitions(self, numbers: Iterable[int]) -> list[TopicPartition]:
        """Return the partitions that have these numbers, in the same order."""
        step = self.topics
        given = list(numbers)
        pairs = zip(map(self._names.__getitem__, [n % step for n in given]), [n // step for n in given], strict=True)
        return list(map(tuple.__new__, repeat(TopicPartition), pairs))  # without a call of Python for each

    def __iter__(self) -> Iterator[int]:
        """Iterate all numbers, topic by topic."""
        for rank in range(self.topics):
            yield from self.of_topic(rank)


def as_runs(partitions: Iterable[TopicPartition]) -> list[Run]:
    """Return partitions as runs of one topic each, in the same order."""
    return [(topic, [p for _, p in run]) for topic, run in groupby(partitions, key=itemgetter(0))]
