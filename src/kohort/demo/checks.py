"""Checks of the demo, which succeeds if all checks pass."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from kohort.aio.consuming.consumer import Consumer
from kohort.demo.expected import Expected, Group, compare_delays
from kohort.model import TopicPartition
from kohort.spark.pipeline.running.run import RunReport


class OffsetRun(NamedTuple):
    member: str
    partition: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Deliveries:
    deliveries: int
    distinct: int
    missing: dict[int, list[tuple[int, int]]]
    by_member: dict[str, int]

    @property
    def again(self) -> int:
        return self.deliveries - self.distinct


def read_notes(paths: Iterable[Path]) -> list[OffsetRun]:
    runs = []
    for path in sorted(paths):
        for line in path.read_text().splitlines():
            try:
                note = json.loads(line)
            except ValueError:
                continue
            runs.append(OffsetRun(path.stem, note["partition"], note["first"], note["last"]))
    return runs


def count_deliveries(runs: Iterable[OffsetRun], ends: Mapping[int, int]) -> Deliveries:
    """Count the delivered offsets, and find missing ones; ``ends``: end of the log of each partition."""
    runs = list(runs)
    by_member: Counter[str] = Counter()
    for run in runs:
        by_member[run.member] += run.rows
    distinct = 0
    missing = {}
    for partition, end in ends.items():
        covered, gaps = _cover([r for r in runs if r.partition == partition], end)
        distinct += covered
        if gaps:
            missing[partition] = gaps
    return Deliveries(sum(r.rows for r in runs), distinct, missing, by_member)


def _cover(runs: list[OffsetRun], end: int) -> tuple[int, list[tuple[int, int]]]:
    gaps = []
    at = covered = 0
    for run in sorted(runs, key=lambda r: r.first):
        if run.first > at:
            gaps.append((at, run.first - 1))
        fresh_from = max(at, run.first)
        if run.last >= fresh_from:
            covered += run.last - fresh_from + 1
            at = run.last + 1
    if at < end:
        gaps.append((at, end - 1))
    return covered, gaps


REASON: Final = "kohort-error.reason"
_ORIGIN: Final = ("kohort-error.topic", "kohort-error.partition", "kohort-error.offset")


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    holds: bool
    found: str


def check_loaded(name: str, rows: int, acknowledged: int, log_rows: int) -> Check:
    found = f"{rows:,} rows in the file, {acknowledged:,} acknowledged, {log_rows:,} on the log"
    return Check(f"{name}: every row of the source file is on the topic, once", rows == acknowledged == log_rows, found)


def check_deliveries(seen: Deliveries, rows: int, group: str) -> Check:
    found = f"{seen.distinct:,} of {rows:,} flights delivered, {seen.again:,} of them again"
    if seen.missing:
        found += f"; missing: {seen.missing}"
    holds = seen.distinct == rows and not seen.missing
    return Check(f"{group}: every flight was delivered at least once, also those of the killed member", holds, found)


def check_lag(group: str, lag: Mapping[str, int]) -> Check:
    found = ", ".join(f"{topic} {n:,}" for topic, n in lag.items()) or "no offsets committed"
    return Check(f"{group}: lag 0", bool(lag) and not any(lag.values()), found)


def check_ledger(report: RunReport, expected: Expected) -> list[Check]:
    """Check that for each sink rows in = rows out + dead letters, and that these counts match the source files."""
    ledger = report.ledger
    aside = sum(ledger.quarantined.values()) + ledger.undecoded
    checks = []
    for sink, out in ledger.sinks.items():
        balanced = ledger.rows_in == out + aside and ledger.dead_letters == aside
        true_to_files = (ledger.rows_in, out) == (expected.rows_in, expected.rows_out)
        found = f"{ledger.rows_in:,} in = {out:,} out + {ledger.dead_letters:,} dead letters"
        found += "" if true_to_files else f"; expected {expected.rows_in:,} in, {expected.rows_out:,} out"
        holds = balanced and true_to_files and report.balanced
        checks.append(Check(f"sink {sink}: rows in = rows out + dead letters, as expected", holds, found))
    if report.problems or ledger.problems:
        checks.append(Check("the ledger is balanced", False, "; ".join([*report.problems, *ledger.problems])))
    weather = report.tables["weather"].rows
    found = f"{weather:,} of {expected.weather_rows:,} rows read"
    checks.append(Check("weather: every row was read", weather == expected.weather_rows, found))
    return checks


def check_dead_letters(bootstrap: str, topic: str, expected: Expected) -> Check:
    reasons, origins = read_dead_letters(bootstrap, topic)
    total = sum(reasons.values())
    holds = dict(reasons) == expected.dead_letters and len(origins) == total
    found = "; ".join(f"{n:,} {reason}" for reason, n in sorted(reasons.items(), key=lambda item: -item[1]))
    if not holds:
        found += f"; expected {expected.dead_letters}, found {len(origins):,} distinct rows"
    return Check(f"{topic}: dead letters and reasons match the source files", holds, found)


def read_dead_letters(bootstrap: str, topic: str) -> tuple[Counter[str], set[tuple[str, ...]]]:
    reasons: Counter[str] = Counter()
    origins = set()
    with Consumer(bootstrap_servers=bootstrap, client_id="demo-check", max_poll_records=5000) as consumer:
        partition = TopicPartition(topic, 0)
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while consumer.position(partition) < end:
            for record in consumer.poll(1000):
                headers = {name: (value or b"").decode() for name, value in record.headers}
                reasons[headers.get(REASON, "no reason")] += 1
                origins.add(tuple(headers.get(name, "") for name in _ORIGIN))
    return reasons, origins


def check_results(path: Path, expected: Expected) -> tuple[Check, dict[Group, dict[str, float]]]:
    found = read_results(path)
    problems = compare_delays(expected.delays, found)
    flights = sum(int(row["flights"]) for row in found.values())
    summary = "; ".join(problems[:3]) or f"{len(found)} groups, {flights:,} flights, equal to the source files"
    name = "results: delays by origin, hour and weather match the source files"
    return Check(name, not problems, summary), found


def read_results(path: Path) -> dict[Group, dict[str, float]]:
    import pyarrow.parquet as pq

    rows = pq.read_table(path).to_pylist()
    names = ("flights", "mean_dep_delay", "mean_arr_delay", "share_late")
    return {(r["origin"], r["hour"], r["weather"]): {n: r[n] for n in names} for r in rows}
