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
    ConsolePipelines,
    ConsoleFailure,
)
"""Result classes that only the console returns. docs/schemas has their schemas."""
