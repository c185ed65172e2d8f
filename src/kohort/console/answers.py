"""Answers of the console's API about groups, now or at a past time. The commands print the same results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.console.lag_history import MOST_OF_GROUP, MOST_TOPICS, TREND_MS, TREND_POINTS, LagPoint, thinned
from kohort.console.reachability import ClusterUnreachable, GroupUnknown
from kohort.console.routes import Route, TimeSpan
from kohort.console.sources import ConsoleSource
from kohort.insight.findings.doctor import ADVICE, SEVERITIES, DoctorFinding, examine
from kohort.insight.findings.events import find_events
from kohort.insight.findings.fenced import find_fenced, is_observed_only
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.findings.timeline import find_timeline
from kohort.insight.names import printable
from kohort.insight.patterns import find_patterns
from kohort.nearest import did_you_mean
from kohort.results.console import CauseBucket, CausesReport, ConsoleGroups, LagHistoryReport, Offender
from kohort.results.groups import DoctorReport, GroupEvents, GroupFenced, GroupRebalances, GroupStatus, GroupTimeline
from kohort.verbs.describing import row_of, unknown_row, worst_first
from kohort.verbs.explaining import explained
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.findings.groups import GroupFinding
    from kohort.insight.findings.model import RebalanceFinding

BUCKETS: Final = 48
DAY_MS: Final = 86_400_000
MOST_OFFENDERS: Final = 20
MOST_EVENTS: Final = 5_000
MOST_REBALANCES: Final = 500


class ConsoleAnswers:
    def __init__(self, source: ConsoleSource) -> None:
        self._source = source

    def groups(self, span: TimeSpan) -> ConsoleGroups:
        """Return all groups, the worst health first. During an outage of the cluster, return only the group names."""
        try:
            known = self._source.groups(span.at_ms)
        except ClusterUnreachable as lost:
            unknown = [unknown_row(group, lost.reason) for group in sorted(lost.groups)]
            return ConsoleGroups(at_ms=lost.outage.since_ms, groups=unknown, trends={}, unreachable=lost.outage)
        unknown = [unknown_row(group, why) for group, why in known.unknown.items()]
        rows = worst_first([*map(row_of, known.groups.values()), *unknown])
        trends = self.trends([row.group for row in rows], known.at_ms)
        return ConsoleGroups(at_ms=known.at_ms, groups=rows, trends=trends)

    def trends(self, groups: Iterable[str], at_ms: int) -> dict[str, list[int | None]]:
        found = {}
        for group in groups:
            points = _within(self._source.lag_points(group), at_ms - TREND_MS, at_ms)
            if points:
                found[group] = [point.lag for point in thinned(points, TREND_POINTS)]
        return found

    def status(self, group: str, span: TimeSpan) -> GroupStatus:
        return GroupStatus(status=self.finding(group, span.at_ms))

    def finding(self, group: str, at_ms: int | None = None) -> GroupFinding:
        """Return a group's health and lag. Raises NothingThere, GroupUnknown, ClusterUnreachable."""
        known = self._source.groups(at_ms)
        found = known.groups.get(group)
        if found is None:
            if group in known.unknown:
                raise GroupUnknown(f"the state of group {printable(group)!r} is unknown: {known.unknown[group]}")
            verb = "does not exist" if at_ms is None else "did not exist at that time"
            hint = did_you_mean(group, list(known.groups))
            raise NothingThere(f"group {printable(group)!r} {verb}{hint}")
        return found

    def timeline(self, group: str, span: TimeSpan) -> GroupTimeline:
        entries = self._entries(group, span)
        until_ms = self._end_ms(span, entries)
        from_ms = span.from_ms if span.from_ms is not None else entries[0].at_ms
        return GroupTimeline(timeline=find_timeline(entries, group=group, from_ms=from_ms, until_ms=until_ms))

    def rebalances(self, group: str, span: TimeSpan) -> GroupRebalances:
        entries = self._entries(group, span)
        found = find_rebalances(entries)
        from_ms = span.from_ms or 0
        recent = [one for one in found if one.opened_at_ms + (one.took_ms or 0) >= from_ms]
        shown = recent[-MOST_REBALANCES:]
        known = sum(one.end != "no_rebalance" for one in found)
        patterns = find_patterns(shown, self._end_ms(span, entries))
        return GroupRebalances(group=group, known=known, patterns=patterns, rebalances=shown)

    def events(self, group: str, span: TimeSpan, kinds: Sequence[str] = ()) -> GroupEvents:
        entries = [entry for entry in self._entries(group, span) if entry.at_ms >= (span.from_ms or 0)]
        found = [event for event in find_events(entries) if not kinds or event.kind in kinds]
        return GroupEvents(group=group, events=found[-MOST_EVENTS:])

    def fenced(self, group: str, span: TimeSpan) -> GroupFenced:
        entries = self._entries(group, span)
        found = [one for one in find_fenced(entries) if one.last_at_ms >= (span.from_ms or 0)]
        return GroupFenced(group=group, fenced=found, from_outside=is_observed_only(entries))

    def lag_history(self, group: str, span: TimeSpan) -> LagHistoryReport:
        kept = self._source.lag_points(group)
        if not kept:
            self.finding(group, span.at_ms)
        points = thinned(_within(kept, span.from_ms, span.end_ms), MOST_OF_GROUP)
        most: Counter[str] = Counter()
        for point in points:
            for topic, lag in point.topics.items():
                most[topic] = max(most[topic], lag or 0)
        topics = sorted(topic for topic, _ in most.most_common(MOST_TOPICS))
        return LagHistoryReport(
            group=group,
            times_ms=[point.at_ms for point in points],
            lag=[point.lag for point in points],
            lag_ms=[point.lag_ms for point in points],
            topics={topic: [point.topics.get(topic) for point in points] for topic in topics},
        )

    def doctor(self, group: str | None, span: TimeSpan) -> DoctorReport:
        known = self._source.groups(span.at_ms)
        groups = list(known.groups.values()) if group is None else [self.finding(group, span.at_ms)]
        unknown = known.unknown if group is None else {}
        found = [one for state in groups for one in examine(state, known.rebalances_of(state.group))]
        found += [_not_described(name, why) for name, why in unknown.items()]
        found.sort(key=lambda one: (SEVERITIES.index(one.severity), one.group))
        without_health = sum(state.health is None for state in groups)
        return DoctorReport(examined=len(groups), findings=found, unknown=without_health + len(unknown))

    def causes(self, since_ms: int | None, group: str | None, span: TimeSpan) -> CausesReport:
        """Count rebalances over time for each cause.

        Also returns the groups, topics, hosts and clients with most rebalances, and each group's share of stable time.
        """
        within = span_of_causes(self._source, since_ms, group, span)
        wide = max(1, within.end_ms - within.since_ms)
        return CausesReport(
            buckets=_buckets(within.every, within.since_ms, within.end_ms),
            offenders=_offenders(within.every),
            stable_share={
                name: round(1 - min(1.0, sum(rebalance.took_ms or 0 for rebalance in found) / wide), 6)
                for name, found in within.of_groups.items()
            },
        )

    def _entries(self, group: str, span: TimeSpan) -> Sequence[JournalEntry]:
        entries = self._source.entries(group, span.end_ms)
        if not entries:
            about = self._source.about().journal
            self.finding(group, span.at_ms)
            why = f": {about.why_not}" if about.kind is None and about.why_not else ""
            raise NothingThere(f"the journal has no entry of group {printable(group)!r} in this time span{why}")
        return entries

    def _end_ms(self, span: TimeSpan, entries: Sequence[JournalEntry]) -> int:
        return span.end_ms if span.end_ms is not None else max(self._source.known_until_ms(), entries[-1].at_ms)


