"""Previous owner of each partition, as reported by members to sticky assignors.

The rules: protocol/assignors.md#previous-ownership.

``MemberData`` has the partitions that a member reports as owned, in its user data or in its Subscription. If two
members report the same partition, the member with the newer generation is the previous owner. Partitions are
represented by integers (``PartitionNumbers``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

from kohort.assignors.spec import NO_GENERATION, MemberSubscription
from kohort.model import TopicPartition

Run = tuple[str, Sequence[int]]


class PartitionNumbers:
    """Converter of partitions to integers and back. ``names``: the topics; ``counts``: their partition counts."""

    def __init__(self, names: Sequence[str], counts: Mapping[str, int]) -> None:
        self.topics = len(names)
        self.total = sum(counts[name] for name in names)
        self._names = names
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._counts = [counts[name] for name in names]

    def ranks(self, topics: Iterable[str]) -> frozenset[int]:
        return frozenset(self._ranks[topic] for topic in topics if topic in self._ranks)

    def of_topic(self, rank: int) -> range:
        return range(rank, rank + self._counts[rank] * self.topics, self.topics)

    def of_runs(self, runs: Iterable[Run]) -> list[int]:
        """Return the partitions in ``runs`` as integers, in the order of ``runs``; omit nonexistent partitions."""
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
        partition, rank = divmod(number, self.topics)
        return TopicPartition(self._names[rank], partition)

    def partitions(self, numbers: Iterable[int]) -> list[TopicPartition]:
        step = self.topics
        given = list(numbers)
        pairs = zip(map(self._names.__getitem__, [n % step for n in given]), [n // step for n in given], strict=True)
        # tuple.__new__ avoids a call of a Python function for each partition
        return list(map(tuple.__new__, repeat(TopicPartition), pairs))

    def __iter__(self) -> Iterator[int]:
        for rank in range(self.topics):
            yield from self.of_topic(rank)


def as_runs(partitions: Iterable[TopicPartition]) -> list[Run]:
    """Combine successive partitions of the same topic into runs; keep the order of ``partitions``."""
    return [(topic, [p for _, p in run]) for topic, run in groupby(partitions, key=itemgetter(0))]


class MemberData(NamedTuple):
    """Partitions that a member reports as owned, and the generation in which it owned them (None: unknown)."""

    runs: Sequence[Run]
    generation: int | None


ReadMemberData = Callable[[MemberSubscription], MemberData]


@dataclass(slots=True)
class Ownership:
    """Previous owners of partitions, after conflicts between the reports of members are resolved."""

    owned: dict[str, dict[int, None]] = field(default_factory=dict)
    """Previously owned partitions in the order of the member's report, as a dict: member id -> partitions."""
    contested: set[int] = field(default_factory=set)
    """Partitions that two members report with the same generation. Neither member keeps them."""
    older: dict[int, str] = field(default_factory=dict)
    """Owner of each partition in the latest report before the newest generation, as a dict: partition -> member id."""


def decide_ownership(
    members: Sequence[MemberSubscription], numbering: PartitionNumbers, read: ReadMemberData
) -> Ownership:
    """Return the previous owner of each existing partition."""
    generations: dict[str, int | None] = {}
    claims: dict[str, list[int]] = {}
    for member in members:
        data = read(member)
        generations[member.member_id] = data.generation
        claims[member.member_id] = numbering.of_runs(data.runs)
    found = Ownership()
    taken: set[int] = set()
    for member_id, claim in claims.items():
        owned = found.owned[member_id] = dict.fromkeys(claim)
        if len(owned) < len(claim) or not taken.isdisjoint(owned):
            found = _weigh(members, claims, generations)
            break
        taken.update(owned)
    found.older = _older_owners(claims, generations)
    return found


def _weigh(
    members: Sequence[MemberSubscription], claims: Mapping[str, Sequence[int]], generations: Mapping[str, int | None]
) -> Ownership:
    stated = {m.member_id: _or_none(m.generation) for m in members}
    found = Ownership()
    owner: dict[int, str] = {}
    for member_id, claim in claims.items():
        owned = found.owned.setdefault(member_id, {})
        generation = _or_none(generations[member_id])
        for number in claim:
            other = owner.get(number)
            if other is None:
                owner[number] = member_id
                owned[number] = None
                continue
            # Kafka, too, compares the generation of the Subscription, not the generation of the user data.
            if generation < stated[other]:
                continue
            found.owned[other].pop(number, None)
            owner[number] = member_id
            if generation == stated[other]:
                found.contested.add(number)
            else:
                owned[number] = None
    return found


def _older_owners(claims: Mapping[str, Sequence[int]], generations: Mapping[str, int | None]) -> dict[int, str]:
    newest = max((g for g in generations.values() if g is not None), default=NO_GENERATION)
    found: dict[int, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = _or_none(generations[member_id])
        if generation >= newest:
            continue
        for number in claim:
            if number not in found or generation > found[number][0]:
                found[number] = (generation, member_id)
    return {number: member_id for number, (_, member_id) in found.items()}


def _or_none(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation
