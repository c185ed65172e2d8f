"""Events that an observer infers from a simulated group's records, compared with the coordinator's journal."""

from __future__ import annotations

import pytest

from kohort.broker.group_journal import GroupJournal
from kohort.broker.offsets_topic import OffsetsTopic
from kohort.coordinator.journal import JournalEntry, MemberRemoved
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.observed.generations import seen_rebalances
from kohort.insight.observed.watching import ObservedGroups
from kohort_lab.sim.worlds.catalogue import WORLDS

SEEDS = range(12)


@pytest.fixture
def overheard(monkeypatch):
    """Return journal entries of the brokers, and of an observer of their records."""
    journaled: list[JournalEntry] = []
    observed: list[JournalEntry] = []
    watchers: list[ObservedGroups] = []
    write, append = GroupJournal.append, OffsetsTopic.append

    def written(journal, entries, now_ms, **how):
        journaled.extend(entries)
        return write(journal, entries, now_ms, **how)

    def appended(topic, partition, records, now_ms, producer=None):
        append(topic, partition, records, now_ms, producer)
        for key, value in records:
            observed.extend(watchers[-1].take(key, value, now_ms))

    monkeypatch.setattr(GroupJournal, "append", written)
    monkeypatch.setattr(OffsetsTopic, "append", appended)

    def run(world, seed):
        journaled.clear()
        observed.clear()
        watchers[:] = [ObservedGroups()]
        assert WORLDS[world].run_seed(seed).passed
        return list(journaled), list(observed)

    return run


def test_member_reported_as_left_has_left(overheard):
    sure = 0
    for seed in SEEDS:
        journaled, observed = overheard("group", seed)
        removed = {entry.member.member_id: entry.why for entry in journaled if isinstance(entry, MemberRemoved)}
        for rebalance in seen_rebalances(observed):
            for member, finding in zip(rebalance.missing, rebalance.departures, strict=True):
                if finding.confidence == "high":
                    assert (finding.cause, removed[member.member.member_id]) == ("MEMBER_LEFT", "left"), (seed, finding)
                    sure += 1
    assert sure >= 10


def test_observed_generations_are_the_persisted_ones(overheard):
    for seed in SEEDS[:4]:
        journaled, observed = overheard("group", seed)
        # An empty generation has no assignment, and a generation without the leader's SyncGroup is never persisted.
        theirs = {(one.group, one.generation) for one in find_rebalances(journaled) if one.generation is not None}
        ours = {(one.group, one.generation) for one in find_rebalances(observed) if one.generation is not None}
        assert ours <= theirs
        assert len(ours) >= len(theirs) // 2
