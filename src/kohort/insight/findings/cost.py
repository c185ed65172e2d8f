"""What a rebalance cost, by partition: how long nobody read it, how far behind that left the group, what is read again.

A classic group's partition has no owner from the moment that its old owner stopped until its new owner's first fetch.
An owner that joins again has stopped then; one that left, or was put out, when it was last heard of. What is read again
is an estimate, and told only where the old owner said how far it was: in a commit that came too late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kohort.coordinator.journal import (
    Move,
    RequestFenced,
)
from kohort.coordinator.journal_events import PartitionsResumed, ResumedPartition
from kohort.insight.findings.model import MoveFinding
from kohort.insight.rebalances import Rebalance


def classic_moves(this: Rebalance) -> tuple[MoveFinding, ...]:
    """Return the partitions that a classic rebalance moved, each with what that cost."""
    stopped = {a.who.member_id: a.at_ms for a in this.arrivals}
    for removed in this.removed:
        vitals = removed.vitals
        if vitals is not None:
            stopped[removed.who.member_id] = vitals.last_seen_ms if removed.why != "left" else removed.at_ms
    began = {(p.topic, p.partition): entry.at_ms for entry in this.resumed for p in entry.partitions}
    moves = [_moved(this, move, stopped, began) for move in this.moves]
    return resumed_moves(moves, this.resumed, this.fenced)


def _moved(this: Rebalance, move: Move, stopped: dict[str, int], began: dict[tuple[str, int], int]) -> MoveFinding:
    since_ms = None if move.before is None else stopped.get(move.before, this.opened_at_ms)
    at_ms = began.get((move.topic, move.partition))
    return MoveFinding(
        topic=move.topic,
        partition=move.partition,
        before=move.before,
        after=move.after,
        unowned_since_ms=since_ms if at_ms is not None else None,
        unowned_ms=None if since_ms is None or at_ms is None else max(0, at_ms - since_ms),
    )


def resumed_moves(
    moves: Sequence[MoveFinding], resumed: Iterable[PartitionsResumed], fenced: Iterable[RequestFenced]
) -> tuple[MoveFinding, ...]:
    """Return moves with the lag before and after, and the records read again, of those whose new owners fetch."""
    starts: dict[tuple[str, int], ResumedPartition] = {}
    for entry in resumed:
        for p in entry.partitions:
            starts.setdefault((p.topic, p.partition), p)
    tried: dict[tuple[str, int], int] = {}
    for refused in fenced:
        for offset in refused.offsets:
            place = offset.topic, offset.partition
            tried[place] = max(offset.after, tried.get(place, 0))
    return tuple(_with_cost(move, starts.get((move.topic, move.partition)), tried) for move in moves)


def _with_cost(move: MoveFinding, start: ResumedPartition | None, tried: dict[tuple[str, int], int]) -> MoveFinding:
    if start is None:
        return move
    reached = tried.get((move.topic, move.partition))
    again = None if reached is None else max(0, reached - start.offset)
    return replace(move, lag_before=start.lag_before, lag_after=start.lag, redelivered=again)
