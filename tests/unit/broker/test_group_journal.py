"""Delayed entries and retention of the group journal."""

import pytest

from kohort.broker.group_journal import WAITING_MOST, WAITING_MOST_BYTES, GroupJournal
from kohort.coordinator.journal import ClientIdentity, JournalEntry, RoundDropped
from kohort.coordinator.journal_events import (
    CommitUnfenced,
    JoinRejected,
    MemberDisconnected,
    OptionsChanged,
    PartitionsResumed,
)

TOPIC = "__kohort_journal"


@pytest.fixture
def journal(stage):
    return GroupJournal(stage.broker.state.cluster, lambda _group: None)


def quiet(number: int, name: str = "m") -> JournalEntry:
    entry = MemberDisconnected(at_ms=number, group="g", member=ClientIdentity(name), after_ms=1)
    assert entry.QUIET
    return entry


def written(stage) -> int:
    topic = stage.broker.state.topics.get(TOPIC)
    return topic.partitions[0].log_end_offset if topic else 0


def test_quiet_journal_entries_are_written_above_a_number_limit(stage, journal):
    for number in range(WAITING_MOST - 1):
        journal.append([quiet(number)], 1)
    assert written(stage) == 0

    journal.append([quiet(WAITING_MOST)], 1)

    assert written(stage) == WAITING_MOST


def test_quiet_journal_entry_is_written_with_the_next_rebalance_entry(stage, journal):
    who = ClientIdentity("m")
    beside = [
        JoinRejected(at_ms=1, group="g", member=who, members=2),
        quiet(1),
        CommitUnfenced(at_ms=1, group="g", member=who, offsets=()),
        OptionsChanged(at_ms=1, group="g", options={"consumer.session.timeout.ms": (None, 50_000)}),
        PartitionsResumed(at_ms=1, group="g", member=who, generation=1, partitions=()),
    ]
    for entry in beside:
        journal.append([entry], 1)
    assert written(stage) == 0

    journal.append([RoundDropped(at_ms=1, group="g", error="X", generation=1)], 1)

    assert written(stage) == len(beside) + 1


def test_quiet_journal_entries_are_written_above_a_size_limit(stage, journal):
    name = "x" * (WAITING_MOST_BYTES // 4)
    for number in range(3):
        journal.append([quiet(number, name)], 1)
    assert written(stage) == 0

    journal.append([quiet(4, name)], 1)
    journal.append([quiet(5)], 1)

    assert written(stage) == 4


def test_journal_topic_is_retained_for_a_week_and_up_to_a_gibibyte(stage, journal):
    config = journal.ensure(1).config

    assert (config.retention_ms, config.retention_bytes) == (7 * 86_400_000, 1 << 30)
    assert config.segment_bytes == 64 << 20, "retention deletes whole segments"
