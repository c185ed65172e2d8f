"""Results that only the console has: cluster, trends, lag over time, causes over time."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.cluster import NodeRow
from kohort.results.groups import GroupRow, GroupStatus
from kohort.results.pipelines import PipelineStatus
from kohort.results.result import Result


class JournalReport(msgspec.Struct, frozen=True, kw_only=True):
    """Source and time range of the rebalance journal; ``kind`` is null without one, with the reason in ``why_not``."""

    kind: Literal["journal topic", "watcher", "own watcher", "recording"] | None
    since_ms: int | None = None
    until_ms: int | None = None
    stale: bool = False
    """True if the watcher has stopped."""
    why_not: str | None = None


class UnreachableCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An outage of the cluster: time of its last answer in ms, and the error since."""

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
    """Errors of failed samples, a sentence each."""
    unreachable: UnreachableCluster | None = None
    """Null while the cluster answers; otherwise health, lag and members of all groups are unknown."""
    user: str | None
    """Null without a login."""
    token: str | None
    """Required header ``X-Kohort-Token`` of every POST."""


class ConsoleGroups(Result, frozen=True, kw_only=True, tag="kohort/v1/console.groups"):
    """Groups, the worst first, and the lag of each in the last 15 minutes, oldest first."""

    LINES: ClassVar[str] = "groups"

    at_ms: int
    groups: list[GroupRow]
    trends: dict[str, list[int | None]]
    unreachable: UnreachableCluster | None = None
    """Null while the cluster answers; otherwise the rows have only the names of the last sample."""


class LagHistoryReport(Result, frozen=True, kw_only=True, tag="kohort/v1/console.lag-history"):
    """Lag of a group over time; all lists are as long as ``times_ms``. ``topics``: the ten with the largest lag."""

    group: str
    times_ms: list[int]
    lag: list[int | None]
    lag_ms: list[int | None]
    topics: dict[str, list[int | None]]


class CauseBucket(msgspec.Struct, frozen=True, kw_only=True):
    """Number of rebalances by cause in a time range."""

    from_ms: int
    until_ms: int
    by_cause: dict[str, int]


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """A host, client, topic or group with several rebalances, and their most frequent cause."""

    kind: Literal["host", "client", "topic", "group"]
    name: str
    rebalances: int
    cause: str


class CausesReport(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes"):
    """Causes of rebalances over time; ``stable_share``: share of the time without a rebalance, by group."""

    LINES: ClassVar[str] = "buckets"

    buckets: list[CauseBucket]
    offenders: list[Offender]
    stable_share: dict[str, float]


class SoftwareOffender(msgspec.Struct, frozen=True, kw_only=True):
    software: str
    rebalances: int
    cause: str


class CausesSoftware(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes-software"):
    """Software of the members that triggered rebalances; ``unknown``: counts by reason."""

    LINES: ClassVar[str] = "software"

    software: list[SoftwareOffender]
    unknown: dict[str, int]


class ConsoleNodes(Result, frozen=True, kw_only=True, tag="kohort/v1/console.nodes"):
    """Nodes, and the groups that each coordinates."""

    LINES: ClassVar[str] = "nodes"

    nodes: list[NodeRow]
    groups: dict[str, list[str]]


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """The client of a member; ``unknown``: why ``software``, ``limits`` or ``polls`` are missing."""

    member_id: str
    software: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    """``max.poll.interval.ms`` in Java clients and librdkafka."""
    last_poll_ms_ago: int | None
    """Time since the last poll, as of ``said_at_ms``."""
    longest_poll_gap_ms: int | None
    said_at_ms: int | None
    unknown: dict[str, str]


class ConsoleClients(Result, frozen=True, kw_only=True, tag="kohort/v1/console.clients"):
    LINES: ClassVar[str] = "clients"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    clients: list[ClientRow]


class ConsolePipelines(Result, frozen=True, kw_only=True, tag="kohort/v1/console.pipelines"):
    pipelines: list[PipelineStatus]


class ConsoleFailure(Result, frozen=True, kw_only=True, tag="kohort/v1/console.error"):
    """Error of a request; ``members`` prevent the requested change."""

    error: str
    what_to_do: str
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
    ConsolePipelines,
    ConsoleFailure,
)
"""Results without a command; docs/schemas has their schemas too."""
