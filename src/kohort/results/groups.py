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
from kohort.results.result import Result


class GroupPartitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A partition for which the group committed an offset, or which a member owns. Null fields are unknown."""

    topic: str
    partition: int
    leader_epoch: int | None = None
    """Leader epoch in the commit: the epoch of the record before the committed offset."""
    current_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    """Number of records from the committed offset on. Negative if the committed offset is beyond the log end."""
    member_id: str | None
    client_id: str | None
    host: str | None
    metadata: str


class GroupMemberRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group member. Epoch and target assignment are null in a classic group. Partitions look like ``orders-3``."""

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
    to_revoke: list[str]
    to_get: list[str]
    lag: int | None


class GroupDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/group.describe"):
    """A group with its members and partitions. ndjson has a line per partition."""

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
    lag: int | None
    members: list[GroupMemberRow]
    partitions: list[GroupPartitionRow]
    unowned: list[str]
    """Subscribed partitions that no member owns."""
    status: GroupFinding | None = None
    """Health, lag times and rates of the group. Null in the console."""
    topics: list[TopicLagRow] = []
    """Lag of each topic. The topic with the largest lag is first."""


class GroupsDescribed(Result, frozen=True, kw_only=True, tag="kohort/v1/group.describe.several"):
    """Several groups. Groups that could not be described are left out."""

    PARTS: ClassVar[str] = "groups"

    groups: list[GroupDescribed]


GroupDescribed.SEVERAL = GroupsDescribed


class GroupsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/group.delete"):
    deleted: list[str]


class GroupRebalances(Result, frozen=True, kw_only=True, tag="kohort/v1/group.why"):
    """Rebalances of a group, oldest first. ``known``: number of all its rebalances in the journal."""

    LINES: ClassVar[str] = "rebalances"

    group: str
    known: int
    patterns: list[PatternFinding] = []
    """Patterns that were found in the listed rebalances."""
    rebalances: list[RebalanceFinding]


class MovedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition and its new committed offset. ``prior_offset`` is null if no offset was committed before."""

    group: str
    topic: str
    partition: int
    prior_offset: int | None
    new_offset: int
    skipped: int | None
    """Number of offsets that the group will not read because of the reset."""
    read_again: int | None
    """Number of offsets that the group will read again because of the reset."""
    error: str | None = None
    """Error of the coordinator for the new offset of this partition. Null without an error."""


class RefusedGroup(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    reason: str


class OffsetsReset(Result, frozen=True, kw_only=True, tag="kohort/v1/group.reset-offsets"):
    """New committed offsets of a group. ``executed`` is false if they were not committed, but only planned."""

    LINES: ClassVar[str] = "partitions"
    ON_LINES: ClassVar[tuple[str, ...]] = ("executed",)

    executed: bool
    partitions: list[MovedPartition]
    refused: list[RefusedGroup]


class DeletedOffset(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int


class OffsetsDeleted(Result, frozen=True, kw_only=True, tag="kohort/v1/group.delete-offsets"):
    LINES: ClassVar[str] = "deleted"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    deleted: list[DeletedOffset]


class RemovedMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: list[str]


class MembersRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/group.remove-member"):
    LINES: ClassVar[str] = "removed"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    removed: list[RemovedMember]


class PeekedHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A record header. A value that is not UTF-8 is an object ``{"base64": ...}``."""

    name: str
    value: str | dict[str, str] | None


class PeekedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record near the committed offset.

    ``read``: yes (before the committed offset), next (at this offset) or no (after it).
    """

    read: str
    offset: int
    timestamp_ms: int | None
    key: str | dict[str, str] | None
    value: str | dict[str, str] | None
    headers: list[PeekedHeader]


class GroupPeek(Result, frozen=True, kw_only=True, tag="kohort/v1/group.peek"):
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
    """A row of the list of groups. Lag is in records. Null fields are unknown."""

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
    """Age of the oldest unread record of the group, in ms."""
    lag_ms_complete: bool = True
    """False if timestamps of some records were not read. The oldest unread record may then be older than ``lag_ms``."""
    eta_ms: int | None = None
    draining: str = "unknown"
    blame: str = "none"
    rebalances_1h: int | None = None
    last_rebalance: LastRebalance | None = None
    stuck_members: int | None = 0
    """Number of members that have a lag but make no progress."""
    stable_share_1h: float | None = None
    """Fraction of the last hour in which the group did not rebalance. Null without a journal."""
    topics: list[str] = []
    """Topics with a subscription or committed offsets of the group, at most 100."""


class GroupsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/groups"):
    LINES: ClassVar[str] = "groups"

    groups: list[GroupRow]


class GroupStatus(Result, frozen=True, kw_only=True, tag="kohort/v1/group.status"):
    status: GroupFinding


class TopicLagRow(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partitions: int
    behind: int
    """Number of the topic's partitions that have a lag."""
    lag: int | None
    stable_lag: int | None
    lag_ms: int | None
    lead: int | None
    """Number of offsets from log start to committed offset: the smallest number of all partitions of the topic."""
    written_per_s: float | None
    read_per_s: float | None
    eta_ms: int | None


class DoctorReport(Result, frozen=True, kw_only=True, tag="kohort/v1/doctor"):
    """Problems of groups, the worst problem first."""

    LINES: ClassVar[str] = "findings"

    examined: int
    findings: list[DoctorFinding]
    unknown: int = 0
    """Number of groups with unknown health. Either they were not described, or there are fewer than two samples."""


class WaitedFor(Result, frozen=True, kw_only=True, tag="kohort/v1/group.wait"):
    """A group that has met the conditions of ``kohort group wait``."""

    group: str
    waited_ms: int
    stable_ms: int
    lag: int | None
    members: int


class GroupEvents(Result, frozen=True, kw_only=True, tag="kohort/v1/group.events"):
    LINES: ClassVar[str] = "events"

    group: str
    events: list[EventFinding]


class GroupFenced(Result, frozen=True, kw_only=True, tag="kohort/v1/group.fenced"):
    LINES: ClassVar[str] = "fenced"

    group: str
    fenced: list[FencedFinding]
    from_outside: bool = False
    """True if the journal comes from a watcher. A watcher cannot see rejected requests."""


class GroupTimeline(Result, frozen=True, kw_only=True, tag="kohort/v1/group.timeline"):
    timeline: TimelineFinding


class ComparedAssignor(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted effect of a change if the group used this assignor."""

    protocol: str
    assignor: str
    rounds: int
    moved: int
    moved_in_all: int
    pause_from_s: float
    """Lower bound of the pauses in seconds.

    The pause of a partition is the time in which it has no owner. The pauses of all partitions are added.
    """
    pause_to_s: float
    idle: int
    most_partitions: int
    least_partitions: int


class GroupWhatIf(Result, frozen=True, kw_only=True, tag="kohort/v1/group.what-if"):
    """Predicted effect of a change on a group. The group itself was not changed."""

    LINES: ClassVar[str] = "compare"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    executed: bool = False
    prediction: WhatIfFinding
    compare: list[ComparedAssignor] = []
    """Predictions of the same change with every assignor, for ``--compare``."""


class WatchedRebalances(Result, frozen=True, kw_only=True, tag="kohort/v1/watch"):
    LINES: ClassVar[str] = "rebalances"

    cluster: str
    rebalances: list[RebalanceFinding]
