"""Who has how much while an assignment of mixed subscriptions is balanced, kept in order as partitions move."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from kohort.assignors.spec import java_order


class _Witness(NamedTuple):
    """Why a group is not balanced: one that could take a partition of a topic from one that has at least two more."""

    taker: str
    holder: str
    rank: int


class Loads:
    """The members in the order of how many partitions they have, then of their ids.

    ``held`` are their partitions, as numbers whose remainder by ``topics`` is the topic; it is changed by others, who
    tell of each change afterwards. ``wants`` are the topics each subscribes to.
    """

    def __init__(self, held: Mapping[str, Collection[int]], wants: Mapping[str, Collection[int]], topics: int) -> None:
        self._held = held
        self._wants = wants
        self._topics = topics
        self._by_id = sorted(held, key=java_order)
        self._place = {member_id: i for i, member_id in enumerate(self._by_id)}
        # One number says both: size times members, plus the place among the ids.
        self._order = sorted(self._key(m, len(held[m])) for m in held)
        self._of_topic = {m: self._counted(numbers) for m, numbers in held.items()}
        self._least: dict[int, str | None] = {}
        self._witness: _Witness | None = None
        self._balanced: bool | None = None
        """Whether they are, if it is known."""

    def _key(self, member_id: str, size: int) -> int:
        return size * len(self._by_id) + self._place[member_id]

    def _counted(self, numbers: Collection[int]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for number in numbers:
            rank = number % self._topics
            counts[rank] = counts.get(rank, 0) + 1
        return counts

    def __iter__(self) -> Iterator[str]:
        """Iterate the members, those that have least first."""
        return (self._by_id[key % len(self._by_id)] for key in self._order)

    def took(self, member_id: str, number: int) -> None:
        """Note that a member has one partition more than before."""
        self._changed(member_id, number, 1)

    def gave(self, member_id: str, number: int) -> None:
        """Note that a member has one partition less than before."""
        self._changed(member_id, number, -1)

    def _changed(self, member_id: str, number: int, by: int) -> None:
        key = self._key(member_id, len(self._held[member_id]))
        del self._order[bisect_left(self._order, key - by * len(self._by_id))]
        insort(self._order, key)
        counts, rank = self._of_topic[member_id], number % self._topics
        counts[rank] = counts.get(rank, 0) + by
        self._least.clear()
        self._balanced = None

    def forget(self, member_id: str) -> None:
        """Leave a member out from now on; it is still in what is held."""
        self._order.remove(self._key(member_id, len(self._held[member_id])))
        self._least.clear()
        self._balanced = None

    def least(self, rank: int) -> str | None:
        """Return who has least of those that want a topic."""
        if rank not in self._least:
            self._least[rank] = next((m for m in self if rank in self._wants[m]), None)
        return self._least[rank]

    def are_balanced(self) -> bool:
        """Tell whether nobody could take a partition of a topic it wants from someone who holds at least two more."""
        if self._balanced is None:
            if not self._holds_still():
                self._witness = self._why_not()
            self._balanced = self._witness is None
        return self._balanced

    def _holds_still(self) -> bool:
        witness = self._witness
        return (
            witness is not None
            and witness.taker in self._held
            and witness.holder in self._held
            and self._of_topic[witness.holder].get(witness.rank, 0) > 0
            and len(self._held[witness.taker]) + 1 < len(self._held[witness.holder])
        )

    def _why_not(self) -> _Witness | None:
        """Look for a reason, from those that have most and those that have least towards the middle."""
        members, by_id = len(self._by_id), self._by_id
        if not self._order or self._order[0] // members >= self._order[-1] // members - 1:
            return None
        fewest = self._order[0] // members
        top: dict[int, str] = {}
        """Who has most of those that hold a topic."""
        for key in reversed(self._order):
            if key // members <= fewest + 1 or len(top) == self._topics:
                break
            holder = by_id[key % members]
            for rank, count in self._of_topic[holder].items():
                if count:
                    top.setdefault(rank, holder)
        most = self._order[-1] // members
        for key in self._order:
            if key // members + 1 >= most:
                return None
            taker = by_id[key % members]
            for rank in self._wants[taker]:
                holder = top.get(rank, taker)
                if key // members + 1 < len(self._held[holder]):
                    return _Witness(taker, holder, rank)
        return None


def imbalance(held: Mapping[str, Collection[int]]) -> int:
    """Return the sum over all pairs of members of the difference in their sizes; 0 is perfect."""
    sizes = sorted(map(len, held.values()))
    # In ascending order the i-th size is added i times and subtracted for every size after it.
    return sum(size * (2 * i - len(sizes) + 1) for i, size in enumerate(sizes))
