"""Which transaction depends on which: what one wrote and another read, overwrote or overlooked.

What a group has committed for a partition is a register whose versions are offsets. A transaction that consumes,
transforms and produces read the version that it began from and wrote the one that it commits. So there are edges from
who wrote a version to who began from it (wr), from who wrote a version to who wrote the next (ww), and from who began
from a version to who wrote the next (rw). Records are read, too: an edge from who wrote an input to who consumed it
(wr). That two transactions' records lie between each other's in one partition is allowed, so appends make no ww edges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kohort_lab.history.facts import CommitEntry, HistoryFacts
from kohort_lab.history.logs import PAGE_BITS, WITHIN

WRITES: Final = frozenset({"ww"})
INFORMATION: Final = frozenset({"ww", "wr"})
OF_ONE_VERSION: Final = 8
"""Two transactions that write one version are wrong already; of many such, so many are looked at."""


class Dependency(NamedTuple):
    """The second transaction depends on the first: how, over what, and a line that shows it."""

    first: int
    second: int
    kind: str
    over: str
    line: int


class Dependencies:
    """The edges between transactions that took effect."""

    def __init__(self, facts: HistoryFacts) -> None:
        self._facts = facts
        self.edges: dict[int, list[Dependency]] = {}
        began = self._inputs()
        for group in facts.groups.values():
            for log, entries in group.commits.items():
                chosen = [e for e in entries if e.transaction >= 0 and facts.transactions[e.transaction].took_effect]
                self._of_register(f"{group.name}'s offset of {facts.logs.all[log]}", log, chosen, began)

    def _inputs(self) -> dict[tuple[int, int], int]:
        """Add the edges of records that were read; return the lowest input of each transaction in each partition."""
        facts, values = self._facts, self._facts.values
        began: dict[tuple[int, int], int] = {}
        for value, place in zip(facts.of_value, facts.of_place, strict=True):
            reader = values.transaction[value]
            if reader < 0 or not facts.transactions[reader].took_effect:
                continue
            log, offset = facts.logs.at(place)
            began[reader, log.number] = min(offset, began.get((reader, log.number), offset))
            page = log.pages.get(offset >> PAGE_BITS)
            read = page.value[offset & WITHIN] if page is not None else -1
            writer = values.transaction[read] if read >= 0 else -1
            if writer >= 0 and writer != reader:
                self._add(Dependency(writer, reader, "wr", f"offset {offset} of {log}", values.line[value]))
        return began

    def _of_register(self, name: str, log: int, entries: list[CommitEntry], began: dict[tuple[int, int], int]) -> None:
        writers: dict[int, list[CommitEntry]] = {}
        for entry in entries:
            writers.setdefault(entry.offset, []).append(entry)
        versions = sorted(writers)
        for version, following in pairwise(versions):
            for one in writers[version][:OF_ONE_VERSION]:
                for other in writers[following][:OF_ONE_VERSION]:
                    self._link(one, other, "ww", f"{name}, {version} then {following}")
        for entry in entries:
            begun = entry.begun_from if entry.begun_from >= 0 else began.get((entry.transaction, log), -1)
            if begun < 0:
                continue
            at = bisect_right(versions, begun) - 1
            if at >= 0:
                for writer in writers[versions[at]][:OF_ONE_VERSION]:
                    self._link(writer, entry, "wr", f"{name}, {versions[at]}")
            if at + 1 < len(versions):
                for writer in writers[versions[at + 1]][:OF_ONE_VERSION]:
                    self._link(entry, writer, "rw", f"{name}, begun from {begun}, then {versions[at + 1]}")

    def _link(self, one: CommitEntry, other: CommitEntry, kind: str, over: str) -> None:
        if one.transaction != other.transaction:
            self._add(Dependency(one.transaction, other.transaction, kind, over, other.line))

    def _add(self, edge: Dependency) -> None:
        self.edges.setdefault(edge.first, []).append(edge)

    def among(self, vertices: frozenset[int], kinds: frozenset[str], start: int) -> Iterator[Dependency]:
        """Yield the edges from ``start`` to some transactions, of some kinds."""
        return (e for e in self.edges.get(start, ()) if e.kind in kinds and e.second in vertices)
