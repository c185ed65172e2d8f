"""Metrics that clients pushed (KIP-714), and software, timeouts and polls of group members."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kohort.coordinator.journal import (
    EpochCause,
    EpochRaised,
    GenerationSeen,
    JournalEntry,
    MemberArrived,
    RoundOpened,
    StaticReplaced,
    Vitals,
)
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.model import TopicPartition
from kohort.results.console import CausesSoftware, ClientRow, ConsoleClients, SoftwareOffender
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.coordinator.journal_events import MemberMetrics
    from kohort.insight.findings.model import MemberRef, RebalanceFinding
    from kohort.telemetry.report import ClientReport

POLL_MS: Final = 200
READ_S: Final = 10.0
BACK_MS: Final = 900_000
"""Maximum age of the client metrics that are shown for group members, in ms."""


def read_reports(
    consumer_with: Callable[[Mapping[str, Any]], Consumer], admin: Admin, back_ms: int
) -> list[ClientReport] | None:
    """Return the last metrics report of each client within the last ``back_ms``, newest first.

    Returns None if the cluster has no topic with client metrics. Raises ApiError, ApiTimeout.
    """
    from kohort.telemetry.report import REPORT_OPTIONS, TOPIC, ReportReader

    described = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
    error = described.errors.get(TOPIC)
    if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    partitions = [TopicPartition(TOPIC, p.partition) for p in described[TOPIC].partitions]
    reader = ReportReader()
    since_ms = time.time_ns() // 1_000_000 - back_ms
    deadline = time.monotonic() + READ_S
    with consumer_with(REPORT_OPTIONS) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        for tp, at in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
            consumer.seek(tp, ends[tp] if at is None else at.offset)
        while any(consumer.position(tp, timeout_ms=ADMIN_MS) < ends[tp] for tp in partitions):
            if time.monotonic() > deadline:
                raise ApiTimeout(f"cannot read the client metrics within {READ_S:.0f} s: request a shorter time span")
            for record in consumer.poll(POLL_MS):
                reader.add(record.value)
    return sorted(reader.by_instance.values(), key=lambda report: -report.at_ms)


def software_of(report: ClientReport) -> str | None:
    return " ".join(part for part in (report.software_name, report.software_version) if part) or None


LAST_POLL_S: Final = "org.apache.kafka.consumer.last.poll.seconds.ago"
LONGEST_POLL_GAP: Final = "org.apache.kafka.consumer.time.between.poll.max"
PUSHES_NOTHING: Final = "its client pushes no metrics (KIP-714): request them with kohort client-metrics set"
NO_LIMITS: Final = "the journal has no join of this member"


class ClientLimits(NamedTuple):
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None


class JournaledClients(NamedTuple):
    """Limits, metrics and software of each member's client in the journal. The keys are member ids."""

    limits: dict[str, ClientLimits]
    said: dict[str, MemberMetrics]
    software: dict[str, str]


def client_rows(
    group: str,
    members: Iterable[MemberRef],
    entries: Sequence[JournalEntry],
    reports: Sequence[ClientReport] | None,
    why_no_reports: str,
) -> ConsoleClients:
    """Describe the client of each member. ``reports`` is None if the cluster stores no client metrics."""
    known = journaled_clients(entries)
    rows = [_client(group, member, known, reports, why_no_reports) for member in members]
    return ConsoleClients(group=group, clients=rows)


def journaled_clients(entries: Sequence[JournalEntry]) -> JournaledClients:
    found = JournaledClients({}, {}, journaled_software(entries))
    for entry in entries:
        for member_id, limits, vitals in _journaled(entry):
            if limits is not None:
                found.limits[member_id] = limits
            if vitals is not None and vitals.client_metrics is not None:
                found.said[member_id] = vitals.client_metrics
    return found


def journaled_software(entries: Iterable[JournalEntry]) -> dict[str, str]:
    """Return the client software (KIP-511) of each member in the journal. The keys are member ids."""
    found = {}
    for entry in entries:
        about = entry.cause if isinstance(entry, EpochRaised) else entry
        if not isinstance(about, (MemberArrived, StaticReplaced, EpochCause)):
            continue
        if about.member is not None and about.software is not None:
            found[about.member.member_id] = about.software
    return found


def _journaled(entry: JournalEntry) -> Iterator[tuple[str, ClientLimits | None, Vitals | None]]:
    if isinstance(entry, GenerationSeen):
        for seen in entry.members:
            yield seen.member.member_id, ClientLimits(seen.session_timeout_ms, seen.rebalance_timeout_ms), None
        return
    about = (
        entry.trigger if isinstance(entry, RoundOpened) else entry.cause if isinstance(entry, EpochRaised) else entry
    )
    member, vitals = getattr(about, "member", None), getattr(about, "vitals", None)
    if member is None:
        return
    limits = None
    if isinstance(entry, MemberArrived) and entry.session_timeout_ms is not None:
        limits = ClientLimits(entry.session_timeout_ms, entry.rebalance_timeout_ms)
    elif vitals is not None:
        limits = ClientLimits(vitals.session_timeout_ms, vitals.rebalance_timeout_ms)
    yield member.member_id, limits, vitals


