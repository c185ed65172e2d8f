"""Journal entries: JSON round trip, estimated size."""

from __future__ import annotations

import json

import pytest

from kohort.coordinator.journal import (
    KINDS,
    AssignmentWritten,
    AwaitedPartition,
    Change,
    ClientIdentity,
    EpochCause,
    GivenPartition,
    GroupUnloaded,
    MemberArrived,
    Move,
    RoundDropped,
    RoundOpened,
    RoundSettled,
    SeenMember,
    SignsOfLife,
    Trigger,
    Vitals,
    build_entry,
    parse_entry,
)
from kohort.coordinator.journal_events import MemberMetrics, OffsetMove, OptionsChanged, ResumedPartition, held_bytes

MEMBER = ClientIdentity("app-1", "app", "/127.0.0.1", "i-1")
OPENED = RoundOpened(
    at_ms=5,
    group="g",
    trigger=Trigger(
        event="session_expired",
        member=MEMBER,
        reason="über\nlong",
        vitals=Vitals(session_timeout_ms=1, rebalance_timeout_ms=2, last_seen_ms=0, connection_closed_at_ms=4),
        change=Change(was_leader=True, topics_added=("t",), partitions_changed={"t": (1, 2)}),
        others=(ClientIdentity("app-2"),),
    ),
    from_generation=0,
    members=(MEMBER,),
    timeout_ms=0,
)
WRITTEN = AssignmentWritten(
    at_ms=5,
    group="g",
    generation=2,
    took_ms=0,
    partitions={"app-1": {"t": (0, 1)}},
    moves=(Move("t", 0, None, "app-1"),),
)


@pytest.mark.parametrize("entry", [OPENED, WRITTEN, RoundDropped(at_ms=1, group="", error="X", generation=-1)])
def test_journal_entry_survives_a_json_round_trip(entry):
    assert parse_entry(build_entry(entry)) == entry


def test_journal_entry_json_omits_default_values():
    assert json.loads(build_entry(RoundDropped(at_ms=1, group="g", error="X", generation=3))) == {
        "schema": "kohort/journal/1",
        "kind": "round_dropped",
        "at_ms": 1,
        "group": "g",
        "error": "X",
        "generation": 3,
    }
    opened = RoundOpened(**{**_fields(OPENED), "trigger": Trigger(event="member_left")})
    assert "others" not in json.loads(build_entry(opened))["trigger"]


def _fields(entry):
    return {name: getattr(entry, name) for name in ("at_ms", "group", "from_generation", "members", "timeout_ms")}


PARTS = (ClientIdentity, Vitals, Change, Trigger, Move, SignsOfLife, EpochCause, GivenPartition, AwaitedPartition,
         SeenMember, OffsetMove, ResumedPartition, MemberMetrics)  # fmt: skip


@pytest.mark.parametrize("kind", [*KINDS, *PARTS])
def test_journal_entries_are_immutable(kind):
    assert kind.__struct_config__.frozen


def test_awaited_partitions_of_a_journal_entry_are_immutable():
    awaited = AwaitedPartition("t", 0, "m1")

    with pytest.raises(AttributeError):
        awaited.owner = "m2"


def test_journal_entry_parser_ignores_unknown_fields():
    assert parse_entry(json.dumps(json.loads(build_entry(WRITTEN)) | {"invented": 1}).encode()) == WRITTEN


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": "invented"},
        {"kind": "round_dropped"},
        {"kind": "round_dropped", "at_ms": "soon", "group": "g", "error": "X", "generation": 1},
        {"kind": "assignment_written", "at_ms": 1, "group": "g", "generation": 1, "took_ms": 1, "partitions": [1]},
    ],
)
def test_invalid_journal_entry_raises_value_error(data):
    with pytest.raises(ValueError, match="journal entry"):
        parse_entry(json.dumps(data).encode())


@pytest.mark.parametrize(
    "value", [b"[]", b"7", b"null", b"", b"\xff", b"[" * 200_000, b'{"kind":[]}', b'{"kind":"new"}']
)
def test_journal_entry_parser_rejects_invalid_json_and_unknown_kinds(value):
    with pytest.raises(ValueError, match=r"."):
        parse_entry(value)


MEMBER = ClientIdentity("m12", "app", "/h", "i")
ENTRIES = {
    "a name": (GroupUnloaded(at_ms=1, group="group", generation=2), 5),
    "a member": (RoundSettled(at_ms=1, group="g", generation=2, last=MEMBER, took_ms=1), 1 + 3 + 3 + 2 + 1),
    "a reason": (
        MemberArrived(at_ms=1, group="g", member=ClientIdentity("m"), after_ms=1, new=True, reason="because"),
        1 + 1 + 7,
    ),
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
def test_estimated_bytes_of_a_journal_entry_are_near_its_real_size(entry, more):
    assert held_bytes(entry) == 200 + more
