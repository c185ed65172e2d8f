"""Result of a what-if: future owners, pauses and assumptions."""

from __future__ import annotations

import msgspec

from kohort.insight.findings.model import MoveFinding


class MemberLoadFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Load of a member before and after; None if it is not in the group, or its lag is unknown."""

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
    """Rate of all partitions."""
    handled_from_per_s: float
    """Rate of one member."""
    handled_to_per_s: float
    peak_lag_from: int
    peak_lag_to: int
    drained_from_s: float | None
    """Seconds after the last pause; null: never."""
    drained_to_s: float | None
    slowest: str | None
    behind_for_ever: tuple[str, ...]
    """Ids of members that never catch up in the worst case."""
    unread: int
    """Number of partitions without an owner."""


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
    """Rebalances, or raises of the epoch of a consumer group, until all members have their target."""
    moves: tuple[MoveFinding, ...]
    """Moves from the present to the last owner; None: no owner."""
    moves_in_all: int
    """Number of all moves, with the intermediate ones of a rolling restart."""
    pause_from_s: float
    """Partition-seconds in the best case."""
    pause_to_s: float
    """Partition-seconds in the worst case."""
    loads: tuple[MemberLoadFinding, ...]
    idle: tuple[str, ...]
    drain: DrainFinding | None = None
    """Null without known rates."""
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
