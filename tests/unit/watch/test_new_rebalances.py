"""What is new of a journal: each rebalance once, when it is over, and at no more cost than what it is told by."""

import pytest

from kohort.watch.background import NewRebalances
from support.machines.watched_stage import WatchedStage


class Journal:
    """Entries in memory, and how often somebody asked for them."""

    def __init__(self):
        self.kept, self.asked = [], 0

    def entries(self, group, *, last=None):
        self.asked += 1
        mine = [entry for entry in self.kept if entry.group == group]
        return mine if last is None else mine[-last:]


@pytest.fixture
def stage():
    return WatchedStage()


def news_of(stage, journal, news):
    """What is new of all that the watcher has seen since the last time."""
    new = stage.seen[len(journal.kept) :]
    journal.kept += new
    return [(this.generation, this.cause) for this in news.of(new)]


def test_each_finished_rebalance_is_reported_once(stage):
    journal = Journal()
    news = NewRebalances(journal)
    stage.come("m1")
    stage.advance(2_000)
    (first,) = news_of(stage, journal, news)
    assert first[1] == "GROUP_FORMING"
    stage.come("m2")
    stage.beat("m1", first[0])
    stage.advance(1_000)
    assert news_of(stage, journal, news) == [], "m1 has yet to give something up"
    stage.beat("m1", first[0], [("t", 0), ("t", 1)])
    stage.beat("m2", first[0] + 1)
    assert news_of(stage, journal, news) == [(first[0] + 1, "NEW_MEMBER")]
    assert news_of(stage, journal, news) == []


def test_rebalances_before_the_start_are_not_new(stage):
    journal = Journal()
    stage.come("m1")
    stage.advance(2_000)
    assert news_of(stage, journal, NewRebalances(journal)) != []
    again = NewRebalances(journal)
    stage.come("m2")

    assert news_of(stage, journal, again) == []


def test_journal_is_read_once_per_group(stage):
    journal = Journal()
    news = NewRebalances(journal)
    told = []
    for number in range(20):
        stage.come(f"m{number}")
        stage.advance(2_000)
        told += news_of(stage, journal, news)
        stage.beat(f"m{number}", -1)
        stage.advance(2_000)
        told += news_of(stage, journal, news)

    assert journal.asked == 1
    assert max(len(recent.entries) for recent in news._recent.values()) < len(journal.kept) / 3
    assert len(told) == len(set(told))
