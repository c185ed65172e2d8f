"""Removal of the killed member, in the journal and in the demo's output."""

from __future__ import annotations

import pytest

from kohort.coordinator.journal import ClientIdentity, MemberRemoved
from kohort.demo.group import KilledMember, removal_of


def removal(name: str, at_ms: int) -> MemberRemoved:
    return MemberRemoved(at_ms=at_ms, group="g", member=ClientIdentity("id", name, "/127.0.0.1"), why="session_timeout")


def test_last_removal_counts_for_a_member_that_rejoined() -> None:
    entries = [removal("member-2", 100), removal("member-1", 200), removal("member-2", 300)]

    found = removal_of(list(entries), "member-2")

    assert found is not None
    assert found.at_ms == 300
    assert removal_of(list(entries), "member-3") is None


@pytest.mark.parametrize(
    ("noticed_ms", "sentence"),
    [
        (15_900, "was removed from the group 5.9 s after its SIGKILL"),
        (8_000, "was removed from the group 2.0 s before its SIGKILL"),
    ],
)
def test_removal_is_described_with_its_delay(noticed_ms: int, sentence: str) -> None:
    assert KilledMember("member-2", 1, 10_000, noticed_ms).sentence == sentence