class SpanOfCauses(NamedTuple):
    since_ms: int
    end_ms: int
    of_groups: Mapping[str, Sequence[RebalanceFinding]]

    @property
    def every(self) -> list[RebalanceFinding]:
        return [rebalance for found in self.of_groups.values() for rebalance in found]


def span_of_causes(source: ConsoleSource, since_ms: int | None, group: str | None, span: TimeSpan) -> SpanOfCauses:
    """Return a time span and its rebalances, of one group or (``group`` is None) of all groups.

    Without ``since_ms``, the span begins a day before its end, or later if the journal begins later.
    """
    end_ms = span.end_ms if span.end_ms is not None else source.known_until_ms()
    covered = source.about().journal.since_ms
    if since_ms is None:
        since_ms = max(end_ms - DAY_MS, covered or 0)
    found = source.all_rebalances(since_ms, span.end_ms)
    return SpanOfCauses(since_ms, end_ms, {name: _real(of) for name, of in found.items() if group in (None, name)})


def _not_described(group: str, why: str) -> DoctorFinding:
    return DoctorFinding(
        rule="lag-unknown",
        severity="warning",
        group=group,
        sentence=f"its state is unknown: {printable(why)}",
        advice=ADVICE["lag-unknown"],
        confidence="high",
    )


def _within(points: Sequence[LagPoint], from_ms: int | None, until_ms: int | None) -> list[LagPoint]:
    first, last = from_ms or 0, until_ms
    return [point for point in points if point.at_ms >= first and (last is None or point.at_ms <= last)]


