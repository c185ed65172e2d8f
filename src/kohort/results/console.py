"""Results that only the console returns: state of the cluster, lag over time, causes over time."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.cluster import NodeRow
from kohort.results.groups import GroupRow, GroupStatus
from kohort.results.pipelines import PipelineStatus
from kohort.results.result import Result


class JournalReport(msgspec.Struct, frozen=True, kw_only=True):
    """Source and time range of the rebalance journal.

    Without a journal, ``kind`` is null, and ``why_not`` has the reason.
    """

    kind: Literal["journal topic", "watcher", "own watcher", "recording"] | None
    since_ms: int | None = None
    until_ms: int | None = None
    stale: bool = False
    """True if the watcher that wrote the journal has stopped."""
    why_not: str | None = None


class UnreachableCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An outage of the cluster. ``since_ms``: time of the last answer before the outage. ``error``: its first error."""

    since_ms: int
    error: str


class ConsoleCluster(Result, frozen=True, kw_only=True, tag="kohort/v1/console.cluster"):
    cluster_id: str | None
    address: str | None
    version: str
    """Version of kohort."""
    now_ms: int
    kind: Literal["live", "recorded"]
    title: str
    allow_changes: bool
    journal: JournalReport
    unseen: list[str]
    """Sentences about the groups and brokers that could not be sampled."""
    unreachable: UnreachableCluster | None = None
    """Present outage of the cluster, null without one.

    During an outage, health, lag and members of groups are unknown.
    """
    user: str | None
    """Name of the logged-in user; null without a login."""
    token: str | None
    """CSRF token. Every POST must send it in the header ``X-Kohort-Token``."""


class ConsoleGroups(Result, frozen=True, kw_only=True, tag="kohort/v1/console.groups"):
    """Groups, the worst health first. ``trends``: lag of each group over the last 15 minutes, oldest value first."""

    LINES: ClassVar[str] = "groups"

    at_ms: int
    groups: list[GroupRow]
    trends: dict[str, list[int | None]]
    unreachable: UnreachableCluster | None = None
    """Present outage of the cluster, null without one.

    During an outage, tables have only the group names of the last sample.
    """


class LagHistoryReport(Result, frozen=True, kw_only=True, tag="kohort/v1/console.lag-history"):
    """Lag of a group at each of the times ``times_ms``. ``topics``: lag of the ten topics with the largest lag."""

    group: str
    times_ms: list[int]
    lag: list[int | None]
    lag_ms: list[int | None]
    topics: dict[str, list[int | None]]


class CauseBucket(msgspec.Struct, frozen=True, kw_only=True):
    """Number of rebalances of each cause, in one time interval."""

    from_ms: int
    until_ms: int
    by_cause: dict[str, int]


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """A host, client, topic or group with many rebalances. ``cause``: most frequent cause of these rebalances."""

    kind: Literal["host", "client", "topic", "group"]
    name: str
    rebalances: int
    cause: str


