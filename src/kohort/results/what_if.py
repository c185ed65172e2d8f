"""What ``kohort group what-if`` prints."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.insight.findings.what_if import NodeLossFinding, ReplayFinding, WhatIfFinding
from kohort.results.result import Result


class ComparedAssignor(msgspec.Struct, frozen=True, kw_only=True):
    """The same scenario with one assignor."""

    protocol: str
    assignor: str
    rounds: int
    moved: int
    """From the present owner to the last, as in ``moves``."""
    moved_in_all: int
    pause_from_s: float
    """Partition-seconds."""
    pause_to_s: float
    idle: int
    most_partitions: int
    """Of one member."""
    least_partitions: int


class GroupWhatIf(Result, frozen=True, kw_only=True, tag="kohort/v1/group.what-if"):
    """What a group would do: a prediction; nothing was executed."""

    LINES: ClassVar[str] = "compare"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    executed: bool = False
    prediction: WhatIfFinding
    compare: list[ComparedAssignor] = []
    """With ``--compare``: all assignors."""


class GroupReplayed(Result, frozen=True, kw_only=True, tag="kohort/v1/group.replay"):
    """What recorded rebalances moved, and what they would have moved with other assignors."""

    group: str
    replay: ReplayFinding


class NodeWhatIf(Result, frozen=True, kw_only=True, tag="kohort/v1/nodes.what-if"):
    """What groups would do without a node: a prediction; nothing was executed."""

    executed: bool = False
    loss: NodeLossFinding
