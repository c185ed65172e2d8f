from __future__ import annotations

import json

from kohort.cli.terminal.show import (
    Table,
    cell,
    escaped,
    harmless,
    lines_of,
    print_prose,
    print_table,
    time_text,
)


def test_table_aligns_numbers_right_and_shows_none_as_dash(capsys):
    print_table(("GROUP", "LAG"), [("orders", 5), ("a", 12345), ("b", None)])

    assert capsys.readouterr().out == "GROUP     LAG\norders      5\na       12345\nb           -\n"


def test_table_without_rows_prints_headings_in_pipe_and_sentence_on_terminal(capsys, monkeypatch):
    print_table(("GROUP", "LAG"), [], none="no groups")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(("GROUP", "LAG"), [], none="no groups")

    assert capsys.readouterr().out == "GROUP  LAG\nno groups\n"


COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
)
ID = "cf-{}-v2-e3546496-ff97-4f08-b1d3-fddaea8671b{}"
DESCRIBED = Table(
    COLUMNS,
    tuple(
        ("orders-cf", "orders", str(p), "9687", "21044", "11357", ID.format(p % 2, p), "/127.0.0.1", f"cf-{p % 2}-v2")
        for p in range(6)
    ),
    (False, False, True, True, True, True, False, False, False),
)


def test_table_of_described_group_fits_80_columns():
    lines = lines_of(DESCRIBED, 80)

    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "GROUP orders-cf",
        "TOPIC orders",
        "HOST /127.0.0.1",
        "PARTITION  CURRENT-  LOG-END-    LAG  CONSUMER-ID" + " " * 24 + "CLIENT-",
        "             OFFSET    OFFSET" + " " * 44 + "ID",
    ]
    assert len(lines) == 5 + 6
    assert len(lines) - len(DESCRIBED.rows) == 5
    first, second = lines[5].split(), lines[6].split()
    assert first[:4] == ["0", "9687", "21044", "11357"]
    assert first[4].startswith("cf-0-v2-e3546496")
    assert first[4].endswith("a8671b0")
    assert first[4] != second[4], "what is cut still tells members apart"


def test_table_that_fits_terminal_is_unchanged():
    assert lines_of(DESCRIBED, 200) == lines_of(DESCRIBED)


def test_table_that_cannot_fit_is_as_narrow_as_possible():
    lines = lines_of(DESCRIBED, 10)

    assert all(line.split()[1:4] == ["9687", "21044", "11357"] for line in lines[5:])
    assert max(map(len, lines)) < 70


def test_prose_is_wrapped_on_terminal_but_not_in_pipe(capsys, monkeypatch):
    text = "member cf-0-v2-e3546496 (client cf-0-v2 at /127.0.0.1) joined the group"
    print_prose(text, indent="    ", first="WHY ")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    print_prose(text, indent="    ", first="WHY ")

    assert capsys.readouterr().out.splitlines() == [
        f"WHY {text}",
        "WHY member cf-0-v2-e3546496 (client",
        "    cf-0-v2 at /127.0.0.1) joined the",
        "    group",
    ]


def test_prose_on_stderr_is_wrapped_on_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    print_prose("no offset is changed yet: add --execute", err=True)

    assert capsys.readouterr() == ("", "no offset is changed\nyet: add --execute\n")


def test_cells_escape_control_characters():
    assert cell("evil\x1b[2Jname\n") == "evil?[2Jname?"
    assert cell(["a", "b"]) == "a,b"
    assert cell([]) == "-"
    assert cell(0) == "0"


def test_json_escapes_control_characters_and_keeps_letters():
    line = escaped(json.dumps({"groups": ["\u00e9 \u6771", "a\x9b2J\u202e\U000e0041\n"]}, ensure_ascii=False))

    assert '"\u00e9 \u6771"' in line
    assert r'"a\u009b2J\u202e\udb40\udc41\n"' in line
    assert json.loads(line)["groups"][1] == "a\x9b2J\u202e\U000e0041\n"


def test_function_harmless_escapes_control_characters_but_keeps_line_ends():
    assert (
        harmless("no topic 'a\x1b]0;title\x07\x1b[31m'\nsecond line\u202e")
        == "no topic 'a?]0;title??[31m'\nsecond line?"
    )


def test_times_are_utc_with_milliseconds():
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
    assert time_text(1_700_000_000_123_456) == "1700000000123456 ms"


def test_prose_escapes_control_characters(capsys):
    print_prose("the assignor is \x1b]0;owned\x07\x1b[2Jrange")

    assert capsys.readouterr().out == "the assignor is ?]0;owned??[2Jrange\n"
