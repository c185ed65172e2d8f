"""Catalogue of causes: it has exactly the causes that the code can find, and ``kohort explain`` finds each."""

import ast
import re
from pathlib import Path

import pytest

import kohort.insight
from kohort.errors import ErrorCode
from kohort.insight.catalogue import CAUSES, explain_error, find_cause_entry, find_error, suggestion
from kohort.insight.causes.table import advice_for
from support.source_trees import tree_of

INSIGHT = Path(kohort.insight.__file__).parent
OTHER_WORDS = {code.name for code in ErrorCode}


FINDERS = ["causes/*.py", "observed/*.py", "why.py", "events.py", "patterns.py"]
SINGLE = {"PERIODIC", "AUTOSCALER", "UNEXPLAINED"}


def words_of(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("CauseEntry", "ErrorEntry"):
        return set()
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    return {word for child in ast.iter_child_nodes(node) for word in words_of(child)}


def emitted() -> set[str]:
    words, silent = set(), set()
    for path in (path for pattern in FINDERS for path in INSIGHT.glob(pattern)):
        words |= words_of(tree_of(path))
        silent |= {f"SESSION_TIMEOUT.{how}" for how in re.findall(r'cause, detail = "(\w+)"', path.read_text())}
    found = {word for word in words if word in SINGLE or re.fullmatch(r"[A-Z]+(_[A-Z]+)+(\.[a-z_]+)?", word)}
    return (found | silent) - OTHER_WORDS


@pytest.mark.heavy
def test_finders_emit_exactly_the_causes_of_the_catalogue():
    assert emitted() == set(CAUSES)


def test_catalogue_entries_have_all_texts_and_their_similar_causes_exist():
    for entry in CAUSES.values():
        assert {code for code, _ in entry.look_alikes} <= CAUSES.keys() - {entry.code}
        assert entry.sentence.endswith(".")
        assert entry.proof
        assert not entry.proof.endswith(".")
        assert "\n" not in entry.sentence + entry.proof + (entry.advice or "")


def test_causes_of_error_codes_are_in_the_catalogue():
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
def test_find_cause_entry_accepts_upper_and_lower_case_and_any_separator(word, code):
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
def test_find_error_accepts_error_name_error_number_and_java_exception_name(word, code):
    assert find_error(word) is code


def test_suggestion_names_the_most_similar_catalogue_entry():
    assert suggestion("max_pol_exceded") == "; did you mean MAX_POLL_EXCEEDED?"
    assert suggestion("UNKNOWN_MEMBER") == "; did you mean UNKNOWN_MEMBER_ID?"
    assert suggestion("x" * 1_000_000) == ""
    assert find_cause_entry("") is None


def test_advice_for_cause_is_the_advice_of_its_catalogue_entry():
    assert advice_for("STATIC_DUPLICATE").startswith("give every process")
    assert advice_for("NEW_MEMBER") is None