class CausesReport(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes"):
    """Causes of rebalances over time. ``stable_share``: fraction of the time in which each group did not rebalance."""

    LINES: ClassVar[str] = "buckets"

    buckets: list[CauseBucket]
    offenders: list[Offender]
    stable_share: dict[str, float]


class SoftwareOffender(msgspec.Struct, frozen=True, kw_only=True):
    software: str
    rebalances: int
    cause: str


class CausesSoftware(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes-software"):
    """Client software of the members that triggered rebalances.

    ``unknown`` maps each reason why the software is unknown to the number of these rebalances.
    """

    LINES: ClassVar[str] = "software"

    software: list[SoftwareOffender]
    unknown: dict[str, int]


class ConsoleNodes(Result, frozen=True, kw_only=True, tag="kohort/v1/console.nodes"):
    """Nodes of the cluster. ``groups``: names of the groups that each node coordinates."""

    LINES: ClassVar[str] = "nodes"

    nodes: list[NodeRow]
    groups: dict[str, list[str]]


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """Client of a group member. ``unknown`` has the reasons why ``software``, ``limits`` or ``polls`` are missing."""

    member_id: str
    software: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    """Rebalance timeout of the member. Java clients and librdkafka set it to ``max.poll.interval.ms``."""
    last_poll_ms_ago: int | None
    """Time in ms from the client's last poll until its metrics report (``said_at_ms``)."""
    longest_poll_gap_ms: int | None
    said_at_ms: int | None
    unknown: dict[str, str]


class ConsoleClients(Result, frozen=True, kw_only=True, tag="kohort/v1/console.clients"):
    LINES: ClassVar[str] = "clients"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    clients: list[ClientRow]


class TopicGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that reads a topic. ``members``: number of members that own partitions of the topic."""

    group: str
    health: str | None
    state: str
    members: int
    partitions: int
    lag: int | None
    """Lag on the topic, in records: the sum over the partitions with a known lag. Null if all are unknown."""
    lag_unknown: int
    """Number of partitions of the topic with an unknown lag."""


class ConsoleTopicRow(msgspec.Struct, frozen=True, kw_only=True):
    """A topic. Null fields are unknown; ``unknown`` has the reason for ``size``, ``offsets``, ``rate``, ``options``."""

    name: str
    topic_id: str
    internal: bool
    partitions: int
    without_leader: int
    """Number of partitions without a leader."""
    out_of_sync: int
    """Number of partitions with fewer in-sync replicas than replicas."""
    offsets: int | None
    """Number of offsets between log start and log end. Compaction and transactions leave offsets without a record."""
    size_bytes: int | None
    """Size in bytes of the largest replica of each partition, summed."""
    records_per_s: float | None
    """Growth of the log ends in offsets per second, since an earlier query of the console."""
    cleanup_policy: str | None
    retention_ms: str | None
    retention_bytes: str | None
    groups: list[TopicGroup]
    groups_in_all: int
    unknown: dict[str, str]


class ConsoleTopics(Result, frozen=True, kw_only=True, tag="kohort/v1/console.topics"):
    """Topics, the internal ones last. ``left_out``: number of topics above the limit of the console."""

    LINES: ClassVar[str] = "topics"

    topics: list[ConsoleTopicRow]
    left_out: int


class TopicPartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic. ``leader`` is -1 if the partition has no leader. Null fields are unknown."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    log_start_offset: int | None
    log_end_offset: int | None
    size_bytes: int | None


class TopicOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a topic. ``source``: ``topic`` if the topic overrides it. The value of a secret option is null."""

    name: str
    value: str | None
    source: str
    secret: bool


class ConsoleTopic(Result, frozen=True, kw_only=True, tag="kohort/v1/console.topic"):
    """A topic with its partitions, and its options: those that it overrides first. ``options``: null if unknown."""

    topic: ConsoleTopicRow
    partitions: list[TopicPartitionState]
    options: list[TopicOption] | None


class FoundHeader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str | dict[str, str] | None
    size: int


class FoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record. Keys and values that are not UTF-8 are objects ``{"base64": ...}``. Long ones are cut.

    ``key_size`` and ``value_size``: whole sizes in bytes. ``headers_left_out``: number of further headers.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    key: str | dict[str, str] | None
    key_size: int
    value: str | dict[str, str] | None
    value_size: int
    headers: list[FoundHeader]
    headers_left_out: int


class SearchedRange(msgspec.Struct, frozen=True, kw_only=True):
    """Searched offsets of a partition: from ``first`` (included) to ``until`` (excluded)."""

    partition: int
    log_start_offset: int
    log_end_offset: int
    first: int
    until: int


class ConsoleRecords(Result, frozen=True, kw_only=True, tag="kohort/v1/console.records"):
    """Records of a topic, and the searched offsets.

    ``earlier`` and ``later``: values of the parameter ``ranges`` that continue before or after; null at the log's ends.
    """

    LINES: ClassVar[str] = "records"

    topic: str
    records: list[FoundRecord]
    searched: list[SearchedRange]
    searched_records: int
    searched_bytes: int
    stopped: Literal["records", "bytes", "time", "matches"] | None
    """Limit at which the search stopped; null if it read all ``ranges``."""
    earlier: str | None
    later: str | None


class ConsolePipelines(Result, frozen=True, kw_only=True, tag="kohort/v1/console.pipelines"):
    pipelines: list[PipelineStatus]


class ConsoleFailure(Result, frozen=True, kw_only=True, tag="kohort/v1/console.error"):
    """Error of a request to the console. ``members``: group members that prevent the requested change."""

    error: str
    advice: str
    members: list[str] = []


class ConsoleReady(Result, frozen=True, kw_only=True, tag="kohort/v1/console"):
    url: str
    kind: Literal["live", "recorded"]


CONSOLE_RESULTS = (
    GroupStatus,
    ConsoleCluster,
    ConsoleGroups,
    LagHistoryReport,
    CausesReport,
    CausesSoftware,
    ConsoleNodes,
    ConsoleClients,
    ConsoleTopics,
    ConsoleTopic,
    ConsoleRecords,
    ConsolePipelines,
    ConsoleFailure,
)
"""Result classes that only the console returns. docs/schemas has their schemas."""
