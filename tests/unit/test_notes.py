"""Log notes: levels, and escaped lines."""

import logging

import pytest

from kohort.notes import LINE_MAX_CHARS, Level, debug, failure, info, one_line, warning


def test_note_levels_are_those_of_logging():
    made = [debug("a"), info("b"), warning("c"), failure("d")]

    assert [str(note) for note in made] == ["a", "b", "c", "d"]
    assert [logging.getLevelName(note.level) for note in made] == [level.name for level in Level]


def test_note_about_an_object_keeps_its_level_and_counts_per_object():
    note = warning("cannot be read", "read").about("orders-0")

    assert (note.level, note.text) == (Level.WARNING, "orders-0: cannot be read")
    assert note.kind == warning("cannot be read at 7", "read").about("orders-0").kind
    assert note.kind != warning("cannot be read", "read").about("orders-1").kind
    assert warning("always told").about("orders-0").kind is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, Größe 7 µs, 東京", "plain words, Größe 7 µs, 東京"),
        ("a\n2026-11-22 19:00:00,000 INFO admin logged in", "a\\n2026-11-22 19:00:00,000 INFO admin logged in"),
        ("a\r\n\x0b\x0c\x1c\x85\u2028\u2029b", "a\\r\\n\\x0b\\x0c\\x1c\\x85\\u2028\\u2029b"),
        ("\x1b[2J\x9b2J\x07\x00\x7f", "\\x1b[2J\\x9b2J\\x07\\x00\\x7f"),
        ("a\u202egpj.exe\u2066\u200f\ufeff", "a\\u202egpj.exe\\u2066\\u200f\\ufeff"),
        ("half a pair \ud800, a tag \U000e0041", "half a pair \\ud800, a tag \\U000e0041"),
    ],
)
def test_non_printable_characters_are_escaped(text, shown):
    assert one_line(text) == shown
    one_line(text).encode()  # encodable for any stream


def test_long_line_is_cut_with_its_length():
    topics = "; ".join(f"topic-{i}" for i in range(100_000))

    line = one_line(topics)

    assert line.startswith(topics[:LINE_MAX_CHARS])
    assert line.endswith(f"... ({len(topics)} characters in all)")
    assert len(line) < LINE_MAX_CHARS + 50
    assert len(one_line("\x00" * LINE_MAX_CHARS)) < LINE_MAX_CHARS + 50
    assert one_line("x" * LINE_MAX_CHARS) == "x" * LINE_MAX_CHARS
