"""What a what-if finds: who would own what, who would wait, and on which assumptions."""

from __future__ import annotations

import msgspec

from kohort.insight.findings.model import MoveFinding


class MemberLoadFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What one member has before and after; None: it is not in the group then, or its lag is not known."""

    member_id: str
    client_id: str = ""
    instance_id: str | None = None
    partitions_before: int | None = None
    partitions_after: int | None = None
    lag_before: int | None = None
    lag_after: int | None = None


class DrainFinding(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group falls behind, and when it has caught up; records, and records a second.

    ``from`` is at best, ``to`` at worst: the shortest pause and the fastest member, the longest and the slowest.
    """

    written_per_s: float
    """To all partitions."""
    handled_from_per_s: float
    """By one member."""
    handled_to_per_s: float
    peak_lag_from: int
    peak_lag_to: int
    drained_from_s: float | None
    """Seconds after the last pause; null is never."""
    drained_to_s: float | None
    slowest: str | None
    """The member id of who is the last to have caught up."""
    behind_for_ever: tuple[str, ...]
    """Member ids: at worst more is written to their partitions than they handle."""
    unread: int
    """Partitions that nobody would have."""


class WhatIfFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a group would be like after a scenario; a prediction, of which nothing was executed."""

    group: str
    scenario: str
    protocol: str
    assignor: str
    members_before: int
    members_after: int
    partitions: int
    rounds: int
    """Rebalances, or raises of the epoch of a modern group, until all is settled."""
    moves: tuple[MoveFinding, ...]
    """From the present owner to the last; None is nobody."""
    moves_in_all: int
    """With those on the way, as in a rolling restart, where a partition may move and come back."""
    pause_from_s: float
    """Partition-seconds, at best."""
    pause_to_s: float
    """Partition-seconds, at worst by the assumptions."""
    loads: tuple[MemberLoadFinding, ...]
    idle: tuple[str, ...]
    """Member ids that would have nothing."""
    drain: DrainFinding | None = None
    """Null where rates are neither given nor seen."""
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
