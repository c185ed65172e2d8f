"""What ``kohort watch`` prints."""

from __future__ import annotations

from typing import ClassVar

from kohort.insight.findings.model import RebalanceFinding
from kohort.results.result import Result


class WatchedRebalances(Result, frozen=True, kw_only=True, tag="kohort/v1/watch"):
    """Rebalances, each as it was found; a line of ndjson is one."""

    LINES: ClassVar[str] = "rebalances"

    cluster: str
    rebalances: list[RebalanceFinding]
