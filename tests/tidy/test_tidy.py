"""What the project promises about its own shape."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LINES = 500
LONGEST = 700
ONE_THOUGHT = {
    "kohort/config/broker.py": "the table of a broker's options",
    "kohort/log/partition.py": "one partition's log, from append to retention",
    "kohort/log/topics.py": "the topics of a data folder, and each change of them",
}
"""Files with more than ``LINES`` lines, and their one thought."""


def test_no_source_file_is_over_its_limit():
    lines = {str(p.relative_to(ROOT / "src")): len(p.read_text().splitlines()) for p in SOURCES}
    assert {file: n for file, n in lines.items() if n > (LONGEST if file in ONE_THOUGHT else LINES)} == {}
    assert [file for file in ONE_THOUGHT if lines.get(file, 0) <= LINES] == []


def test_no_file_has_a_name_that_says_nothing():
    vague = [str(p) for p in SOURCES if p.stem in {"utils", "util", "common", "base", "helpers", "manager", "misc"}]
    assert vague == []


def test_every_source_file_says_what_it_is_for():
    silent = [str(p.relative_to(ROOT)) for p in SOURCES if not p.read_text().lstrip().startswith('"""')]
    assert silent == []


def test_the_architecture_names_every_package():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {p.parent.relative_to(ROOT / "src" / "kohort").parts[0] for p in SOURCES if p.name == "__init__.py"
                and p.is_relative_to(ROOT / "src" / "kohort") and p.parent != ROOT / "src" / "kohort"}  # fmt: skip
    assert {p for p in packages if f"{p}/" not in text} == set()


def test_every_decision_is_in_the_list_of_decisions():
    adrs = ROOT / "docs" / "adr"
    listed = re.findall(r"\]\((0[^)]+)\)", (adrs / "README.md").read_text())
    assert listed == sorted(p.name for p in adrs.glob("0*.md"))


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_between_documents_lead_somewhere(name):
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_nothing_that_was_made_is_committed():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    made = [f for f in tracked if f.endswith((".pyc", ".class", ".jar", ".so")) or f.startswith((".venv/", ".tools/"))]
    assert made == []
