"""The tool that puts mistakes into the code: which it makes, and that it tells tested from untested functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants.killing import TESTS_S, affordable
from mutants.operators import Mutant, SourceFile
from mutants.reach import recorded
from mutants.report import Row, explained, report
from mutants.run import mutants_of, tried

from mutants import rooms

ROOT = Path(__file__).parents[2]


def made_of(text: str) -> list[tuple[str, str, str]]:
    return [(one.operator, one.before, one.after) for one in SourceFile("some.py", text).mutants]


def answer_of(text: str, mutant: Mutant, *args: object) -> object:
    scope: dict[str, object] = {}
    exec(SourceFile("some.py", text).code("some.py", mutant), scope)
    return scope["f"](*args)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("body", "operator", "afters"),
    [
        ("return a < b", "comparison", ["a <= b", "a >= b"]),
        ("return a == b", "comparison", ["a != b"]),
        ("return a is b", "comparison", ["a is not b"]),
        ("return a and b", "boolean", ["a or b"]),
        ("return a - b", "arithmetic", ["a + b"]),
        ("return a + 2", "constant", ["3", "1"]),
        ("return not a", "not", ["a"]),
        ("return f(b, a)", "arguments", ["f(a, b)"]),
        ("return min(a, b)", "function", ["max(a, b)"]),
        ("a.clear()", "statement", ["if False: a.clear()"]),
        ("a[b] = 1", "statement", ["if False: a[b] = 1"]),
        ("raise a", "statement", ["if False: raise a"]),
        ("return a", "return", ["return None"]),
        ("b = b if a else a", "condition", ["not a"]),
        ("while a: break", "jump", ["continue"]),
    ],
)
def test_each_kind_of_mistake_is_made(body, operator, afters):
    made = made_of(f"def f(a, b):\n    {body}\n")
    assert [after for kind, _, after in made if kind == operator] == afters


def test_defaults_are_mutated_and_what_does_not_run_is_not():
    text = '''
"""A docstring."""
from typing import TYPE_CHECKING, Final
if TYPE_CHECKING:
    x = 1
def f(a: Final[1], b=True) -> "2":
    """Another."""
    assert a == 3, "claims are not for strangers"
    return b
'''
    assert made_of(text) == [("default", "True", "False"), ("return", "return b", "return None")]


def test_a_mutant_has_its_mistake_and_the_next_one_does_not():
    text = "def f(a, b):\n    if a > b:\n        return a\n    return b\n"
    boundary, opposite, first, _ = SourceFile("some.py", text).mutants
    assert answer_of(text, boundary, 2, 1) == 2
    assert answer_of(text, opposite, 2, 1) == 1
    assert answer_of(text, first, 2, 1) is None
    assert answer_of(text, first, 1, 2) == 2


def test_what_looks_alike_in_one_function_has_names_of_its_own():
    keys = [one.key for one in SourceFile("some.py", "def f(a):\n    a.go()\n    a.go()\n").mutants]
    assert keys == [
        "some.py f: statement: a.go() -> if False: a.go()",
        "some.py f: statement: a.go() -> if False: a.go() #1",
    ]


WANTED = {"is_leap", "century"}
MESSAGES = ROOT / "src/kohort/client/group/member_messages.py"
MESSAGES_TEST = ROOT / "tests/unit/client/test_member_messages.py"


@pytest.fixture(scope="module")
def fates(tmp_path_factory) -> dict[str, list[Row]]:
    """What becomes of mutants of ``support/years.py``, and of some of the log's index."""
    work = tmp_path_factory.mktemp("mutants")
    small, real = mutants_of(ROOT / "tests/support/years.py"), mutants_of(ROOT / "src/kohort/log/index.py")
    tests = [ROOT / "tests/mutants/test_years.py", ROOT / "tests/unit/log/test_index.py", MESSAGES_TEST]
    chosen = [one for one in small if one.place in WANTED or one.after in {"if False: reached *= 2", "1582"}]
    chosen += [one for one in real if one.place in {"TimeIndex.lookup", "_grows"}]
    chosen += [one for one in mutants_of(MESSAGES) if one.at_import and one.before == "3"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTEST_ADDOPTS", "--no-such-option")  # the tool does not pass it on
        rows, failing = _tried(chosen, tests, work)
    assert failing == []
    places = {row.mutant.place for row in rows}
    return {place: [row for row in rows if row.mutant.place == place] for place in places}


def _tried(chosen: list[Mutant], tests: list[Path], work: Path) -> tuple[list[Row], list[str]]:
    reach = recorded(("src/kohort/log", "src/kohort/client/group", "tests/support"), tests, 0, work / "reach.json")
    return tried(chosen, reach, 1, 3, work, tests, grace_s=0.5)


@pytest.mark.campaign
def test_mutants_of_a_tested_function_die(fates):
    assert {row.fate for row in fates["is_leap"]} == {"tests"}
    assert len(fates["is_leap"]) > 15


@pytest.mark.campaign
def test_mutants_of_what_nothing_looks_at_live(fates):
    assert {row.fate for row in fates["century"] if row.mutant.operator != "return"} == {"alive"}
    assert len(fates["century"]) == 10


@pytest.mark.campaign
def test_what_runs_at_import_is_mutated_too(fates):
    """Also in kohort itself, which pytest imports as a plugin of its own."""
    found = {row.mutant.after: row.fate for row in fates["<module>"]}
    assert found == {"1582": "tests", "4": "tests", "2": "tests"}


def test_a_slow_test_does_not_push_out_the_fast_ones_behind_it():
    seconds = {"first": 1.0, "slow": TESTS_S, "fast": 0.1, "simulator::a:0": TESTS_S}
    assert affordable(list(seconds), seconds) == ["first", "fast", "simulator::a:0"]
    assert affordable(["slow", "fast"], seconds) == ["slow"]


@pytest.mark.campaign
def test_a_mutant_that_never_ends_is_ended(fates):
    assert [row.fate for row in fates["doublings"]] == ["timeout"]


@pytest.mark.campaign
def test_mutants_of_the_log_die(fates):
    some = [*fates["TimeIndex.lookup"], *fates["_grows"]]
    assert len(some) > 5
    assert [row.mutant.key for row in some if row.fate == "alive"] == []


@pytest.mark.campaign
def test_the_report_names_who_lives(fates):
    text = report(fates["century"], {})
    assert "1 of 10 killed: 10.0 %" in text
    assert "    - year - 1\n    + year + 1" in text


def test_what_is_explained_is_still_there():
    keys = {mutant.key for path in rooms.sources() for mutant in mutants_of(path)}
    assert [key for key in explained() if key not in keys] == []
    assert [key for key, reason in explained().items() if not reason] == []
