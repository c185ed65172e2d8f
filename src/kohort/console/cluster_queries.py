"""API answers that need queries of the cluster: member details, records of a group, nodes, what-if, pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kohort.console.answers import span_of_causes
from kohort.console.routes import ApiQuery, Route, TimeSpan
from kohort.console.sources import ConsoleSource
from kohort.errors import KohortError, UsageError
from kohort.insight.names import printable
from kohort.model import TopicPartition
from kohort.results.console import CausesSoftware, ConsoleClients, ConsoleNodes, ConsolePipelines
from kohort.results.groups import GroupDescribed, GroupPeek, GroupWhatIf
from kohort.results.pipelines import PipelineStatus
from kohort.verbs.client_reports import (
    BACK_MS,
    client_rows,
    journaled_software,
    lacks_software,
    read_reports,
    software_of_triggers,
)
from kohort.verbs.cluster import node_rows
from kohort.verbs.describing import coordinators, described
from kohort.verbs.groups import is_missing, no_such_group
from kohort.verbs.peeking import peek, position_of
from kohort.verbs.pipelines import pipeline_status
from kohort.verbs.predicting import check_scenario, predict
from kohort.verbs.refusals import NothingThere
from kohort.watch.cluster_queries import ADMIN_MS
from kohort.watch.sampling import SamplingLimits, sample_groups

if TYPE_CHECKING:
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.telemetry.report import ClientReport
    from kohort.watch.opening import WatchClients

MOST_RECORDS: Final = 100
CAUSES_BACK_MS: Final = 3_600_000
"""Maximum age of client metrics in ms, for the report of which client software triggered rebalances."""


class WhatIfRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a what-if request. Its fields are the options of ``kohort group what-if``."""

    add: int | None = None
    remove: list[str] = []
    kill: list[str] = []
    assignor: str | None = None
    partitions: dict[str, int] | list[str] = []
    rolling_restart: bool = False
    static: bool = False
    to_consumer: bool = False
    in_rate: float | None = None
    drain_rate: float | None = None
    compare: bool = False


class ClusterQueries:
    """Queries of the cluster. The argument ``clients`` may have only the rights of the logged-in user."""

    def __init__(self, source: ConsoleSource, pipelines: Sequence[Path] = (), *, full_rights: bool = True) -> None:
        """``full_rights``: False if ``source`` shows only groups and topics that one user may DESCRIBE."""
        self._source, self._pipelines, self._full_rights = source, pipelines, full_rights

    def describe(self, clients: WatchClients, group: str) -> GroupDescribed:
        """Return a description of a group, with the target assignment and epoch of each member."""
        with clients.admin() as admin:
            sample = sample_groups(admin, [group], SamplingLimits(append_times=0, timeout_ms=ADMIN_MS))
            if (error := sample.errors.get(group)) is not None:
                raise no_such_group(admin, group) if is_missing(error) else error
            about = sample.descriptions[group]
            return described(about, sample.groups[0], coordinators(admin).get(about.coordinator_id))

    def clients(self, clients: WatchClients | None, group: str) -> ConsoleClients:
        """Return client software, timeouts and pushed metrics of each member of a group."""
        found = self._source.groups(None).groups.get(group)
        if found is None:
            raise NothingThere(f"group {printable(group)!r} does not exist")
        entries = self._source.entries(group, None)
        reports, why_not = _reports(clients, BACK_MS)
        return client_rows(group, [member.member for member in found.members], entries, reports, why_not)

    def software(
        self, clients: WatchClients | None, since_ms: int | None, group: str | None, span: TimeSpan
    ) -> CausesSoftware:
        """Return the client software of the members that triggered rebalances.

        Looks it up in the journal, and then in client metrics that were pushed within the last hour.
        """
        found = span_of_causes(self._source, since_ms, group, span).every
        groups = {rebalance.group for rebalance in found if rebalance.trigger is not None}
        journal = {name: journaled_software(self._source.entries(name, span.end_ms)) for name in groups}
        needs_reports = any(lacks_software(rebalance, journal) for rebalance in found)
        reports, why_not = _reports(clients, CAUSES_BACK_MS) if needs_reports else ([], "")
        return software_of_triggers(found, journal, reports, why_not)

    def nodes(self, clients: WatchClients) -> ConsoleNodes:
        groups: dict[str, list[str]] = {}
        for name, found in sorted(self._source.groups(None).groups.items()):
            if found.coordinator_id is not None:
                groups.setdefault(str(found.coordinator_id), []).append(name)
        with clients.admin() as admin:
            return ConsoleNodes(nodes=node_rows(admin)[0], groups=groups)

    def peek(self, clients: WatchClients, group: str, place: TopicPartition, around: tuple[int, int]) -> GroupPeek:
        """Return records before and after a group's committed offset.

        ``around`` is a pair: the number of records before the offset, and the number from the offset on.
        """
        with clients.admin() as admin:
            ends = position_of(admin, group, place)
        before, after = (min(MOST_RECORDS, max(0, n)) for n in around)
        return peek(clients.consumer, group, place, ends, range(-before, after))

    def what_if(self, clients: WatchClients | None, group: str, request: WhatIfRequest) -> GroupWhatIf:
        """Predict the effect of a change on a group, without executing the change. Raises UsageError, NothingThere."""
        from kohort.insight.what_if.scenario import Assumptions
        from kohort.watch.sampling import racks_of

        options = _as_options(request)
        check_scenario(options)
        snapshots, racks = self._snapshots(group), {}
        if clients is not None:
            with clients.admin() as admin:
                racks = racks_of(admin, snapshots[-1].partition_counts, timeout_ms=ADMIN_MS)
        return predict(snapshots, racks, options, Assumptions(), compare=request.compare)

    def _snapshots(self, group: str) -> Sequence[GroupSnapshot]:
        from kohort.console.journal import snapshot_from_journal

        snapshots = self._source.snapshots(group)
        if snapshots:
            return snapshots
        now_ms = self._source.now_ms()
        past = snapshot_from_journal(group, self._source.entries(group, None), now_ms)
        if past is None:
            raise NothingThere(f"group {group!r} does not exist")
        return [past[0]]

    def pipelines(self) -> ConsolePipelines:
        return ConsolePipelines(pipelines=[self._visible(_pipeline_or_why(path)) for path in self._pipelines])

    def _visible(self, found: PipelineStatus) -> PipelineStatus:
        places = [(source.group, {name.rpartition("-")[0] for name in source.partitions}) for source in found.sources]
        if self._full_rights or (places and all(self._source.sees(group, topics) for group, topics in places)):
            return found
        return _without_state(found.name, "your user lacks DESCRIBE on a group or topic of its sources")