def _real(found: Iterable[RebalanceFinding]) -> list[RebalanceFinding]:
    """Return only actual rebalances. A rebalance of several rounds is returned once."""
    return [one for one in found if one.end != "no_rebalance" and one.parent is None]


def _buckets(found: Iterable[RebalanceFinding], from_ms: int, until_ms: int) -> list[CauseBucket]:
    wide = max(1, -(-(until_ms - from_ms) // BUCKETS))
    counts: Mapping[int, Counter[str]] = defaultdict(Counter)
    for rebalance in found:
        counts[min(BUCKETS - 1, max(0, rebalance.opened_at_ms - from_ms) // wide)][rebalance.cause] += 1
    return [
        CauseBucket(from_ms=from_ms + n * wide, until_ms=from_ms + (n + 1) * wide, by_cause=dict(counts[n]))
        for n in range(BUCKETS)
    ]


def _offenders(found: Iterable[RebalanceFinding]) -> list[Offender]:
    causes: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for rebalance in found:
        names = {("group", rebalance.group), *(("topic", move.topic) for move in rebalance.moves)}
        if rebalance.trigger is not None:
            names |= {("host", rebalance.trigger.host), ("client", rebalance.trigger.client_id)}
        for name in names:
            if name[1]:
                causes[name][rebalance.cause] += 1
    worst = sorted(causes, key=lambda name: (-causes[name].total(), name))[:MOST_OFFENDERS]
    return [
        Offender(
            kind=kind,  # type: ignore[arg-type]  # one of the four above
            name=name,
            rebalances=causes[kind, name].total(),
            cause=causes[kind, name].most_common(1)[0][0],
        )
        for kind, name in worst
    ]


ANSWERS: Final[tuple[Route[ConsoleAnswers], ...]] = (
    Route("groups", lambda a, q, _: a.groups(q.span)),
    Route("groups/", lambda a, q, _: a.groups(q.span)),
    Route("groups/{}", lambda a, q, names: a.status(names[0], q.span), exported=True),
    Route("groups/{}/timeline", lambda a, q, names: a.timeline(names[0], q.span), exported=True),
    Route("groups/{}/rebalances", lambda a, q, names: a.rebalances(names[0], q.span), exported=True),
    Route("groups/{}/events", lambda a, q, names: a.events(names[0], q.span, q.names("kinds")), exported=True),
    Route("groups/{}/fenced", lambda a, q, names: a.fenced(names[0], q.span), exported=True),
    Route("groups/{}/lag-history", lambda a, q, names: a.lag_history(names[0], q.span), exported=True),
    Route("groups/{}/causes", lambda a, q, names: a.causes(q.number("from"), names[0], q.span), exported=True),
    Route("doctor", lambda a, q, _: a.doctor(q.group, q.span), exported=True),
    Route("causes", lambda a, q, _: a.causes(q.number("since"), q.group, q.span), exported=True),
    Route("explain/{}", lambda _, __, names: explained(names[0])),
)
