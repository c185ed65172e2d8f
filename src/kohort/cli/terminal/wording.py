"""Texts for findings: lag and times as table cells, rebalances and patterns as sentences."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.show import print_prose, print_table, time_text
from kohort.insight.findings.model import name_of_member
from kohort.insight.names import count, seconds, short_id
from kohort.model import TopicPartition, by_topic
from kohort.verbs.describing import partitions_named

if TYPE_CHECKING:
    from kohort.insight.findings.groups import LastRebalance
    from kohort.insight.findings.model import MemberAssignmentFinding, MoveFinding, PatternFinding, RebalanceFinding

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def span_text(ms: int) -> str:
    if ms < HOUR_MS:
        return seconds(ms)
    days, rest = divmod(ms, DAY_MS)
    hours, rest = divmod(rest, HOUR_MS)
    return f"{days} d {hours} h" if days else f"{hours} h {rest // MINUTE_MS} min"


def lag_time_text(lag: int | None, lag_ms: int | None, *, complete: bool) -> str | None:
    if lag_ms is None or (lag and not lag_ms and not complete):
        return None
    if not lag_ms:
        return "0 s"
    return f"{'' if complete else '≥'}{span_text(lag_ms)}"


def eta_text(draining: str, eta_ms: int | None) -> str | None:
    """Return the time until the lag is 0 as text. The text is ``never`` if the lag grows."""
    if draining == "growing":
        return "never"
    if draining == "empty":
        return "0 s"
    return None if eta_ms is None else span_text(eta_ms)


def last_rebalance_text(last: LastRebalance | None) -> str | None:
    if last is None:
        return None
    now_ms = time.time_ns() // 1_000_000
    took = "" if last.took_ms is None else f", took {seconds(last.took_ms)}"
    return f"{span_text(max(now_ms - last.at_ms, 0))} ago: {last.cause}{took}"


def rate_text(per_s: float | None) -> str | None:
    return None if per_s is None else f"{per_s:.1f}/s"


MOVES_SHOWN: Final = 20
PATTERN_FACTS_SHOWN: Final = 6
LATE: Final = {
    "dead": "its connection had closed",
    "silent": "it sent nothing meanwhile",
    "not_polling": "it sent heartbeats, and did not poll",
    "slow_to_revoke": "it was still revoking its partitions",
    "broker_stalled": "the broker itself stalled",
}


def print_pattern(pattern: PatternFinding) -> None:
    when = f"{time_text(pattern.from_ms)} to {time_text(pattern.until_ms)}"
    print_prose(f"{pattern.pattern}: {pattern.sentence}  ({len(pattern.rebalances)} rebalances, {when})")
    for fact in pattern.evidence[:PATTERN_FACTS_SHOWN]:
        print_fact("EVIDENCE", f"{fact.kind}: {fact.value}")
    if len(pattern.evidence) > PATTERN_FACTS_SHOWN:
        print_fact("", f"and {len(pattern.evidence) - PATTERN_FACTS_SHOWN} more: --output json has them all")
    if pattern.advice is not None:
        print_fact("ADVICE", pattern.advice)


def print_rebalance(rebalance: RebalanceFinding) -> None:
    click.echo(f"{heading(rebalance)}  {time_text(rebalance.opened_at_ms)}  ({ago(rebalance.opened_at_ms)})")
    print_prose(rebalance.sentence)
    print_fact("CAUSE", f"{rebalance.cause}  (confidence: {rebalance.confidence})")
    if rebalance.also:
        print_fact("ALSO", ", ".join(rebalance.also))
    if rebalance.took_ms is not None:
        phases = " + ".join(f"{name} {seconds(ms)}" for name, ms in rebalance.phases_ms.items() if name != "resume")
        resume = rebalance.phases_ms.get("resume")
        then = f", then {seconds(resume)} until the first fetch from all moved partitions" if resume is not None else ""
        print_fact("TOOK", f"{seconds(rebalance.took_ms)} = {phases}{then}")
    if rebalance.blocker is not None and rebalance.blocker.because is not None:
        why = LATE.get(rebalance.blocker.because, rebalance.blocker.because)
        name = name_of_member(rebalance.blocker.member)
        print_fact("DELAYED", f"by {name} for {seconds(rebalance.blocker.waited_ms)}: {why}")
    for fact in rebalance.evidence:
        if not fact.kind.startswith("phase_"):
            when = f"  ({time_text(fact.at_ms)})" if fact.at_ms is not None else ""
            print_fact("EVIDENCE", f"{fact.kind}: {fact.value}{when}")
    if rebalance.advice is not None:
        print_fact("ADVICE", rebalance.advice)
    if rebalance.standing:
        print_fact("MEMBERS", "now" if rebalance.is_in_flight else "at the end of the rebalance")
        columns = ("MEMBER", "EPOCH", "HAS", "TARGET", "TO-REVOKE", "SINCE", "STILL-TO-GET")
        print_table(columns, [standing_row(rebalance, row) for row in rebalance.standing])
    if rebalance.moves:
        print_fact("MOVED", count(len(rebalance.moves), "partition"))
        print_table(*moves_table(rebalance))
        if len(rebalance.moves) > MOVES_SHOWN:
            click.echo(f"... and {len(rebalance.moves) - MOVES_SHOWN} more: --output json has them all")


def heading(rebalance: RebalanceFinding) -> str:
    if rebalance.end == "no_rebalance":
        return "no rebalance"
    word = "epoch" if rebalance.protocol == "consumer" else "generation"
    before, after = ("?" if n is None else str(n) for n in (rebalance.from_generation, rebalance.generation))
    second = f" (second round of {rebalance.parent})" if rebalance.parent is not None else ""
    return f"{word} {before} -> {after}{second}"


def print_fact(label: str, text: str, *, err: bool = False) -> None:
    print_prose(text, indent=" " * 12, first=f"  {label:<10}", err=err)


def ago(at_ms: int) -> str:
    passed = max(0, int(time.time()) - at_ms // 1000)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if passed >= size:
            return f"{passed // size} {unit} ago"
    return f"{passed} s ago"


def standing_row(rebalance: RebalanceFinding, row: MemberAssignmentFinding) -> tuple[object, ...]:
    """Return the table row of a consumer group's member in a rebalance.

    ``?`` stands for a value that the journal lacks.
    """
    names = names_of(rebalance)
    since = None if row.to_revoke_since_ms is None else ago(row.to_revoke_since_ms)
    has = spans(row.assignment) if row.known else f"{spans(row.assignment)}?"
    target = "?" if row.target is None else spans(row.target)
    missing = [
        name + (f" ({owner(names, row.awaited_from[name])})" if name in row.awaited_from else "")
        for name in row.still_to_get
    ]
    return name_of_member(row.member), row.epoch, has, target, spans(row.to_revoke), since, missing


def moves_table(rebalance: RebalanceFinding) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Return a table of the partitions that a rebalance moved: headings and rows.

    Columns without values are left out.
    """
    names = names_of(rebalance)
    shown = rebalance.moves[:MOVES_SHOWN]
    columns: dict[str, Sequence[object]] = {
        "PARTITION": [f"{move.topic}-{move.partition}" for move in shown],
        "FROM": [owner(names, move.before) for move in shown],
        "TO": [owner(names, move.after) for move in shown],
    }
    further: dict[str, Sequence[object]] = {
        "NO-OWNER-FOR": [gap_text(move) for move in shown],
        "LAG-BEFORE": [move.lag_before for move in shown],
        "LAG-AFTER": [move.lag_after for move in shown],
        "READ-AGAIN": [move.redelivered for move in shown],
    }
    columns |= {name: values for name, values in further.items() if any(value is not None for value in values)}
    return tuple(columns), list(zip(*columns.values(), strict=True))


