from __future__ import annotations

import pytest

from kohort.cli.group.timeline import LANES_SHOWN, draw_timeline
from kohort.insight.findings.model import MemberRef
from kohort.insight.findings.timeline import (
    AssignmentSpanFinding,
    ColumnFinding,
    LaneFinding,
    MarkFinding,
    SilenceFinding,
    TimelineFinding,
)

MINUTE = 60_000


def member(name, **options):
    return MemberRef(member_id=name, client_id=name, **options)


def names(*numbers, topic="orders"):
    return tuple(f"{topic}-{n}" for n in numbers)


def spell(from_min, until_min, *numbers, topic="orders"):
    until_ms = None if until_min is None else until_min * MINUTE
    return AssignmentSpanFinding(from_ms=from_min * MINUTE, until_ms=until_ms, partitions=names(*numbers, topic=topic))


def column(generation, from_min, until_min, cause=None, **about):
    until_ms = None if until_min is None else until_min * MINUTE
    return ColumnFinding(
        from_ms=from_min * MINUTE,
        until_ms=until_ms,
        generation=generation,
        cause=cause,
        **about,
    )


@pytest.fixture
def orders():
    columns = (
        column(41, 0, 10),
        column(42, 10, 20, "NEW_MEMBER", trigger=member("c-3"), took_ms=400),
        column(43, 20, None, "MAX_POLL_EXCEEDED", trigger=member("c-2"), took_ms=8_200),
    )
    lanes = (
        LaneFinding(member=member("c-1"), assignments=(spell(0, 20, 0, 1, 2), spell(20, None, 0, 1, 2, 3))),
        LaneFinding(
            member=member("c-2"),
            assignments=(spell(0, 10, 3, 4, 5, 6), spell(10, 20, 3, 4, 5)),
            marks=(
                MarkFinding(at_ms=20 * MINUTE, kind="removed", text="left"),
                MarkFinding(at_ms=21 * MINUTE, kind="fenced", text="OffsetCommit: UNKNOWN_MEMBER_ID"),
            ),
        ),
        LaneFinding(member=member("c-3"), assignments=(spell(10, 20, 6, 7, 8), spell(20, None, 4, 5, 6, 7, 8))),
    )
    return TimelineFinding(group="orders", from_ms=0, until_ms=30 * MINUTE, columns=columns, lanes=lanes)


def test_timeline_has_lane_per_member_and_column_per_generation(orders):
    assert draw_timeline(orders, by="member", width=80) == [
        "    gen 41  00:00:00┊ gen 42  00:10:00┊ gen 43  00:20:00",
        "c-1 0-2 ────────────┊ 0-2 ────────────┊ 0-2 +3 ─────────",
        "c-2 3-6 ────────────┊ 3-5 ────────────┊  ✕⚑",
        "c-3                 ┊ +6-8 ───────────┊ 6-8 +4-5 ───────",
        "▼ gen 42  00:10:00  NEW_MEMBER c-3  0.4 s",
        "▼ gen 43  00:20:00  MAX_POLL_EXCEEDED c-2  8.2 s",
    ]


def test_timeline_of_partitions_shows_owning_members(orders):
    lines = draw_timeline(orders, by="partition", width=80)

    assert [line.split("┊")[0].split()[:2] for line in lines[1:10]] == [
        [f"orders-{n}", owner] for n, owner in enumerate(["c-1"] * 3 + ["c-2"] * 4 + ["·"] * 2)
    ]
    assert lines[4] == "orders-3 c-2 ────────────┊ c-2 ────────────┊ c-1 ────────────"


@pytest.mark.parametrize("width", [24, 40, 57, 80, 200])
def test_timeline_wraps_to_terminal_width(orders, width):
    lines = draw_timeline(orders, by="member", width=width)

    assert max(map(len, lines)) <= width
    blocks = "\n".join(lines).split("\n\n")
    assert sum(block.split("\n")[0].count("gen ") for block in blocks) == 3
    for number in ("gen 41", "gen 42", "gen 43"):
        assert any(number in block.split("\n")[0] for block in blocks)


