"""What the verbs of ``kohort group`` print that read the journal."""

from __future__ import annotations

from typing import ClassVar

from kohort.insight.findings.events import EventFinding
from kohort.insight.findings.fenced import FencedFinding
from kohort.insight.findings.timeline import TimelineFinding
from kohort.results.result import Result


class GroupEvents(Result, frozen=True, kw_only=True, tag="kohort/v1/group.events"):
    """What happened to a group, oldest first."""

    LINES: ClassVar[str] = "events"

    group: str
    events: list[EventFinding]


class GroupFenced(Result, frozen=True, kw_only=True, tag="kohort/v1/group.fenced"):
    """Refused requests to a group, by who sent them."""

    LINES: ClassVar[str] = "fenced"

    group: str
    fenced: list[FencedFinding]
    from_outside: bool = False
    """Whether a watcher alone tells of the group: what a coordinator refuses is not seen from the outside."""


class GroupTimeline(Result, frozen=True, kw_only=True, tag="kohort/v1/group.timeline"):
    """Who had which partitions when."""

    timeline: TimelineFinding
