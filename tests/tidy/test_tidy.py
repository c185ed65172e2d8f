"""Rules about the shape of the repository."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "src", ROOT / "lab" / "src")
SOURCES = {path.relative_to(folder).as_posix(): path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))}
LINES = 500
LONGEST = 700
ONE_THOUGHT = {
    "kohort/broker/broker.py": "the broker as a machine: what goes in, what comes out",
    "kohort/log/partition.py": "one partition's log, from append to retention",
}
"""Files with more than ``LINES`` lines, and their one thought."""


def test_no_source_file_is_over_its_limit():
    lines = {file: len(path.read_text().splitlines()) for file, path in SOURCES.items()}
    assert {file: n for file, n in lines.items() if n > (LONGEST if file in ONE_THOUGHT else LINES)} == {}
    assert [file for file in ONE_THOUGHT if lines.get(file, 0) <= LINES] == []


def test_file_names_are_meaningful():
    empty = {"utils", "util", "common", "base", "helpers", "manager", "misc"}
    vague = [file for file in SOURCES if Path(file).stem in empty]
    assert vague == []


def test_source_files_have_docstrings():
    silent = [file for file, path in SOURCES.items() if not path.read_text().lstrip().startswith('"""')]
    assert silent == []


def test_the_architecture_names_every_package():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {file.split("/")[1] for file in SOURCES if re.fullmatch(r"kohort/\w+/__init__.py", file)}
    assert {p for p in packages if f"{p}/" not in text} == set()


def test_decisions_are_in_the_list_of_decisions():
    adrs = ROOT / "docs" / "adr"
    listed = re.findall(r"\]\((0[^)]+)\)", (adrs / "README.md").read_text())
    assert listed == sorted(p.name for p in adrs.glob("0*.md"))


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_between_documents_lead_somewhere(name):
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_generated_files_are_not_committed():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    made = [f for f in tracked if f.endswith((".pyc", ".class", ".jar", ".so")) or f.startswith((".venv/", ".tools/"))]
    assert made == []
