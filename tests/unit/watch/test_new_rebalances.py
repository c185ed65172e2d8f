"""New rebalances in a journal. Each is reported once, when it ends; the journal is read once for each group."""

import pytest

from kohort.watch.background import NewRebalances
from support.machines.watched_stage import WatchedStage


class Journal:
    """Journal entries in memory. It counts how often they are read."""

    def __init__(self):
        self.kept, self.read_count = [], 0

    def entries(self, group, *, last=None):
        self.read_count += 1
        mine = [entry for entry in self.kept if entry.group == group]
        return mine if last is None else mine[-last:]


@pytest.fixture
def stage():
    return WatchedStage()


def new_rebalances(stage, journal, watch):
    new = stage.observed[len(journal.kept) :]
    journal.kept += new
    return [(this.generation, this.cause) for this in watch.of(new)]


def test_background_watch_reports_each_finished_rebalance_once(stage):
    journal = Journal()
    watch = NewRebalances(journal)
    stage.come("m1")
    stage.advance(2_000)
    (first,) = new_rebalances(stage, journal, watch)
    assert first[1] == "GROUP_FORMING"
    stage.come("m2")
    stage.beat("m1", first[0])
    stage.advance(1_000)
    assert new_rebalances(stage, journal, watch) == [], "m1 has not yet revoked its partitions"
    stage.beat("m1", first[0], [("t", 0), ("t", 1)])
    stage.beat("m2", first[0] + 1)
    assert new_rebalances(stage, journal, watch) == [(first[0] + 1, "NEW_MEMBER")]
    assert new_rebalances(stage, journal, watch) == []


def test_background_watch_does_not_report_rebalances_before_its_start(stage):
    journal = Journal()
    stage.come("m1")
    stage.advance(2_000)
    assert new_rebalances(stage, journal, NewRebalances(journal)) != []
    again = NewRebalances(journal)
    stage.come("m2")

    assert new_rebalances(stage, journal, again) == []


def test_background_watch_reads_the_journal_one_time_for_each_group(stage):
    journal = Journal()
    watch = NewRebalances(journal)
    rebalances = []
    for number in range(20):
        stage.come(f"m{number}")
        stage.advance(2_000)
        rebalances += new_rebalances(stage, journal, watch)
        stage.beat(f"m{number}", -1)
        stage.advance(2_000)
        rebalances += new_rebalances(stage, journal, watch)

    assert journal.read_count == 1
    assert max(len(recent.entries) for recent in watch._recent.values()) < len(journal.kept) / 3
    assert len(rebalances) == len(set(rebalances))
