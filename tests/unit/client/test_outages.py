"""Log lines of an outage: at its start, each minute, and at its end."""

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


def note_texts(notes: Notes) -> list[str]:
    return [note.text for note in notes.take()]


def test_outage_is_logged_at_start_each_minute_and_at_end(notes: Notes, outages: Outages):
    for now_ms in range(0, 121_000, 100):
        outages.report("a", "no broker", now_ms)
    outages.recovered("a", "there it is", 121_000)

    assert list(notes.take()) == [
        warning("no broker; retrying"),
        warning("no broker; retrying for 60 s"),
        warning("no broker; retrying for 120 s"),
        info("there it is, after 121.0 s"),
    ]


def test_flapping_outage_is_logged_once_a_minute(notes: Notes, outages: Outages):
    for now_ms in range(0, 60_000, 1000):
        outages.report("a", "lost", now_ms)
        outages.recovered("a", "back", now_ms + 500)
    assert note_texts(notes) == ["lost; retrying", "back, after 0.5 s"]

    outages.report("a", "lost", 60_000)
    assert note_texts(notes) == ["lost; retrying"]


def test_transient_error_code_is_not_logged(notes: Notes, outages: Outages):
    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 0)
    outages.recovered("a", "well", TRANSIENT_MS - 1)
    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", TRANSIENT_MS)

    assert note_texts(notes) == []
    assert not outages or not notes

    outages.report_code("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 2 * TRANSIENT_MS)
    assert note_texts(notes) == ["fetching: NOT_LEADER_OR_FOLLOWER; retrying for 1 s"]


def test_non_transient_error_code_is_logged_at_once(notes: Notes, outages: Outages):
    outages.report_code("a", ErrorCode.KAFKA_STORAGE_ERROR, "fetching", 0)

    assert note_texts(notes) == ["fetching: KAFKA_STORAGE_ERROR; retrying"]


def test_repeated_outage_is_logged_again_only_if_it_was_forgotten(notes: Notes, outages: Outages):
    outages.report("a", "A", 0)
    outages.report("b", "B", 0)
    outages.forget("a")
    outages.recovered("a", "over", 1)
    outages.report("a", "A", 2)

    assert note_texts(notes) == ["A; retrying", "B; retrying", "A; retrying"]


def test_number_of_unread_log_lines_is_bounded(notes: Notes):
    for n in range(MAX_NOTES + 5):
        notes.warn(str(n))

    assert note_texts(notes)[0] == "5"
    assert not notes
