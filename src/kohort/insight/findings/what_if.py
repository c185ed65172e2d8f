"""Result of a what-if: future owners, pauses and assumptions."""

from __future__ import annotations

import msgspec

from kohort.insight.findings.model import MoveFinding


class MemberLoadFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions and lag of a member before and after the scenario; None if unknown, or if not a member."""

    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    partitions_before: int | None = None
    partitions_after: int | None = None
    lag_before: int | None = None
    lag_after: int | None = None


class DrainFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Growth of the lag during the pauses, and the time to drain it; records, and records per second.

    ``from`` is the best case: shortest pause, fastest member. ``to`` is the worst case.
    """

    written_per_s: float
    """Records produced to all partitions of the group, per second."""
    handled_from_per_s: float
    """Slowest consume rate of one member, in records per second."""
    handled_to_per_s: float
    peak_lag_from: int
    peak_lag_to: int
    drained_from_s: float | None
    """Seconds from the end of the last rebalance pause until the lag is 0, at best; null if it never is."""
    drained_to_s: float | None
    slowest: str | None
    behind_for_ever: tuple[str, ...]
    """Ids of members with a lag that grows without end in the worst case."""
    unread: int
    """Number of partitions that no member consumes."""


class WhatIfFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Prediction of a group after a scenario; nothing was executed."""

    group: str
    scenario: str
    protocol: str
    assignor: str
    members_before: int
    members_after: int
    partitions: int
    rounds: int
    """Number of rebalances (consumer group: of new epochs) until all members have their target assignment."""
    moves: tuple[MoveFinding, ...]
    """Partitions with another owner after the scenario, with both owners; None: no owner."""
    moves_in_all: int
    """Number of all partition moves, with the intermediate ones of a rolling restart."""
    pause_from_s: float
    """Sum of the pauses of all partitions in the best case, in seconds."""
    pause_to_s: float
    """Sum of the pauses of all partitions in the worst case, in seconds."""
    loads: tuple[MemberLoadFinding, ...]
    idle: tuple[str, ...]
    drain: DrainFinding | None = None
    """Lag during the pauses and drain time; null if the produce or consume rates are unknown."""
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
