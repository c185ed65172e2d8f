"""docs/lab/coordinator-conformance.md names tests and deviations that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "lab" / "coordinator-conformance.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", TEXT, re.MULTILINE)


def test_every_rule_is_shown_by_a_test_or_stands_among_the_deviations():
    silent = [rule for rule, shown in ROWS if "::" not in shown and "deviation: " not in shown]
    assert set(silent) == {"rule"}
    assert len(ROWS) > 100


def test_the_tests_that_are_named_exist():
    tests = list((ROOT / "tests").rglob("*.py"))
    files = {name: path for path in tests for name in (path.name, f"{path.parent.name}/{path.name}")}
    named = re.findall(r"`((?:\w+/)?\w+\.py)::(\w+)`", TEXT)
    absent = [(f, name) for f, name in named if f not in files or f"def {name}(" not in files[f].read_text()]
    assert absent == []


def test_the_deviations_that_are_named_exist():
    listed = set(re.findall(r"^- \*\*(.+?)\*\*:", (ROOT / "docs" / "deviations.md").read_text(), re.MULTILINE))
    named = {name for _, shown in ROWS for name in re.findall(r"deviation: ([^;|]+?)(?:;|$)", shown)}
    assert named - listed == set()
