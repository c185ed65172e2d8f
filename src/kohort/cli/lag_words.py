"""Lag and times of groups as cells of tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kohort.insight.names import seconds

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def span_text(ms: int) -> str:
    """Return a time as people read it, in days and hours where it is long."""
    if ms < HOUR_MS:
        return seconds(ms)
    days, rest = divmod(ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    return f"{days} d {hours} h" if days else f"{hours} h {rest // MINUTE_MS} min"


def lag_time_text(lag: int | None, lag_ms: int | None, *, complete: bool) -> str | None:
    """Return for how long records have waited; None where that is not known."""
    if lag_ms is None or (lag and not lag_ms and not complete):
        return None
    if not lag_ms:
        return "0 s"
    return f"{'' if complete else '≥'}{span_text(lag_ms)}"


def eta_text(draining: str, eta_ms: int | None) -> str | None:
    """Return when all will be read; ``never`` where the lag grows, None where it is not known."""
    if draining == "growing":
        return "never"
    if draining == "empty":
        return "0 s"
    return None if eta_ms is None else span_text(eta_ms)


def last_rebalance_text(found: GroupFinding) -> str | None:
    """Return when and why the last rebalance was, and how long it took."""
    last = found.last_rebalance
    if last is None:
        return None
    now_ms = time.time_ns() // 1_000_000
    took = "" if last.took_ms is None else f", took {seconds(last.took_ms)}"
    return f"{span_text(max(now_ms - last.at_ms, 0))} ago: {last.cause}{took}"


def rate_text(per_s: float | None) -> str | None:
    """Return records a second."""
    return None if per_s is None else f"{per_s:.1f}/s"
