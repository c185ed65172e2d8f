"""Transactions that depend on each other in a circle cannot have happened one after the other, in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kohort_lab.history.checks.dependencies import INFORMATION, WRITES, Dependencies, Dependency
from kohort_lab.history.facts import HistoryFacts

ALL: Final = INFORMATION | {"rw"}


def check_cycles(facts: HistoryFacts) -> None:
    """Note the shortest circle of each knot of transactions, by the least that it needs: writes, reads, oversights."""
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
    facts.anomalies.add(check, f"transactions in a circle: {' '.join(steps)} {names[0]!r}", *lines)


def knots(found: Dependencies, kinds: frozenset[str]) -> Iterator[frozenset[int]]:
    """Yield the strongly connected components of more than one transaction (Tarjan, without recursion)."""
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
    """Take a component from the stack; None where it is one transaction alone."""
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
    """Return the shortest path from the first of two transactions to the second; None if there is none."""
    start, goal = way
    came: dict[int, Dependency] = {}
    waiting = deque([start])
    while waiting:
        vertex = waiting.popleft()
        for edge in found.among(knot, kinds, vertex):
            if edge.second in came:
                continue
            came[edge.second] = edge
            if edge.second == goal:
                path = [edge]
                while path[-1].first != start:
                    path.append(came[path[-1].first])
                return path[::-1]
            waiting.append(edge.second)
    return None


def _shortest(found: Dependencies, knot: frozenset[int], kinds: frozenset[str]) -> list[Dependency]:
    """Return a shortest circle within a knot; of a large one, through one of its first hundred transactions."""
    circles = (_path(found, knot, kinds, (vertex, vertex)) for vertex in sorted(knot)[:100])
    return min((circle for circle in circles if circle), key=len)


def _with_one_oversight(found: Dependencies, knot: frozenset[int]) -> list[Dependency] | None:
    """Return a shortest circle with a single rw edge; None if there is none."""
    best: list[Dependency] | None = None
    for vertex in sorted(knot)[:100]:
        for edge in found.among(knot, frozenset({"rw"}), vertex):
            back = _path(found, knot, INFORMATION, (edge.second, edge.first))
            if back is not None and (best is None or len(back) + 1 < len(best)):
                best = [edge, *back]
    return best
