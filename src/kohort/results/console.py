"""What the console tells that no command does: the cluster it looks at, trends, lag over time, causes over time."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from kohort.results.cluster import NodeRow
from kohort.results.groups import GroupRow
from kohort.results.pipelines import PipelineStands
from kohort.results.result import Result


class JournalTold(msgspec.Struct, frozen=True, kw_only=True):
    """Where the journal of rebalances comes from, and what it covers; ``kind`` is null where there is none, and
    ``why_not`` says why."""

    kind: Literal["journal topic", "watcher", "own watcher", "recording"] | None
    since_ms: int | None = None
    until_ms: int | None = None
    stale: bool = False
    """Its watcher does not run any more."""
    why_not: str | None = None


class UnreachableCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An outage of the cluster: time of its last answer, and the error since."""

    since_ms: int
    error: str


class ConsoleCluster(Result, frozen=True, kw_only=True, tag="kohort/v1/console.cluster"):
    """What the console shows, and what it may do."""

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
    """What could not be seen, in sentences."""
    unreachable: UnreachableCluster | None = None
    """Null while the cluster answers. Otherwise health, lag and members of all groups are unknown."""
    user: str | None
    """Who is logged in; null without a login."""
    token: str | None
    """What every POST has to carry in ``X-Kohort-Token``."""


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
    """How many rebalances had which cause in a time."""

    from_ms: int
    until_ms: int
    by_cause: dict[str, int]


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """Who or what was behind several rebalances, and their most frequent cause."""

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
    """A client's software, with its version: how many rebalances began with members that run it, and mostly why."""

    software: str
    rebalances: int
    cause: str


class CausesSoftware(Result, frozen=True, kw_only=True, tag="kohort/v1/console.causes-software"):
    """Which software the members run that rebalances began with. ``unknown`` says why it is not known, and of how many
    rebalances."""

    LINES: ClassVar[str] = "software"

    software: list[SoftwareOffender]
    unknown: dict[str, int]


class ConsoleNodes(Result, frozen=True, kw_only=True, tag="kohort/v1/console.nodes"):
    """The nodes, and the names of the groups that each coordinates."""

    LINES: ClassVar[str] = "nodes"

    nodes: list[NodeRow]
    groups: dict[str, list[str]]


class ClientTold(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the client of a member; ``unknown`` says of ``software``, ``limits`` and ``polls`` why not."""

    member_id: str
    software: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    """How long a rebalance waits for it: ``max.poll.interval.ms`` of Java's clients and of librdkafka's."""
    last_poll_ms_ago: int | None
    """How long ago its user had polled, at ``said_at_ms``."""
    longest_poll_gap_ms: int | None
    said_at_ms: int | None
    unknown: dict[str, str]


class ConsoleClients(Result, frozen=True, kw_only=True, tag="kohort/v1/console.clients"):
    """What is known of the clients of a group's members."""

    LINES: ClassVar[str] = "clients"
    ON_LINES: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    clients: list[ClientTold]


class ConsolePipelines(Result, frozen=True, kw_only=True, tag="kohort/v1/console.pipelines"):
    """The pipelines whose files the console was given."""

    pipelines: list[PipelineStands]


class ConsoleFailure(Result, frozen=True, kw_only=True, tag="kohort/v1/console.error"):
    """Why a request was not answered; ``members`` names those that stand against a change."""

    error: str
    what_to_do: str
    members: list[str] = []


class ConsoleReady(Result, frozen=True, kw_only=True, tag="kohort/v1/console"):
    """A console that takes requests: one line, as soon as it does."""

    url: str
    kind: Literal["live", "recorded"]


TOLD = (
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
"""What no command prints: their schemas are written, too."""
