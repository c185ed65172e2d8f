"""Rebalance counters, from journal entries."""

from __future__ import annotations

import random
from collections.abc import Iterator
from io import StringIO

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

from kohort.coordinator.journal import (
    AssignmentWritten,
    ClientIdentity,
    GroupDeleted,
    JournalEntry,
    MemberArrived,
    MemberRemoved,
    Move,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    RoundSettled,
    Trigger,
)
from kohort.coordinator.journal_events import PartitionsResumed, ResumedPartition, held_bytes
from kohort.metrics.exposition import OPENMETRICS, render_page
from kohort.metrics.page import Page, label
from kohort.metrics.rebalance_counts import (
    END_OF_TIME,
    ENTRIES_MOST,
    ENTRIES_MOST_BYTES,
    GRACE_MS,
    HELD_MOST_BYTES,
    RESUME_MS,
    RebalanceCounts,
)
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember


def entries_of(stage: BrokerStage) -> list[JournalEntry]:
    return stage.broker.state.counters.take_entries()


def settled(counts: RebalanceCounts, entries: list[JournalEntry], now_ms: int = END_OF_TIME) -> Page:
    counts.add(entries)
    for _ in counts.settle(now_ms):
        pass
    page = Page()
    for _ in (*counts.add_to(page), *counts.add_durations(page)):
        pass
    return page


def rebalances(page: Page) -> dict[str, float]:
    rows = {family.name: rows for family, rows in page.families()}.get("kohort_group_rebalances_total", {})
    return {cause: value for (_, (_, cause, _)), value in rows.items()}


def watched(stage: BrokerStage) -> BrokerStage:
    stage.broker.state.counters.keeps_entries = True
    return stage


