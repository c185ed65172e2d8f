"""Rebalances counted by cause, from the entries of a journal as they come."""

from __future__ import annotations

from kohort.coordinator.journal import GroupDeleted, JournalEntry
from kohort.metrics.page import Page
from kohort.metrics.rebalance_counts import ENTRIES_MOST, RebalanceCounts
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember


def entries_of(stage: BrokerStage) -> list[JournalEntry]:
    return stage.broker.state.counters.take_entries()


def settled(counts: RebalanceCounts, entries: list[JournalEntry]) -> Page:
    counts.add(entries)
    for _ in counts.settle():
        pass
    page = Page()
    counts.add_to(page)
    counts.add_durations(page)
    return page


def rebalances(page: Page) -> dict[str, float]:
    rows = {known.name: rows for known, rows in page.families()}.get("kohort_group_rebalances_total", {})
    return {cause: value for (_, (_, cause, _)), value in rows.items()}


def watched(stage: BrokerStage) -> BrokerStage:
    stage.broker.state.counters.wants_entries = True
    return stage


def first_member(stage: BrokerStage) -> RawMember:
    ann = RawMember(stage.connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": [0, 1]}})
    return ann


def test_a_rebalance_is_counted_once_it_is_over_and_only_once(stage):
    counts = RebalanceCounts()
    ann = RawMember(watched(stage).connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    assert rebalances(settled(counts, entries_of(stage))) == {}, "it is under way"

    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": [0, 1]}})
    first = rebalances(settled(counts, entries_of(stage)))
    assert sum(first.values()) == 1

    assert rebalances(settled(counts, [])) == first
    ann.heartbeat()
    assert rebalances(settled(counts, entries_of(stage))) == first


def test_a_member_that_falls_silent_is_counted_with_its_cause_and_as_put_out(stage):
    counts = RebalanceCounts()
    ann = first_member(watched(stage))
    before = rebalances(settled(counts, entries_of(stage)))
    stage.advance(ann.session_timeout_ms + 1)

    page = settled(counts, entries_of(stage))

    new = {cause for cause in rebalances(page) if cause not in before}
    assert len(new) == 1
    assert page.value("kohort_group_member_evictions_total", "g", "session_expired") == 1


def test_members_that_are_out_of_date_are_counted_by_what_they_asked(stage):
    counts = RebalanceCounts()
    ann = first_member(watched(stage))
    ann.generation = 99
    ann.heartbeat()

    page = settled(counts, entries_of(stage))

    assert page.value("kohort_group_fenced_requests_total", "g", "Heartbeat", "ILLEGAL_GENERATION") == 1


def test_durations_add_up_by_phase(stage):
    counts = RebalanceCounts()
    first_member(watched(stage))

    page = settled(counts, entries_of(stage))

    name = "kohort_group_rebalance_duration_seconds"
    assert page.value(name, "g", "total", end="_count") == 1
    assert page.value(name, "g", "total", "+Inf", end="_bucket") == 1
    assert page.value(name, "g", "total", end="_sum") is not None


def test_a_group_that_is_deleted_leaves_no_series_behind(stage):
    counts = RebalanceCounts()
    first_member(watched(stage))
    assert len(settled(counts, entries_of(stage))) > 0

    page = settled(counts, [GroupDeleted(at_ms=stage.now_ms, group="g", why="deleted")])

    assert len(page) == 0


def test_a_group_that_never_settles_is_counted_and_does_not_fill_memory(stage):
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


def test_counting_in_pieces_gives_what_counting_at_once_gives(stage):
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
