"""The table of causes: every cause that code can find is in it, and no other; and what people may type for each."""

import ast
import re
from pathlib import Path

import pytest

import kohort.insight
from kohort.errors import ErrorCode
from kohort.insight.catalogue.table import CAUSES, advice_for, explain_error, find_cause_entry, find_error, suggestion
from support.source_trees import tree_of

INSIGHT = Path(kohort.insight.__file__).parent
OTHER_WORDS = {code.name for code in ErrorCode}
"""Words of the protocol that stand in the code beside the causes."""


FINDERS = [
    "causes.py",
    "round_causes.py",
    "epoch_causes.py",
    "takeovers.py",
    "events.py",
    "patterns.py",
    "why.py",
    "observed/*.py",
]
"""Where causes and patterns are found."""
SINGLE = {"PERIODIC", "AUTOSCALER", "UNEXPLAINED"}


def emitted() -> set[str]:
    """Return every word for a cause that stands in the code that finds causes and patterns."""
    text = "".join(path.read_text() for pattern in FINDERS for path in sorted(INSIGHT.glob(pattern)))
    words = {
        node.value
        for pattern in FINDERS
        for path in INSIGHT.glob(pattern)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    found = {word for word in words if word in SINGLE or re.fullmatch(r"[A-Z]+(_[A-Z]+)+(\.[a-z_]+)?", word)}
    silent = {f"SESSION_TIMEOUT.{how}" for how in re.findall(r'cause, detail = "(\w+)"', text)}
    return (found | silent) - OTHER_WORDS


def test_every_cause_that_can_be_found_is_in_the_table_and_the_other_way_round():
    assert emitted() == set(CAUSES)


def test_look_alikes_are_causes_and_each_entry_says_something():
    for entry in CAUSES.values():
        assert {code for code, _ in entry.look_alikes} <= CAUSES.keys() - {entry.code}
        assert entry.sentence.endswith(".")
        assert entry.proof
        assert not entry.proof.endswith(".")
        assert "\n" not in entry.sentence + entry.proof + (entry.advice or "")


def test_causes_of_errors_are_in_the_table():
    for code in ErrorCode:
        entry = explain_error(code)
        assert set(entry.causes) <= CAUSES.keys()
        assert entry.meaning.endswith(".")
        assert entry.advice


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("MAX_POLL_EXCEEDED", "MAX_POLL_EXCEEDED"), ("max-poll-exceeded", "MAX_POLL_EXCEEDED"),
        (" join timeout ", "JOIN_TIMEOUT"), ("frozen", "SESSION_TIMEOUT.frozen"),
        ("session_timeout.FROZEN", "SESSION_TIMEOUT.frozen"), ("SESSION_TIMEOUT", "SESSION_TIMEOUT"),
    ],
)  # fmt: skip
def test_a_cause_is_found_however_it_is_written(word, code):
    assert find_cause_entry(word).code == code


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("22", ErrorCode.ILLEGAL_GENERATION), ("-1", ErrorCode.UNKNOWN_SERVER_ERROR), ("0", ErrorCode.NONE),
        ("illegal-generation", ErrorCode.ILLEGAL_GENERATION),
        ("IllegalGenerationException", ErrorCode.ILLEGAL_GENERATION),
        ("invalid_topic_exception", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("InvalidTopicException", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("9999", None), ("--5", None), ("9" * 10_000, None), ("²", None), ("", None), ("NO_SUCH", None),
    ],
)  # fmt: skip
def test_an_error_is_found_by_name_number_and_exception(word, code):
    assert find_error(word) is code


def test_a_word_that_names_nothing_is_answered_with_the_nearest():
    assert suggestion("max_pol_exceded") == "; did you mean MAX_POLL_EXCEEDED?"
    assert suggestion("UNKNOWN_MEMBER") == "; did you mean UNKNOWN_MEMBER_ID?"
    assert suggestion("x" * 1_000_000) == ""
    assert find_cause_entry("") is None


def test_advice_is_the_tables():
    assert advice_for("STATIC_DUPLICATE").startswith("give every process")
    assert advice_for("NEW_MEMBER") is None
    assert advice_for("INVENTED") is None
