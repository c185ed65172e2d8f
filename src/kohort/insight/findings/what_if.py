"""Result of a what-if: future owners, pauses and assumptions."""

from __future__ import annotations

import msgspec

from kohort.insight.findings.model import MoveFinding


class MemberLoadFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions and lag of a member before and after the scenario.

    None means that the value is unknown, or that the member is not in the group.
    """

    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    partitions_before: int | None = None
    partitions_after: int | None = None
    lag_before: int | None = None
    lag_after: int | None = None


class DrainFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Growth of the lag during the pauses, and the time to drain it. Lag is in records.

    ``peak_lag_from`` and ``drained_from_s`` are the best case: shortest pause, fastest member. ``peak_lag_to`` and
    ``drained_to_s`` are the worst case.
    """

    written_per_s: float
    """Number of records produced per second to all partitions of the group."""
    handled_from_per_s: float
    """Consume rate of the slowest member, in records per second."""
    handled_to_per_s: float
    """Consume rate of the fastest member, in records per second."""
    peak_lag_from: int
    peak_lag_to: int
    drained_from_s: float | None
    """Seconds from the end of the last pause until the lag is 0, in the best case; None if the lag never becomes 0."""
    drained_to_s: float | None
    slowest: str | None
    members_with_growing_lag: tuple[str, ...]
    """Ids of members whose lag grows without end in the worst case."""
    unread: int
    """Number of partitions that no member consumes."""


class WhatIfFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted state of a group after a scenario; the group itself was not changed."""

    group: str
    scenario: str
    protocol: str
    assignor: str
    members_before: int
    members_after: int
    partitions: int
    rounds: int
    """Number of rebalances (in a consumer group: new group epochs) until all members have their target assignment."""
    moves: tuple[MoveFinding, ...]
    """Partitions whose owner changes in the scenario, with old and new owner; None: no owner."""
    moves_in_all: int
    """Number of partition moves, including the intermediate moves of a rolling restart."""
    pause_from_s: float
    """Seconds for which rebalances stop the reads, in the best case; the seconds of all partitions are added."""
    pause_to_s: float
    """Seconds for which rebalances stop the reads, in the worst case; the seconds of all partitions are added."""
    loads: tuple[MemberLoadFinding, ...]
    idle: tuple[str, ...]
    drain: DrainFinding | None = None
    """Growth of the lag during the rebalances, and time to drain it; None if the produce or consume rate is unknown."""
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
