"""Java's properties format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.config.properties import build_properties, parse_properties
from kohort.errors import ConfigError


def test_comments_colons_spaces_and_continuations_are_javas():
    text = "! a comment\n a : 1 \nb=x\\\n   y\n\n# end\nc=\nd 5\n"

    assert parse_properties(text) == {"a": "1 ", "b": "xy", "c": "", "d": "5"}


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        (r"listeners=SASL_SSL\://0.0.0.0\:9093", ("listeners", "SASL_SSL://0.0.0.0:9093")),
        (r"a\:b\=c\ d = e", ("a:b=c d", "e")),
        (r"ssl.keystore.location=C\:\\keys\\server.p12", ("ssl.keystore.location", r"C:\keys\server.p12")),
        (r"password=\ b\u00e4r\t", ("password", " bär\t")),
        (r"super.users=User\:a;\#b", ("super.users", "User:a;#b")),
        ('jaas=A required \\\n    b="c" \\\r\n\td="e";', ("jaas", 'A required b="c" d="e";')),
        ("even=two\\\\\nodd=1", ("even", "two\\")),
    ],
)  # fmt: skip
def test_escapes_are_undone_as_java_does(line, pair):
    assert pair in parse_properties(line).items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\nwhat\n", "line 2: expected name=value"),
        ("# c\n\na=1\\\n  2\n=3\n", "line 5: expected name=value"),
        ("a=1\nb=\\u00g1 secret\n", r"line 2: expected four hexadecimal digits behind \\u"),
    ],
)
def test_a_line_that_is_none_is_named_and_not_shown(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_properties(text)
    assert "secret" not in str(caught.value)


def test_properties_are_read_past_comments():
    text = "#\n#Fri Jan 01\n\nversion=1\ncluster.id = abc=\n"

    assert parse_properties(text) == {"version": "1", "cluster.id": "abc="}


@given(st.dictionaries(st.text(min_size=1, max_size=6), st.text(max_size=6), max_size=3))
def test_what_is_written_is_read_again(properties):
    assert parse_properties(build_properties(properties)) == properties


def test_of_a_damaged_file_what_is_left_is_read():
    assert parse_properties("a=1\nwhat\n=2\nb=3\n", is_damaged=True) == {"a": "1", "b": "3"}
    assert parse_properties("a=1\nb=\\uzz\nc=3\n", is_damaged=True) == {"a": "1", "c": "3"}
