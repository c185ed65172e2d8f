"""Groups in a line each, the worst first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from kohort.insight.health import WORST
from kohort.results.groups import GroupRow

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

STUCK: Final = frozenset({"stuck", "not-fetching", "not-committing"})
MOST_TOPICS: Final = 100


def worst_first(found: Iterable[GroupFinding]) -> list[GroupFinding]:
    """Return groups in the order in which they are shown: by health, then by lag, then by name."""
    return sorted(found, key=lambda g: (WORST.index(g.health), -(g.lag or 0), g.group))


def row_of(found: GroupFinding) -> GroupRow:
    """Return a group in a line, as values."""
    return GroupRow(
        group=found.group,
        state=found.state,
        members=len(found.members),
        partitions=len(found.partitions),
        lag=found.lag,
        assignor=found.assignor or "",
        group_type=found.protocol,
        protocol_type=found.protocol_type,
        coordinator_id=found.coordinator_id,
        health=found.health,
        reason=found.reason,
        idle_members=idle_of(found),
        lag_ms=found.lag_ms,
        lag_ms_complete=found.lag_ms_complete,
        eta_ms=found.eta_ms,
        draining=found.draining,
        blame=found.blame,
        rebalances_1h=found.rebalances_1h,
        last_rebalance=found.last_rebalance,
        stuck_members=sum(member.state in STUCK for member in found.members),
        stable_share_1h=found.stable_share_1h,
        topics=sorted({one.topic for one in found.partitions})[:MOST_TOPICS],
    )


def unknown_row(group: str, reason: str) -> GroupRow:
    """Return the row of a group whose state is unknown: every value is null."""
    return GroupRow(
        group=group,
        state="Unknown",
        members=None,
        partitions=None,
        lag=None,
        assignor="",
        group_type="",
        protocol_type="",
        coordinator_id=None,
        reason=reason,
        idle_members=None,
        lag_ms_complete=False,
        stuck_members=None,
    )


def rows_worst_first(rows: Iterable[GroupRow]) -> list[GroupRow]:
    """Sort rows by health, lag and name."""
    return sorted(rows, key=lambda row: (WORST.index(row.health), -(row.lag or 0), row.group))


def idle_of(found: GroupFinding) -> int:
    """Return how many members have nothing to do."""
    return sum(member.state == "idle" for member in found.members)
