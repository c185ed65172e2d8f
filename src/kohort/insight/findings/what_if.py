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
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]
