"""Clocks of the process: a loop that stood still, and a wall clock that was set."""

from __future__ import annotations

from typing import Final

from kohort.broker.io import Stalled, WallClockSet
from kohort.broker.state import BrokerState
from kohort.notes import Note, debug, warning

WARNED_MS: Final = 1_000
"""A wall clock that is set by less is no warning."""


def follow_clock(state: BrokerState, given: Stalled | WallClockSet, now_ms: int) -> list[Note]:
    """Take one event of the clocks; return lines for the log."""
    if isinstance(given, Stalled):
        state.coordinator.stood_still(given.since_ms, now_ms)
        return []
    wall = state.cluster.wall
    moved_ms, wall.ahead_ms = given.ahead_ms - wall.ahead_ms, given.ahead_ms
    way = "ahead" if moved_ms > 0 else "back"
    text = f"the wall clock went {abs(moved_ms) / 1000:.1f} s {way}: times of records follow it, timers do not"
    return [(warning if abs(moved_ms) >= WARNED_MS else debug)(text, "wall clock")]
