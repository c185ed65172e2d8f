"""What a client says while something keeps it from working: once, each minute, and when it is over."""

from __future__ import annotations

import pytest

from kohort.client.requests.troubles import MOST_NOTES, PASSING_MS, Notes, Troubles
from kohort.errors import ErrorCode
from kohort.notes import info, warning


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def troubles(notes: Notes) -> Troubles:
    return Troubles(notes)


def said(notes: Notes) -> list[str]:
    return [note.text for note in notes.take()]


def test_it_is_told_at_once_then_once_a_minute_and_when_it_is_over(notes: Notes, troubles: Troubles):
    for now_ms in range(0, 121_000, 100):
        troubles.report("a", "no broker", now_ms)
    troubles.mended("a", "there it is", 121_000)

    assert list(notes.take()) == [
        warning("no broker; it is tried again"),
        warning("no broker; it is tried again, for 60 s now"),
        warning("no broker; it is tried again, for 120 s now"),
        info("there it is, after 121.0 s"),
    ]


def test_what_comes_and_goes_is_told_once_a_minute(notes: Notes, troubles: Troubles):
    for now_ms in range(0, 60_000, 1000):
        troubles.report("a", "lost", now_ms)
        troubles.mended("a", "back", now_ms + 500)
    assert said(notes) == ["lost; it is tried again", "back, after 0.5 s"]

    troubles.report("a", "lost", 60_000)
    assert said(notes) == ["lost; it is tried again"]


def test_what_a_healthy_cluster_answers_for_a_moment_is_not_told(notes: Notes, troubles: Troubles):
    troubles.refused("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 0)
    troubles.mended("a", "well", PASSING_MS - 1)
    troubles.refused("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", PASSING_MS)

    assert said(notes) == []
    assert not troubles or not notes

    troubles.refused("a", ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetching", 2 * PASSING_MS)
    assert said(notes) == ["fetching: NOT_LEADER_OR_FOLLOWER; it is tried again, for 1 s now"]


def test_what_no_healthy_broker_answers_is_told_at_once(notes: Notes, troubles: Troubles):
    troubles.refused("a", ErrorCode.KAFKA_STORAGE_ERROR, "fetching", 0)

    assert said(notes) == ["fetching: KAFKA_STORAGE_ERROR; it is tried again"]


def test_two_things_are_told_by_themselves_and_what_is_forgotten_begins_anew(notes: Notes, troubles: Troubles):
    troubles.report("a", "A", 0)
    troubles.report("b", "B", 0)
    troubles.forget("a")
    troubles.mended("a", "over", 1)
    troubles.report("a", "A", 2)

    assert said(notes) == ["A; it is tried again", "B; it is tried again", "A; it is tried again"]


def test_notes_that_nobody_takes_do_not_pile_up(notes: Notes):
    for n in range(MOST_NOTES + 5):
        notes.warn(str(n))

    assert said(notes)[0] == "5"
    assert not notes
