"""What the console tells that no command does: the cluster it looks at, trends, lag over time, causes over time."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.cluster import NodeRow
from kohort.results.groups import GroupRow, GroupStatus
from kohort.results.pipelines import PipelineStands
from kohort.results.result import Result


class JournalTold(msgspec.Struct, frozen=True, kw_only=True):
    """Source and range of the journal of rebalances; ``kind`` is null without one, for the reason ``why_not``."""

    kind: Literal["journal topic", "watcher", "own watcher", "recording"] | None
    since_ms: int | None = None
    until_ms: int | None = None
    stale: bool = False
    """The watcher has stopped."""
    why_not: str | None = None


class UnreachableCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An outage of the cluster: time of its last answer, and the error since."""

    since_ms: int
    error: str


class ConsoleCluster(Result, frozen=True, kw_only=True, tag="kohort/v1/console.cluster"):
    """The cluster that the console shows, and the rights of its user."""

    cluster_id: str | None
    address: str | None
    version: str
    """Of kohort."""
    now_ms: int
    kind: Literal["live", "recorded"]
    title: str
    allow_changes: bool
    journal: JournalTold
    unseen: list[str]
    """Failed samples, a sentence each."""
    unreachable: UnreachableCluster | None = None
    """Null while the cluster answers. Otherwise health, lag and members of all groups are unknown."""
    user: str | None
    """Null without a login."""
    token: str | None
    """Value of ``X-Kohort-Token`` that every POST must carry."""


class ConsoleGroups(Result, frozen=True, kw_only=True, tag="kohort/v1/console.groups"):
    """Groups, the worst first, and the lag of each in the last 15 minutes, oldest first."""

    LINES: ClassVar[str] = "groups"

    at_ms: int
    groups: list[GroupRow]
    trends: dict[str, list[int | None]]
    unreachable: UnreachableCluster | None = None
    """Null while the cluster answers. Otherwise the rows name the groups of the last sample, all values unknown."""


class LagHistoryTold(Result, frozen=True, kw_only=True, tag="kohort/v1/console.lag-history"):
    """The lag of a group over time; the lists are as long as ``times_ms``. Topics are the ten with the most lag."""

    group: str
    times_ms: list[int]
    lag: list[int | None]
    lag_ms: list[int | None]
    topics: dict[str, list[int | None]]


class CauseBucket(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of rebalances by cause in a span of time."""

    from_ms: int
    until_ms: int
    by_cause: dict[str, int]


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """A host, client, topic or group behind several rebalances, and their most frequent cause."""

    kind: Literal["host", "client", "topic", "group"]
    name: str
    rebalances: int
    cause: str


class CausesTold(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes"):
    """Causes of rebalances over time; ``stable_share`` is the part of the time in which a group did not rebalance."""

    LINES: ClassVar[str] = "buckets"

    buckets: list[CauseBucket]
    offenders: list[Offender]
    stable_share: dict[str, float]


class SoftwareOffender(msgspec.Struct, frozen=True, kw_only=True):
    """Software of clients, and the rebalances that its members triggered."""

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


class ClientTold(msgspec.Struct, frozen=True, kw_only=True):
    """The client of a member; ``unknown``: reasons for ``software``, ``limits`` and ``polls``."""

    member_id: str
    software: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    """``max.poll.interval.ms`` of Java's clients and of librdkafka's."""
    last_poll_ms_ago: int | None
    """At ``said_at_ms``."""
    longest_poll_gap_ms: int | None
    said_at_ms: int | None
    unknown: dict[str, str]


class ConsoleClients(Result, frozen=True, kw_only=True, tag="kohort/v1/console.clients"):
    LINES: ClassVar[str] = "clients"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    clients: list[ClientTold]


class ConsolePipelines(Result, frozen=True, kw_only=True, tag="kohort/v1/console.pipelines"):
    pipelines: list[PipelineStands]


class ConsoleFailure(Result, frozen=True, kw_only=True, tag="kohort/v1/console.error"):
    """Error of a request; ``members`` names those that prevent a change."""

    error: str
    what_to_do: str
    members: list[str] = []


class ConsoleReady(Result, frozen=True, kw_only=True, tag="kohort/v1/console"):
    """A console that accepts requests."""

    url: str
    kind: Literal["live", "recorded"]


TOLD = (
    GroupStatus,
    ConsoleCluster,
    ConsoleGroups,
    LagHistoryTold,
    CausesTold,
    CausesSoftware,
    ConsoleNodes,
    ConsoleClients,
    ConsolePipelines,
    ConsoleFailure,
)
"""Answers of the console alone: their schemas are in docs/schemas, too."""