def gap_text(move: MoveFinding) -> str | None:
    if move.unowned_ms is not None:
        return seconds(move.unowned_ms)
    return None if move.unowned_since_ms is None else f"since {ago(move.unowned_since_ms)}"


def names_of(rebalance: RebalanceFinding) -> dict[str, str]:
    members = (*rebalance.members_before, *rebalance.members, rebalance.trigger)
    return {who.member_id: name_of_member(who) for who in members if who is not None}


def owner(names: dict[str, str], member_id: str | None) -> str | None:
    return None if member_id is None else names.get(member_id) or short_id(member_id)


def spans(partitions: Iterable[str]) -> str:
    """Shorten partition names to ranges, such as ``t-0..3,5 u-1``."""
    grouped = by_topic(sorted(partitions_named(partitions)))
    return " ".join(f"{topic}-{_runs(numbers, '..')}" for topic, numbers in grouped.items())


def in_ranges(partitions: Iterable[TopicPartition]) -> str:
    """Shorten partitions to ranges, such as ``orders:0-3,7;payments:1``."""
    return ";".join(f"{topic}:{_runs(of, '-')}" for topic, of in by_topic(sorted(set(partitions))).items())


def _runs(numbers: list[int], to: str) -> str:
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    ends = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    return ",".join(f"{a}{to}{b}" if b > a else str(a) for a, b in zip(starts, ends, strict=True))
