"""Cycles of dependencies between transactions: no serial order exists (Adya's G0 to G2)."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kohort_lab.history.facts import CommitEntry, HistoryFacts
from kohort_lab.history.logs import PAGE_BITS, WITHIN

WRITES: Final = frozenset({"ww"})
INFORMATION: Final = frozenset({"ww", "wr"})
OF_ONE_VERSION: Final = 8
"""Limit of writers compared per offset; two writers of one offset are an anomaly already."""


class Dependency(NamedTuple):
    """Edge of the dependency graph: ``second`` depends on ``first`` by a ww, wr or rw conflict."""

    first: int
    second: int
    kind: str
    over: str
    line: int


class Dependencies:
    """Dependency graph of the committed transactions."""

    def __init__(self, facts: HistoryFacts) -> None:
        self._facts = facts
        self.edges: dict[int, list[Dependency]] = {}
        began = self._inputs()
        for group in facts.groups.values():
            for log, entries in group.commits.items():
                chosen = [e for e in entries if e.transaction >= 0 and facts.transactions[e.transaction].took_effect]
                self._of_register(f"{group.name}'s offset of {facts.logs.all[log]}", log, chosen, began)

    def _inputs(self) -> dict[tuple[int, int], int]:
        """Add read dependencies; return each transaction's lowest input offset per partition."""
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
        """Yield the edges of ``kinds`` from ``start`` to ``vertices``."""
        return (e for e in self.edges.get(start, ()) if e.kind in kinds and e.second in vertices)


ALL: Final = INFORMATION | {"rw"}


def check_cycles(facts: HistoryFacts) -> None:
    """Record the shortest cycle of each component, under the strongest anomaly that fits."""
    found = Dependencies(facts)
    for knot in knots(found, ALL):
        for kinds, check in ((WRITES, "write-cycle"), (INFORMATION, "information-cycle")):
            tighter = [within for within in knots(found, kinds) if within <= knot]
            if tighter:
                _note(facts, check, _shortest(found, tighter[0], kinds))
                break
        else:
            update = _with_one_oversight(found, knot)
            if update:
                _note(facts, "lost-update", update)
            else:
                _note(facts, "anti-dependency-cycle", _shortest(found, knot, ALL))


def _note(facts: HistoryFacts, check: str, circle: list[Dependency]) -> None:
    names = [facts.transactions[edge.first].name for edge in circle]
    steps = [f"{name!r} -{edge.kind}-> ({edge.over})" for name, edge in zip(names, circle, strict=True)]
    lines = [line for edge in circle for line in (edge.line, facts.transactions[edge.second].end_line)]
    facts.anomalies.add(check, f"cycle of transactions: {' '.join(steps)} {names[0]!r}", *lines)


def knots(found: Dependencies, kinds: frozenset[str]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components of two or more transactions (Tarjan, iterative)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    standing: set[int] = set()
    for root in list(found.edges):
        if root in order:
            continue
        path = [(root, iter(found.edges.get(root, ())))]
        order[root] = low[root] = len(order)
        stack.append(root)
        standing.add(root)
        while path:
            vertex, edges = path[-1]
            for edge in edges:
                if edge.kind not in kinds:
                    continue
                if edge.second not in order:
                    order[edge.second] = low[edge.second] = len(order)
                    stack.append(edge.second)
                    standing.add(edge.second)
                    path.append((edge.second, iter(found.edges.get(edge.second, ()))))
                    break
                if edge.second in standing:
                    low[vertex] = min(low[vertex], order[edge.second])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[vertex])
                if low[vertex] == order[vertex] and (knot := _unwound(stack, standing, vertex)):
                    yield knot


def _unwound(stack: list[int], standing: set[int], root: int) -> frozenset[int] | None:
    """Pop a component from the stack; None for a single transaction."""
    knot = set()
    while True:
        vertex = stack.pop()
        standing.discard(vertex)
        knot.add(vertex)
        if vertex == root:
            return frozenset(knot) if len(knot) > 1 else None


def _path(
    found: Dependencies, knot: frozenset[int], kinds: frozenset[str], way: tuple[int, int]
) -> list[Dependency] | None:
    """Return the shortest path between the two transactions of ``way``, or None."""
    start, goal = way
    edge_to: dict[int, Dependency] = {}
    waiting = deque([start])
    while waiting:
        vertex = waiting.popleft()
        for edge in found.among(knot, kinds, vertex):
            if edge.second in edge_to:
                continue
            edge_to[edge.second] = edge
            if edge.second == goal:
                path = [edge]
                while path[-1].first != start:
                    path.append(edge_to[path[-1].first])
                return path[::-1]
            waiting.append(edge.second)
    return None


def _shortest(found: Dependencies, knot: frozenset[int], kinds: frozenset[str]) -> list[Dependency]:
    """Return a shortest cycle of a component, through one of its first 100 transactions."""
    circles = (_path(found, knot, kinds, (vertex, vertex)) for vertex in sorted(knot)[:100])
    return min((circle for circle in circles if circle), key=len)


def _with_one_oversight(found: Dependencies, knot: frozenset[int]) -> list[Dependency] | None:
    """Return a shortest cycle with exactly one rw edge, or None."""
    best: list[Dependency] | None = None
    for vertex in sorted(knot)[:100]:
        for edge in found.among(knot, frozenset({"rw"}), vertex):
            back = _path(found, knot, INFORMATION, (edge.second, edge.first))
            if back is not None and (best is None or len(back) + 1 < len(best)):
                best = [edge, *back]
    return best
