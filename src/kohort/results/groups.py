"""What the verbs of ``kohort group`` print."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.insight.findings.model import PatternFinding, RebalanceFinding
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


class MemberMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What the client of a member pushed last, by Kafka's names."""

    pushed_at_ms: int
    values: dict[str, float]


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
    client_metrics: MemberMetrics | None = None
    """With --client-metrics, where its client has pushed any."""


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
    """Partitions that members subscribe to, and that nobody has."""


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
