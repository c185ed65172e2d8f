"""Results of ``kohort groups``, ``kohort group``, ``kohort doctor`` and ``kohort watch``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.insight.findings.doctor import DoctorFinding
from kohort.insight.findings.events import EventFinding
from kohort.insight.findings.fenced import FencedFinding
from kohort.insight.findings.groups import GroupFinding, LastRebalance
from kohort.insight.findings.model import PatternFinding, RebalanceFinding
from kohort.insight.findings.timeline import TimelineFinding
from kohort.insight.findings.what_if import WhatIfFinding
from kohort.results.result import Result, SeveralResults


class GroupPartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that a group reads, has committed, or both; null is what is not known, or not there."""

    topic: str
    partition: int
    leader_epoch: int | None = None
    """The epoch of the record before the committed offset, if the commit named it."""
    current_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    """Below 0 where more is committed than the log holds."""
    member_id: str | None
    client_id: str | None
    host: str | None
    metadata: str


class GroupMemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A member; its target and its epoch are null in a classic group. Partitions are named as ``orders-3``."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    topics: list[str]
    assignment: list[str]
    member_type: str
    member_epoch: int | None
    topic_regex: str | None
    rack_id: str | None
    target_assignment: list[str] | None
    to_give_up: list[str]
    to_get: list[str]
    lag: int | None


class GroupDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/group.describe"):
    """A group with its members and its partitions; a line of ndjson is a partition."""

    LINES: ClassVar[str] = "partitions"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    state: str
    group_type: str
    group_epoch: int | None
    assignment_epoch: int | None
    protocol_type: str
    assignor: str
    coordinator_id: int
    coordinator: str | None = None
    """The address of it."""
    lag: int | None
    members: list[GroupMemberRow]
    partitions: list[GroupPartitionRow]
    unowned: list[str]
    """Subscribed partitions that no member owns."""
    status: GroupFinding | None = None
    """Health, lag in time, rates; null in answers of the console."""
    topics: list[TopicLagRow] = []
    """Lag by topic, the largest first."""


class GroupsDescribed(SeveralResults, frozen=True, kw_only=True, tag="kohort/v1/group.describe.several"):
    """Several groups, by name; those that could not be described are left out, and told on stderr."""

    groups: list[GroupDescribed]

    def each(self) -> list[GroupDescribed]:
        """Return the groups."""
        return self.groups


GroupDescribed.SEVERAL = GroupsDescribed


class GroupsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/group.delete"):
    """The groups that were deleted."""

    deleted: list[str]


class GroupRebalances(Result, frozen=True, kw_only=True, tag="kohort/v1/group.why"):
    """Rebalances of a group, oldest first; ``known`` is how many the journal tells of."""

    LINES: ClassVar[str] = "rebalances"

    group: str
    known: int
    patterns: list[PatternFinding] = []
    """What those that are shown mean together."""
    rebalances: list[RebalanceFinding]


class MovedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition, and where it goes; ``prior_offset`` is null where nothing was committed."""

    group: str
    topic: str
    partition: int
    prior_offset: int | None
    new_offset: int
    skipped: int | None
    """How many offsets will not be read."""
    read_again: int | None
    """How many offsets will be read once more."""
    error: str | None = None
    """Why it stays where it is: the coordinator refused it. Null where it moved, or a plan is shown."""


class RefusedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that was not touched, and why."""

    group: str
    reason: str


class OffsetsReset(Result, frozen=True, kw_only=True, tag="kohort/v1/group.reset-offsets"):
    """Where groups go; ``executed`` is false for a plan."""

    LINES: ClassVar[str] = "partitions"
    ON_LINES: ClassVar[tuple[str, ...]] = ("executed",)

    executed: bool
    partitions: list[MovedPartition]
    refused: list[RefusedGroup]


class DeletedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """A partition for which nothing is committed any more, and what was."""

    topic: str
    partition: int
    offset: int


class OffsetsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/group.delete-offsets"):
    """What a group no longer has committed."""

    LINES: ClassVar[str] = "deleted"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    deleted: list[DeletedOffset]


class RemovedMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member that was taken out, and what it had."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: list[str]


class MembersRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/group.remove-member"):
    """The members that were taken out of a group."""

    LINES: ClassVar[str] = "removed"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    removed: list[RemovedMember]


class PeekedHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A header of a record; bytes that are no text are ``{"base64": ...}``."""

    name: str
    value: str | dict[str, str] | None


class PeekedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record near a committed offset; ``read`` is yes, next or no. Bytes that are no text are ``{"base64": ...}``."""

    read: str
    offset: int
    timestamp_ms: int | None
    key: str | dict[str, str] | None
    value: str | dict[str, str] | None
    headers: list[PeekedHeader]


class GroupPeek(Result, frozen=True, kw_only=True, tag="kohort/v1/group.peek"):
    """The records around what a group has committed for a partition."""

    LINES: ClassVar[str] = "records"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group", "topic", "partition")

    group: str
    topic: str
    partition: int
    committed: int
    log_start_offset: int
    log_end_offset: int
    records: list[PeekedRecord]


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


class WatchedRebalances(Result, frozen=True, kw_only=True, tag="kohort/v1/watch"):
    """Rebalances, each as it was found; a line of ndjson is one."""

    LINES: ClassVar[str] = "rebalances"

    cluster: str
    rebalances: list[RebalanceFinding]
