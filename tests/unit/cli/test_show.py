"""Stories of tables as plain text."""

from __future__ import annotations

import json

from kohort.cli.show import cell, plain_lines, print_json, print_table, time_text


def test_columns_are_aligned_numbers_to_the_right_and_nothing_is_a_dash(capsys):
    print_table(("GROUP", "LAG"), [("orders", 5), ("a", 12345), ("b", None)])

    assert capsys.readouterr().out == "GROUP     LAG\norders      5\na       12345\nb           -\n"


def test_a_table_without_rows_is_its_names():
    assert plain_lines(("GROUP", "LAG"), [], [False, False]) == ["GROUP  LAG"]


def test_what_clients_send_cannot_move_the_cursor():
    assert cell("evil\x1b[2Jname\n") == "evil?[2Jname?"
    assert cell(["a", "b"]) == "a,b"
    assert cell([]) == "-"
    assert cell(0) == "0"


def test_json_says_what_it_is(capsys):
    print_json("groups", {"groups": ["\u00e9"]})

    line = capsys.readouterr().out
    assert json.loads(line) == {"schema": "kohort/v1/groups", "groups": ["\u00e9"]}
    assert line.count("\n") == 1


def test_times_are_in_utc_to_the_millisecond():
    assert time_text(1_700_000_000_123) == "2023-11-14 22:13:20.123 UTC"