def _reports(clients: WatchClients | None, back_ms: int) -> tuple[list[ClientReport] | None, str]:
    if clients is None:
        return None, "a recording has no pushed client metrics"
    try:
        with clients.admin() as admin:
            return read_reports(clients.consumer, admin, back_ms), "this cluster stores no client metrics (KIP-714)"
    except KohortError as error:  # continue without client metrics: the journal names the software of some members
        return None, f"client metrics could not be read: {error}"


def _pipeline_or_why(path: Path) -> PipelineStatus:
    from kohort.spark.pipeline.parse import load_pipeline

    try:
        return pipeline_status(load_pipeline(path))
    except (KohortError, OSError) as error:
        return _without_state(path.name, str(error))


def _without_state(name: str, problem: str) -> PipelineStatus:
    return PipelineStatus(name=name, sources=[], last_run=None, running=None, batches=[], problem=problem)


def _as_options(request: WhatIfRequest) -> Mapping[str, Any]:
    options: dict[str, Any] = msgspec.structs.asdict(request)
    if isinstance(request.partitions, dict):
        options["partitions"] = [f"{topic}={count}" for topic, count in request.partitions.items()]
    return options


def _what_if(queries: ClusterQueries, query: ApiQuery, names: Sequence[str]) -> GroupWhatIf:
    return queries.what_if(query.clients_or_none(), names[0], query.parse_body(WhatIfRequest))


def _peek(queries: ClusterQueries, query: ApiQuery, names: Sequence[str]) -> GroupPeek:
    around = query.number("before", 3) or 0, query.number("after", 3) or 0
    return queries.peek(query.with_clients(), names[0], _partition(query, query.params.get("topic", "")), around)


def _partition(query: ApiQuery, topic: str) -> TopicPartition:
    number = query.number("partition")
    if not topic or number is None or number >= 2**31:
        raise UsageError("expected the query parameters topic and partition")
    return TopicPartition(topic, number)


CLUSTER_ROUTES: Final[tuple[Route[ClusterQueries], ...]] = (
    Route("groups/{}/describe", lambda c, q, names: c.describe(q.with_clients(), names[0])),
    Route("groups/{}/clients", lambda c, q, names: c.clients(q.clients_or_none(), names[0]), exported=True),
    Route("groups/{}/peek", _peek),
    Route("groups/{}/what-if", _what_if, "POST"),
    Route(
        "groups/{}/causes/software",
        lambda c, q, names: c.software(q.clients_or_none(), q.number("from"), names[0], q.span),
        exported=True,
    ),
    Route(
        "causes/software",
        lambda c, q, _: c.software(q.clients_or_none(), q.number("since"), q.group, q.span),
        exported=True,
    ),
    Route("nodes", lambda c, q, _: c.nodes(q.with_clients())),
    Route("pipelines", lambda c, _, __: c.pipelines()),
)
