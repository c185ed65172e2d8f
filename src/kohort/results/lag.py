"""What ``kohort groups``, ``doctor`` and the verbs of ``kohort group`` about lag and health print."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.insight.findings.doctor import DoctorFinding
from kohort.insight.findings.groups import GroupFinding, LastRebalance, MemberFinding, PartitionFinding
from kohort.results.result import Result


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a line. Lag is in records; null is what is not known."""

    group: str
    state: str
    members: int | None
    partitions: int | None
    lag: int | None
    assignor: str
    group_type: str
    protocol_type: str
    coordinator_id: int | None
    health: str | None = None
    reason: str = ""
    idle_members: int | None = 0
    lag_ms: int | None = None
    """For how long the next record has waited, the longest of its partitions."""
    lag_ms_complete: bool = True
    """False where it may have waited for longer: not all partitions were looked into."""
    eta_ms: int | None = None
    draining: str = "unknown"
    blame: str = "none"
    rebalances_1h: int | None = None
    last_rebalance: LastRebalance | None = None
    stuck_members: int | None = 0
    """Those that do not get on though there is something to do."""
    stable_share_1h: float | None = None
    """The part of the last hour in which it did not rebalance; null without a journal."""
    topics: list[str] = []
    """At most 100 of those that it reads or has committed, by name."""


class GroupsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/groups"):
    """Groups, the worst first."""

    LINES: ClassVar[str] = "groups"

    groups: list[GroupRow]


class GroupStatusTold(Result, frozen=True, kw_only=True, tag="kohort/v1/group.status"):
    """A group as it is now."""

    status: GroupFinding


class GroupMembersTold(Result, frozen=True, kw_only=True, tag="kohort/v1/group.members"):
    """The members of a group: what each does, and how far behind it is."""

    LINES: ClassVar[str] = "members"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    sentence: str
    members: list[MemberFinding]


class GroupPartitionsTold(Result, frozen=True, kw_only=True, tag="kohort/v1/group.partitions"):
    """The partitions of a group: where it is in each, and how that goes on."""

    LINES: ClassVar[str] = "partitions"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    sentence: str
    partitions: list[PartitionFinding]


class TopicLagRow(msgspec.Struct, frozen=True, kw_only=True):
    """The lag of one topic."""

    topic: str
    partitions: int
    behind: int
    """Partitions in which something waits."""
    lag: int | None
    stable_lag: int | None
    """For readers of committed records."""
    lag_ms: int | None
    lead: int | None
    """The least distance of what is read next from the start of the log."""
    written_per_s: float | None
    read_per_s: float | None
    eta_ms: int | None


class GroupLagTold(Result, frozen=True, kw_only=True, tag="kohort/v1/group.lag"):
    """The lag of a group, by topic, and what causes it."""

    LINES: ClassVar[str] = "topics"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    sentence: str
    lag: int | None
    stable_lag: int | None
    lag_ms: int | None
    lag_ms_complete: bool
    eta_ms: int | None
    draining: str
    blame: str
    topics: list[TopicLagRow]


class DoctorReport(Result, frozen=True, kw_only=True, tag="kohort/v1/doctor"):
    """What the rules found, the worst first."""

    LINES: ClassVar[str] = "findings"

    examined: int
    findings: list[DoctorFinding]
    unknown: int = 0
    """Groups of unknown health: after one sample, at a time in the past, or without an answer of the coordinator."""


class WaitedFor(Result, frozen=True, kw_only=True, tag="kohort/v1/group.wait"):
    """A group that has become what was waited for."""

    group: str
    waited_ms: int
    stable_ms: int
    """For how long it has been so."""
    lag: int | None
    members: int