def first_member(stage: BrokerStage) -> RawMember:
    ann = RawMember(stage.connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": [0, 1]}})
    return ann


def test_rebalance_is_counted_one_time_after_the_grace_period(stage):
    counts = RebalanceCounts()
    ann = RawMember(watched(stage).connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    assert rebalances(settled(counts, entries_of(stage), stage.now_ms + GRACE_MS)) == {}, "the rebalance is in flight"

    stage.advance(0)
    ann.end_join()
    assert rebalances(settled(counts, entries_of(stage), stage.now_ms + GRACE_MS)) == {}, (
        "the member has no assignment yet"
    )
    ann.sync({ann.member_id: {"t": [0, 1]}})
    assert rebalances(settled(counts, entries_of(stage), stage.now_ms + GRACE_MS - 1)) == {}
    first = rebalances(settled(counts, [], stage.now_ms + GRACE_MS))
    assert sum(first.values()) == 1, "the rebalance is counted without a further journal entry"

    assert rebalances(settled(counts, [])) == first
    ann.heartbeat()
    assert rebalances(settled(counts, entries_of(stage))) == first


def test_expired_member_is_counted_as_rebalance_cause_and_as_eviction(stage):
    counts = RebalanceCounts()
    ann = first_member(watched(stage))
    before = rebalances(settled(counts, entries_of(stage)))
    stage.advance(ann.session_timeout_ms + 1)

    page = settled(counts, entries_of(stage))

    new = {cause for cause in rebalances(page) if cause not in before}
    assert len(new) == 1
    assert page.value("kohort_group_member_evictions_total", "g", "session_expired") == 1


def test_rejected_requests_are_counted_for_each_api_and_error(stage):
    counts = RebalanceCounts()
    ann = first_member(watched(stage))
    ann.generation = 99
    ann.heartbeat()

    page = settled(counts, entries_of(stage))

    assert page.value("kohort_group_fenced_members_total", "g", "Heartbeat", "ILLEGAL_GENERATION") == 1


def test_counted_phases_of_a_rebalance_add_up_to_its_duration(stage):
    counts = RebalanceCounts()
    first_member(watched(stage))

    page = settled(counts, entries_of(stage))

    name = "kohort_group_rebalance_duration_seconds"
    assert page.value(name, "g", "total", end="_count") == 1
    assert page.value(name, "g", "total", "+Inf", end="_bucket") == 1
    assert page.value(name, "g", "total", end="_sum") is not None


def test_deleted_group_has_no_rebalance_counters(stage):
    counts = RebalanceCounts()
    first_member(watched(stage))
    assert len(settled(counts, entries_of(stage))) > 0

    page = settled(counts, [GroupDeleted(at_ms=stage.now_ms, group="g", why="deleted")])

    assert len(page) == 0


A, B = ClientIdentity("a-1", "a", "/h"), ClientIdentity("b-1", "b", "/h")


def a_round(
    at_ms: int, number: int, *moves: Move, settled_ms: int | None = 30, departed: ClientIdentity | None = A
) -> list[JournalEntry]:
    trigger = Trigger(event="member_left" if departed else "member_rejoined", member=departed or A)
    entries: list[JournalEntry] = [
        RoundOpened(at_ms=at_ms, group="g", trigger=trigger, from_generation=number - 1, members=(B,), timeout_ms=1),
        MemberArrived(at_ms=at_ms, group="g", member=B, after_ms=0, new=False),
        RoundClosed(at_ms=at_ms + 10, group="g", generation=number, members=(B,), leader="b-1",
                    protocol_type="consumer", protocol="range", took_ms=10),
        AssignmentWritten(at_ms=at_ms + 20, group="g", generation=number, took_ms=10, partitions=None, moves=moves),
    ]  # fmt: skip
    if settled_ms is not None:
        took_ms = settled_ms - 20
        entries.append(RoundSettled(at_ms=at_ms + settled_ms, group="g", generation=number, last=B, took_ms=took_ms))
    return entries


def resumed(at_ms: int, number: int, *partitions: int) -> PartitionsResumed:
    resumed_partitions = tuple(ResumedPartition("t", partition, 0, 0, None) for partition in partitions)
    return PartitionsResumed(at_ms=at_ms, group="g", member=B, generation=number, partitions=resumed_partitions)


def test_late_assignment_and_first_fetches_are_counted_despite_earlier_scrapes():
    counts, duration = RebalanceCounts(), "kohort_group_rebalance_duration_seconds"
    opened, *_, last = a_round(0, 1, Move("t", 0, "a-1", "b-1"), settled_ms=2_000)
    settled(counts, [opened], 5)
    settled(counts, a_round(0, 1, Move("t", 0, "a-1", "b-1"), settled_ms=None)[1:], 1_000)
    page = settled(counts, [last], 2_000 + GRACE_MS)

    assert page.value(duration, "g", "sync", end="_sum") == pytest.approx(1.98)
    assert page.value(duration, "g", "total", end="_sum") == 2
    assert page.value(duration, "g", "resume", end="_count") is None
    assert page.value("kohort_group_partition_unowned_seconds_total", "g") == 0

    page = settled(counts, [resumed(9_000, 1, 0)], 2_000 + RESUME_MS)
    assert page.value(duration, "g", "resume", end="_sum") == 7
    assert page.value("kohort_group_partition_unowned_seconds_total", "g") == 9, (
        "unowned time begins with the rebalance"
    )
    assert page.value("kohort_group_partitions_moved_total", "g") == 1


@pytest.mark.parametrize("group", ["g", "grüße", "a b=c,"])
def test_openmetrics_exemplar_names_the_last_rebalance_of_each_cause_and_bucket(group):
    entries = [entry for number in range(1, 4) for entry in a_round(10_000 * number, number)]
    page = settled(RebalanceCounts(), [replace(entry, group=group) for entry in entries])

    text = render_page(page, OPENMETRICS)[0].decode()
    families = {one.name: one.samples for one in text_fd_to_metric_families(StringIO(text, newline="\n"))}
    (counted,) = [one for one in families["kohort_group_rebalances"] if one.name.endswith("_total")]
    assert (counted.value, float(counted.exemplar.timestamp)) == (3, 30)
    assert counted.exemplar.labels == {"rebalance": f"{label(group)}/3"}
    buckets = families["kohort_group_rebalance_duration_seconds"]
    named = {(one.labels["phase"], one.labels["le"]): one.exemplar.value for one in buckets if one.exemplar}
    assert named["total", "0.1"] == 0.03
    assert {bound for _, bound in named} == {"0.1"}, "only the bucket of the rebalance's duration"
    assert " # {" not in render_page(page)[0].decode(), "the Prometheus format has no exemplars"


@pytest.mark.parametrize("group", ["g" * 119, 'a"} 1\n', "\udcff", "a # {b} 1", "back\\slash"])
def test_long_or_unsafe_rebalance_id_gives_no_exemplar(group):
    entries = [replace(entry, group=group) for entry in a_round(0, 1)]
    text = render_page(settled(RebalanceCounts(), entries), OPENMETRICS)[0].decode()

    families = {one.name: one.samples for one in text_fd_to_metric_families(StringIO(text, newline="\n"))}
    assert [one.value for one in families["kohort_group_rebalances"]] == [1]
    assert not [one for samples in families.values() for one in samples if one.exemplar]


def test_failed_rebalances_of_one_generation_are_counted_separately():
    entries = []
    for at_ms in (0, 10_000, 20_000):
        entries += a_round(at_ms, 5)[:2]
        entries.append(RoundDropped(at_ms=at_ms + 5, group="g", error="disk", generation=4))

    assert sum(rebalances(settled(RebalanceCounts(), entries)).values()) == 3


def histories(seed: int) -> list[JournalEntry]:
    rng = random.Random(seed)
    entries: list[JournalEntry] = []
    at_ms, number = 0, 1
    for _ in range(40):
        length = rng.choice([25, 30, 3_000, None])
        one = a_round(at_ms, number, Move("t", 0, "a-1", "b-1"), settled_ms=length, departed=rng.choice([A, B, None]))
        cut = rng.choice([2, len(one), len(one), len(one)])
        entries += one[:cut]
        if cut > 2:
            number += 1
            entries += [resumed(at_ms + ms, number - 1, 0) for ms in (40, 7_000, 70_000) if rng.random() < 0.4]
            if rng.random() < 0.3:
                removed = MemberRemoved(
                    at_ms=at_ms + rng.choice([50, 9_000]), group="g", member=A, why="session_expired"
                )
                entries.append(removed)
        elif rng.random() < 0.5:
            entries.append(RoundDropped(at_ms=at_ms + 5, group="g", error="disk", generation=number - 1))
        at_ms += rng.choice([100, 4_000, 20_000, 400_000, 2_000_000])
    return sorted(entries, key=lambda entry: entry.at_ms)


def cuts(entries: list[JournalEntry], rng: random.Random) -> Iterator[tuple[list[JournalEntry], int]]:
    now_ms, end_ms = 0, entries[-1].at_ms
    while now_ms <= end_ms:
        before_ms, now_ms = now_ms, now_ms + rng.choice([1, 500, 15_000, 300_000])
        yield [entry for entry in entries if before_ms <= entry.at_ms < now_ms], now_ms - 1


def rows(page: Page) -> dict[str, dict[object, float]]:
    return {family.name: dict(rows) for family, rows in page.families()}


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(12))
def test_rebalance_counters_do_not_depend_on_scrape_times(seed):
    entries = histories(seed)
    at_once = settled(RebalanceCounts(), entries)

    rng = random.Random(seed)
    for _ in range(3):
        counts = RebalanceCounts()
        for read_entries, now_ms in cuts(entries, rng):
            settled(counts, read_entries, now_ms)
        looked = settled(counts, [])
        assert rows(looked) == rows(at_once)
    assert sum(rebalances(at_once).values()) > 20


@pytest.mark.heavy
def test_journal_entries_beyond_the_limit_are_dropped_after_their_rebalances_are_counted():
    entries = [entry for number in range(ENTRIES_MOST) for entry in a_round(1_000 * number, number + 1)]

    page = settled(RebalanceCounts(), entries)

    assert sum(rebalances(page).values()) == ENTRIES_MOST
    assert page.value("kohort_group_rebalance_duration_seconds", "g", "sync", end="_count") == ENTRIES_MOST


@pytest.mark.heavy
def test_kept_journal_entries_are_limited_in_bytes():
    counts = RebalanceCounts()
    many = tuple(ClientIdentity(f"m-{number}", "c" * 500) for number in range(1_000))
    for number in range(200):
        opened, *others = a_round(1_000 * number, number + 1)
        group = f"g{number % 40}"
        counts.add([replace(one, group=group) for one in (replace(opened, members=many), *others)])
        assert all(group.held_bytes <= ENTRIES_MOST_BYTES for group in counts._groups.values())
    size_bytes = sum(held_bytes(entry) for group in counts._groups.values() for entry in group.entries)
    assert size_bytes > HELD_MOST_BYTES, "settle has not yet dropped entries"

    page = settled(counts, [])

    size_bytes = sum(held_bytes(entry) for group in counts._groups.values() for entry in group.entries)
    assert size_bytes <= HELD_MOST_BYTES
    (counted,) = [rows for family, rows in page.families() if family.name == "kohort_group_rebalances_total"]
    assert sum(counted.values()) == 200


@pytest.mark.heavy
def test_permanent_rebalances_of_a_group_are_counted_in_limited_memory(stage):
    counts = RebalanceCounts()
    ann = first_member(watched(stage))
    entries = entries_of(stage)
    for _ in range(300):
        ben = RawMember(stage.connect(), "g", ["t"])
        ben.start_join()
        ben.wire.leave()
        stage.advance(ann.session_timeout_ms)
        entries += entries_of(stage)

    for at in range(0, len(entries), 50):
        page = settled(counts, entries[at : at + 50])

    assert sum(rebalances(page).values()) >= 1
    assert all(len(group.entries) <= ENTRIES_MOST for group in counts._groups.values())


@pytest.mark.heavy
def test_rebalances_settled_in_several_calls_give_the_same_counters_as_in_one(stage):
    ann = first_member(watched(stage))
    for _ in range(20):
        ann.leave()
        ann = RawMember(stage.connect(), "g", ["t"])
        ann.start_join()
        stage.advance(0)
        ann.end_join()
        ann.sync({ann.member_id: {"t": [0, 1]}})
        stage.advance(1_000)
    entries = entries_of(stage)
    in_pieces = RebalanceCounts()
    for entry in entries:
        page = settled(in_pieces, [entry])

    assert rebalances(page) == rebalances(settled(RebalanceCounts(), entries))
    assert sum(rebalances(page).values()) >= 21
