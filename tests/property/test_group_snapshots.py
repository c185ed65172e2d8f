"""Lag and health for any sequence of snapshots of a group: no exception, no negative value."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kohort.insight.findings.doctor import examine
from kohort.insight.findings.groups import find_group
from kohort.insight.health import RebalanceTimes, health_of
from kohort.insight.lag import lag_of
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

OFFSETS = st.none() | st.integers(0, 12) | st.just((1 << 63) - 1)
TIMES = st.integers(-1, 200_000)
PLACES = st.builds(TopicPartition, st.sampled_from(["t", "u\x1b[2J"]), st.integers(0, 3))
PARTITIONS = st.builds(
    PartitionSnapshot,
    partition=PLACES,
    committed=OFFSETS,
    log_start=OFFSETS,
    log_end=OFFSETS,
    last_stable=OFFSETS,
    committed_record_at_ms=st.none() | TIMES,
    waiting=st.none() | st.booleans(),
    error=st.none() | st.just("gone\r"),
)
MEMBERS = st.builds(
    MemberSnapshot,
    member_id=st.sampled_from(["a", "b", "c"]),
    topics=st.lists(st.sampled_from(["t", "u\x1b[2J", "v"]), max_size=2).map(tuple),
    assignment=st.lists(PLACES, max_size=4).map(tuple),
    regex=st.none() | st.just("t.*"),
)
SNAPSHOTS = st.builds(
    GroupSnapshot,
    at_ms=TIMES,
    group=st.sampled_from(["g", "h"]),
    state=st.sampled_from(["Stable", "Empty", "PreparingRebalance", "Reconciling", "Dead", "", "\x1b[2J"]),
    protocol=st.sampled_from(["classic", "consumer"]),
    members=st.lists(MEMBERS, max_size=3).map(tuple),
    partitions=st.lists(PARTITIONS, max_size=5, unique_by=lambda p: p.partition).map(tuple),
    error=st.none() | st.just("not authorised\n"),
)


@given(st.lists(SNAPSHOTS, min_size=1, max_size=6), st.none() | TIMES, st.lists(TIMES, max_size=8).map(tuple))
def test_any_looks_in_any_order(snapshots, since_ms, rebalanced):
    lag = lag_of(snapshots, since_ms)
    report = health_of(lag, RebalanceTimes(opened_at_ms=rebalanced))

    sums = [lag.total, *lag.members.values()]
    numbers: list[Any] = [n for s in sums for n in (s.partitions, s.records, s.stable_records, s.time_ms, s.eta_ms)]
    for one in lag.partitions:
        numbers += [one.records, one.stable_records, one.time_ms, one.lead, one.lost, one.eta_ms, one.span_ms]
        numbers += [one.written_per_s, one.read_per_s]
        assert (one.records is None) == (one.unknown is not None)
    assert all(number is None or number >= 0 for number in numbers)
    assert len(report.partitions) == len(lag.partitions)
    finding = find_group(snapshots)
    shown = [finding.sentence, *(v.clause for v in [report.group, *report.partitions, *report.members.values()])]
    shown += [text for f in examine(finding) for text in (f.sentence, *(fact.value for fact in f.evidence))]
    assert all(text.isprintable() for text in shown)
    assert all(verdict.clause for verdict in [report.group, *report.partitions, *report.members.values()])
    assert all(v.evidence for v in [report.group, *report.partitions] if v.word not in ("OK", "ok"))


@given(st.lists(SNAPSHOTS, min_size=1, max_size=5, unique_by=lambda s: s.at_ms), st.randoms())
def test_order_of_snapshots_is_irrelevant(snapshots, random):
    shuffled = list(snapshots)
    random.shuffle(shuffled)

    assert lag_of(shuffled) == lag_of(snapshots)
