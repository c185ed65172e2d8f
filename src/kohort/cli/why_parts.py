"""What all stories of ``kohort group why`` are made of: facts, times, moves, for people and for programs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kohort.cli.show import print_prose, time_text

if TYPE_CHECKING:
    from kohort.coordinator.journal import Move
    from kohort.insight.causes import Evidence

MOVES_SHOWN: Final = 20


def print_evidence(evidence: Iterable[Evidence]) -> None:
    for fact in evidence:
        if not fact.kind.startswith("phase_"):
            when = f"  ({time_text(fact.at_ms)})" if fact.at_ms is not None else ""
            print_fact("EVIDENCE", f"{fact.kind}: {fact.value}{when}")


def print_fact(what: str, text: str) -> None:
    """Print a line of the story: what it is, and behind it, however long, the text."""
    print_prose(text, indent=" " * 12, first=f"  {what:<10}")


def ago(at_ms: int) -> str:
    """Return how long since, in the largest unit that fits."""
    passed = max(0, int(time.time()) - at_ms // 1000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if passed >= size:
            return f"{passed // size} {unit} ago"
    return f"{passed} s ago"


def evidence_json(evidence: Iterable[Evidence]) -> list[dict[str, Any]]:
    return [{"kind": fact.kind, "value": fact.value, "at_ms": fact.at_ms} for fact in evidence]


def move_json(move: Move) -> dict[str, Any]:
    return {"topic": move.topic, "partition": move.partition, "from": move.before, "to": move.after}
