"""Java's properties format."""

import pytest

from kohort.config.properties import build_properties, parse_properties
from kohort.errors import ConfigError


def test_comments_colons_spaces_and_continuations_are_javas():
    text = "! a comment\n a : 1 \nb=x\\\n   y\n\n# end\nc=\n"

    assert parse_properties(text) == {"a": "1", "b": "xy", "c": ""}


def test_a_line_that_is_none_is_named():
    with pytest.raises(ConfigError, match="line 2: expected name=value"):
        parse_properties("a=1\nwhat\n")


def test_properties_are_read_past_comments():
    text = "#\n#Fri Jan 01\n\nversion=1\ncluster.id = abc=\n"

    assert parse_properties(text) == {"version": "1", "cluster.id": "abc="}
    assert parse_properties(build_properties({"a": "1"})) == {"a": "1"}


def test_of_a_damaged_file_what_is_left_is_read():
    assert parse_properties("a=1\nwhat\n=2\nb=3\n", is_damaged=True) == {"a": "1", "b": "3"}