def test_timeline_without_unicode_is_ascii(orders):
    lines = draw_timeline(orders, by="member", width=80, plain=True)

    assert all(line.isascii() for line in lines)
    assert lines[2] == "c-2 3-6 ------------| 3-5 ------------|  x!"


def silence(from_min, until_min):
    until_ms = None if until_min is None else until_min * MINUTE
    return SilenceFinding(from_ms=from_min * MINUTE, until_ms=until_ms, text="no sign of life")


def test_timeline_breaks_line_of_silent_member():
    died = LaneFinding(member=member("died"), assignments=(spell(0, 20, 0),), silences=(silence(5, 20),))
    away = LaneFinding(member=member("away"), assignments=(spell(0, None, 1),), silences=(silence(25, None),))
    stalled = LaneFinding(member=member("slow"), assignments=(spell(0, None, 2),), silences=(silence(12, 12.01),))
    columns = (column(1, 0, 10), column(2, 10, 20), column(3, 20, None, "SESSION_EXPIRED", trigger=member("died")))
    found = TimelineFinding(group="g", from_ms=0, until_ms=30 * MINUTE, columns=columns, lanes=(died, away, stalled))

    lines = draw_timeline(found, by="member", width=80)

    assert lines[1:4] == [
        "died 0 ──────╌╌╌╌╌╌╌┊ 0 ╌╌╌╌╌╌╌╌╌╌╌╌╌┊",
        "away 1 ─────────────┊ 1 ─────────────┊ 1 ──────╌╌╌╌╌╌╌",
        "slow 2 ─────────────┊ 2 ──╌──────────┊ 2 ─────────────",
    ]
    assert draw_timeline(found, by="member", width=80, plain=True)[1] == "died 0 ------.......| 0 .............|"
    owners = draw_timeline(found, by="partition", width=80)
    assert [line.count("╌") for line in owners[1:4]] == [15, 5, 1]


def test_timeline_shows_topic_names_if_group_has_several_topics():
    both = (*names(0, 1), *names(7, topic="payments"))
    lanes = (
        LaneFinding(
            member=member("c"), assignments=(AssignmentSpanFinding(from_ms=0, until_ms=None, partitions=both),)
        ),
    )
    found = TimelineFinding(group="g", from_ms=0, until_ms=MINUTE, columns=(column(1, 0, None),), lanes=lanes)

    assert "orders:0-1;payments:7" in draw_timeline(found, by="member", width=80)[1]


def test_timeline_escapes_hostile_names():
    evil = "\x1b[2J\nevil\u202e" + "x" * 65_536
    lanes = (
        LaneFinding(
            member=member(evil),
            assignments=(AssignmentSpanFinding(from_ms=0, until_ms=None, partitions=("\x1b]0;t\x07-3",)),),
            marks=tuple(MarkFinding(at_ms=0, kind="fenced", text=evil) for _ in range(1000)),
        ),
    )
    columns = (column(1, 0, None, evil, trigger=member(evil), took_ms=1),)
    found = TimelineFinding(group=evil, from_ms=0, until_ms=MINUTE, columns=columns, lanes=lanes)

    for by in ("member", "partition"):
        lines = draw_timeline(found, by=by, width=80)
        assert max(map(len, lines)) <= 80
        assert all(line.isprintable() for line in lines)


def test_timeline_with_many_lanes_is_shortened_with_note():
    lanes = tuple(LaneFinding(member=member(f"m-{n}"), assignments=(spell(0, None, n),)) for n in range(1000))
    found = TimelineFinding(group="g", from_ms=0, until_ms=MINUTE, columns=(column(1, 0, None),), lanes=lanes)

    lines = draw_timeline(found, by="member", width=80)

    assert len(lines) == LANES_SHOWN + 2
    assert lines[-1] == f"... and {1000 - LANES_SHOWN} more: --output json has them all"


def test_timeline_without_columns_has_no_lines():
    assert (
        draw_timeline(TimelineFinding(group="g", from_ms=0, until_ms=1, columns=(), lanes=()), by="member", width=80)
        == []
    )
