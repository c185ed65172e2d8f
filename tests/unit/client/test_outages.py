"""What a client says while something keeps it from working: once, each minute, and when it is over."""

from __future__ import annotations

import pytest

from kohort.client.requests.outages import MAX_NOTES, TRANSIENT_MS, Notes, Outages
from kohort.errors import ErrorCode
from kohort.notes import info, warning


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def outages(notes: Notes) -> Outages:
    return Outages(notes)


def said(notes: Notes) -> list[str]:
    return [note.text for note in notes.take()]


def test_it_is_told_at_once_then_once_a_minute_and_when_it_is_over(notes: Notes, outages: Outages):
    for now_ms in range(0, 121_000, 100):
        outages.report("a", "no broker", now_ms)
    outages.recovered("a", "there it is", 121_000)

    assert list(notes.take()) == [
        warning("no broker; retrying"),
        warning("no broker; retrying for 60 s"),
        warning("no broker; retrying for 120 s"),
        info("there it is, after 121.0 s"),
    ]


def test_what_comes_and_goes_is_told_once_a_minute(notes: Notes, outages: Outages):
    for now_ms in range(0, 60_000, 1000):
        outages.report("a", "lost", now_ms)
        outages.recovered("a", "back", now_ms + 500)
    assert said(notes) == ["lost; retrying", "back, after 0.5 s"]

    outages.report("a", "lost", 60_000)
    assert said(notes) == ["lost; retrying"]


def test_what_a_healthy_cluster_answers_for_a_moment_is_not_told(notes: Notes, outages: Outages):
    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 0)
    outages.recovered("a", "well", TRANSIENT_MS - 1)
    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", TRANSIENT_MS)

    assert said(notes) == []
    assert not outages or not notes

    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 2 * TRANSIENT_MS)
    assert said(notes) == ["fetching: NOT_LEADER_OR_FOLLOWER; retrying for 1 s"]


def test_what_no_healthy_broker_answers_is_told_at_once(notes: Notes, outages: Outages):
    outages.report_code("a", ErrorCode.KAFKA_STORAGE_ERROR, "fetching", 0)

    assert said(notes) == ["fetching: KAFKA_STORAGE_ERROR; retrying"]


def test_two_things_are_told_by_themselves_and_what_is_forgotten_begins_anew(notes: Notes, outages: Outages):
    outages.report("a", "A", 0)
    outages.report("b", "B", 0)
    outages.forget("a")
    outages.recovered("a", "over", 1)
    outages.report("a", "A", 2)

    assert said(notes) == ["A; retrying", "B; retrying", "A; retrying"]


def test_notes_that_nobody_takes_do_not_pile_up(notes: Notes):
    for n in range(MAX_NOTES + 5):
        notes.warn(str(n))

    assert said(notes)[0] == "5"
    assert not notes
