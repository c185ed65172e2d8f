"""How much a journal entry is taken to hold, to the byte."""

import pytest

from kohort.coordinator.journal import AssignmentWritten, GroupUnloaded, MemberArrived, Move, RoundSettled, Who
from kohort.coordinator.journal_events import OptionsChanged, held_bytes

WHO = Who("m12", "app", "/h", "i")
ENTRIES = {
    "a name": (GroupUnloaded(at_ms=1, group="group", generation=2), 5),
    "a member": (RoundSettled(at_ms=1, group="g", generation=2, last=WHO, took_ms=1), 1 + 3 + 3 + 2 + 1),
    "a reason": (MemberArrived(at_ms=1, group="g", who=Who("m"), after_ms=1, new=True, reason="because"), 1 + 1 + 7),
    "partitions": (
        AssignmentWritten(at_ms=1, group="g", generation=2, took_ms=1, partitions={"m12": {"topic": (0, 1, 2)}}),
        1 + (100 + 3) + (100 + 5) + 3 * 8,
    ),
    "a topic without partitions": (
        AssignmentWritten(at_ms=1, group="g", generation=2, took_ms=1, partitions={"m12": {"topic": ()}}),
        1 + (100 + 3) + (100 + 5),
    ),
    "moves": (
        AssignmentWritten(
            at_ms=1,
            group="g",
            generation=2,
            took_ms=1,
            partitions=None,
            moves=(Move("t", 0, None, "m12"), Move("t", 1, "m1", "m12")),
        ),
        1 + (100 + 1 + 3) + (100 + 1 + 2 + 3),
    ),
    "options": (OptionsChanged(at_ms=1, group="g", options={"size": (None, 9)}), 1 + (100 + 4) + 2 * 100),
}


@pytest.mark.parametrize(("entry", "more"), ENTRIES.values(), ids=ENTRIES.keys())
def test_an_entry_holds_what_is_in_it_and_a_little(entry, more):
    assert held_bytes(entry) == 200 + more
