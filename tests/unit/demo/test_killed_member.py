"""When the kill of a member was noticed, as the journal and the demo tell it."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import MemberRemoved, Who
from kohort.demo.group import Killed, removal_of


def gone(name: str, at_ms: int) -> MemberRemoved:
    return MemberRemoved(at_ms=at_ms, group="g", who=Who("id", name, "/127.0.0.1"), why="session_timeout")


def test_a_member_that_came_back_after_one_removal_is_noticed_by_the_next() -> None:
    entries = [gone("member-2", 100), gone("member-1", 200), gone("member-2", 300)]

    found = removal_of(list(entries), "member-2")

    assert found is not None
    assert found.at_ms == 300
    assert removal_of(list(entries), "member-3") is None


@pytest.mark.parametrize(
    ("noticed_ms", "told"),
    [
        (15_900, "was noticed 5.9 s after its SIGKILL"),
        (8_000, "was out of the group already, 2.0 s before its SIGKILL"),
    ],
)
def test_it_is_told_in_words(noticed_ms: int, told: str) -> None:
    assert Killed("member-2", 1, 10_000, noticed_ms).told == told
