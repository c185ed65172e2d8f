"""What is known of the clients of members: their software, their limits, their polls; and why the rest is not.

A group does not tell such things. Its journal has what members said when they joined, and the cluster's topic of client
metrics what their clients push, where they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

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
from kohort.results.console import ClientTold, ConsoleClients
from kohort.verbs.client_reports import software_of

if TYPE_CHECKING:
    from kohort.coordinator.member_said import MemberSaid
    from kohort.insight.findings.model import MemberRef
    from kohort.telemetry.report import ClientReport

LAST_POLL_S: Final = "org.apache.kafka.consumer.last.poll.seconds.ago"
LONGEST_POLL_GAP: Final = "org.apache.kafka.consumer.time.between.poll.max"
NO_PUSH: Final = "its client pushes no metrics (KIP-714): kohort client-metrics set asks for them"
NO_LIMITS: Final = "the journal does not have what it said when it joined"


class ClientLimits(NamedTuple):
    """What a member said that it may do."""

    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None


class ToldByJournal(NamedTuple):
    """What the journal has of members, by their ids; the last of each."""

    limits: dict[str, ClientLimits]
    said: dict[str, MemberSaid]
    software: dict[str, str]


def clients_told(
    group: str,
    members: Iterable[MemberRef],
    entries: Sequence[JournalEntry],
    reports: Sequence[ClientReport] | None,
    why_no_reports: str,
) -> ConsoleClients:
    """Return what is known of each member's client. ``reports`` is None where none can be had."""
    known = told_by_journal(entries)
    rows = [_client(group, member, known, reports, why_no_reports) for member in members]
    return ConsoleClients(group=group, clients=rows)


def told_by_journal(entries: Sequence[JournalEntry]) -> ToldByJournal:
    """Return what entries tell of members' limits, of what their clients had pushed, and which software they are."""
    found = ToldByJournal({}, {}, software_told(entries))
    for entry in entries:
        for member_id, limits, vitals in _told(entry):
            if limits is not None:
                found.limits[member_id] = limits
            if vitals is not None and vitals.said is not None:
                found.said[member_id] = vitals.said
    return found


def software_told(entries: Iterable[JournalEntry]) -> dict[str, str]:
    """Return which software members run, by their ids, as they said to the coordinator when they came (KIP-511)."""
    found = {}
    for entry in entries:
        about = entry.cause if isinstance(entry, EpochRaised) else entry
        if not isinstance(about, (MemberArrived, StaticReplaced, EpochCause)):
            continue
        if about.who is not None and about.software is not None:
            found[about.who.member_id] = about.software
    return found


def _told(entry: JournalEntry) -> Iterator[tuple[str, ClientLimits | None, Vitals | None]]:
    if isinstance(entry, GenerationSeen):
        for seen in entry.members:
            yield seen.who.member_id, ClientLimits(seen.session_timeout_ms, seen.rebalance_timeout_ms), None
        return
    about = (
        entry.trigger if isinstance(entry, RoundOpened) else entry.cause if isinstance(entry, EpochRaised) else entry
    )
    who, vitals = getattr(about, "who", None), getattr(about, "vitals", None)
    if who is None:
        return
    limits = None
    if isinstance(entry, MemberArrived) and entry.session_timeout_ms is not None:
        limits = ClientLimits(entry.session_timeout_ms, entry.rebalance_timeout_ms)
    elif vitals is not None:
        limits = ClientLimits(vitals.session_timeout_ms, vitals.rebalance_timeout_ms)
    yield who.member_id, limits, vitals


def _client(
    group: str, member: MemberRef, known: ToldByJournal, reports: Sequence[ClientReport] | None, why_no_reports: str
) -> ClientTold:
    from kohort.telemetry.report_reader import report_of_member

    report = report_of_member(reports or (), group, member.member_id, member.client_id, member.host)
    why = why_no_reports if reports is None else NO_PUSH
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
        "software": None if software is not None else (why if report is None else "its client did not name it"),
        "limits": None if limits is not None else NO_LIMITS,
        "polls": None if polled_ms is not None else (why if at_ms is None else "its library does not measure it"),
    }
    return ClientTold(
        member_id=member.member_id,
        software=software,
        session_timeout_ms=None if limits is None else limits.session_timeout_ms,
        rebalance_timeout_ms=None if limits is None else limits.rebalance_timeout_ms,
        last_poll_ms_ago=polled_ms,
        longest_poll_gap_ms=gap_ms,
        said_at_ms=at_ms,
        unknown={name: text for name, text in unknown.items() if text is not None},
    )
