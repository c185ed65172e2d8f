"""What the verbs of ``kohort group`` print that read the journal."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.insight.findings.events import EventFinding
from kohort.insight.findings.fenced import FencedFinding
from kohort.insight.findings.groups import GroupFinding
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


class WatchedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A group at one moment, and what happened to it since the one before. ``status`` is null where it could not be
    seen; ``unseen`` says why."""

    at_ms: int
    group: str
    status: GroupFinding | None
    unseen: str | None
    events: list[EventFinding]


class GroupWatched(Result, frozen=True, kw_only=True, tag="kohort/v1/group.watch"):
    """What was seen of a group; it is printed as lines, one for each look."""

    LINES: ClassVar[str] = "moments"

    moments: list[WatchedMoment]


class GroupTimeline(Result, frozen=True, kw_only=True, tag="kohort/v1/group.timeline"):
    """Who had which partitions when."""

    timeline: TimelineFinding