def _client(
    group: str, member: MemberRef, known: JournaledClients, reports: Sequence[ClientReport] | None, why_no_reports: str
) -> ClientRow:
    from kohort.telemetry.report import report_of_member

    report = report_of_member(reports or (), group, member.member_id, member.client_id, member.host)
    why = why_no_reports if reports is None else PUSHES_NOTHING
    said = known.said.get(member.member_id)
    limits = known.limits.get(member.member_id)
    software = known.software.get(member.member_id) or (None if report is None else software_of(report))
    polled_ms, gap_ms, at_ms = (
        (said.last_poll_ms_ago, said.longest_poll_gap_ms, said.at_ms) if said is not None else (None, None, None)
    )
    if report is not None:
        last_s, longest, at_ms = report.value(LAST_POLL_S), report.value(LONGEST_POLL_GAP), report.at_ms
        polled_ms, gap_ms = None if last_s is None else int(last_s * 1000), None if longest is None else int(longest)
    unknown = {
        "software": None if software is not None else (why if report is None else "the client did not name it"),
        "limits": None if limits is not None else NO_LIMITS,
        "polls": None if polled_ms is not None else (why if at_ms is None else "the client library reports no polls"),
    }
    return ClientRow(
        member_id=member.member_id,
        software=software,
        session_timeout_ms=None if limits is None else limits.session_timeout_ms,
        rebalance_timeout_ms=None if limits is None else limits.rebalance_timeout_ms,
        last_poll_ms_ago=polled_ms,
        longest_poll_gap_ms=gap_ms,
        said_at_ms=at_ms,
        unknown={name: text for name, text in unknown.items() if text is not None},
    )


MOST: Final = 20
NO_TRIGGER: Final = "no single member triggered the rebalance"
NO_PUSH: Final = (
    "its client pushed no metrics within the last hour (KIP-714): request them with kohort client-metrics set"
)
NOT_JOURNALED: Final = f"the journal does not have it, and {NO_PUSH}"
NOT_NAMED: Final = "its client did not name its software"


def software_of_triggers(
    rebalances: Iterable[RebalanceFinding],
    journal: Mapping[str, Mapping[str, str]],
    reports: Sequence[ClientReport] | None,
    why_no_reports: str,
) -> CausesSoftware:
    """Count for each client software the rebalances that its members triggered.

    The journal or client metrics name the software. ``reports`` is None if the cluster stores no client metrics.
    """
    causes: Mapping[str, Counter[str]] = defaultdict(Counter)
    unknown: Counter[str] = Counter()
    by_group: Mapping[str | None, list[ClientReport]] = defaultdict(list)
    for report in reports or ():
        by_group[report.group].append(report)
    for rebalance in rebalances:
        of_group = None if reports is None else by_group.get(rebalance.group, [])
        software, why = _software_in_journal(rebalance, journal), ""
        if software is None:
            software, why = _pushed(rebalance, of_group, why_no_reports)
        if software is None:
            unknown[why] += 1
        else:
            causes[software][rebalance.cause] += 1
    worst = sorted(causes, key=lambda software: (-causes[software].total(), software))[:MOST]
    return CausesSoftware(
        software=[
            SoftwareOffender(
                software=software, rebalances=causes[software].total(), cause=causes[software].most_common(1)[0][0]
            )
            for software in worst
        ],
        unknown=dict(unknown.most_common()),
    )


def lacks_software(rebalance: RebalanceFinding, journal: Mapping[str, Mapping[str, str]]) -> bool:
    return rebalance.trigger is not None and _software_in_journal(rebalance, journal) is None


def _software_in_journal(rebalance: RebalanceFinding, journal: Mapping[str, Mapping[str, str]]) -> str | None:
    return None if rebalance.trigger is None else journal.get(rebalance.group, {}).get(rebalance.trigger.member_id)


def _pushed(
    rebalance: RebalanceFinding, reports: Sequence[ClientReport] | None, why_no_reports: str
) -> tuple[str | None, str]:
    from kohort.telemetry.report import report_of_member

    member = rebalance.trigger
    if member is None:
        return None, NO_TRIGGER
    if reports is None:
        return None, why_no_reports
    report = report_of_member(reports, rebalance.group, member.member_id, member.client_id, member.host)
    if report is None:
        return None, NO_PUSH if rebalance.origin == "inferred" else NOT_JOURNALED
    return software_of(report), NOT_NAMED
