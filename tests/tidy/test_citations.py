"""Comments and pages cite existing objects: protocol rules, pages, files; and KIPs by their full name."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
CODE = [
    f
    for f in TRACKED
    if f.endswith(".py") and f.startswith(("src/", "lab/", "tests/", "bench/")) and (ROOT / f).exists()
]
PAGES = [f for f in TRACKED if f.endswith(".md") and (ROOT / f).exists()]
OF_USERS = frozenset(
    {"file.py", "apps.py", "views.py", "manage.py", "management/commands/listen.py"}
    | {"consume.py", "consume_async.py", "handlers.py", "tasks.py", "test_orders.py", "worker.py"}
)
"""In examples."""

RULE = re.compile(r"\bprotocol/([\w-]+\.md)#([\w-]+)")
PAGE = re.compile(r"\bdocs/[\w./-]+\.(?:md|svg)\b")
MODULE = re.compile(r"(?<![\w.*/{}-])(?:[\w-]+/)*\w+\.py\b")
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
NUMBERED = re.compile(r"\b[Ff]acts \d|\bdesign section \d")
KIP = re.compile(r"\bKIP[ _]?\d|\bkip-\d|KIP-\d+(?:, | and )\d")
COMMENT = re.compile(r"(?:^|\s)#\s(.*)$", re.MULTILINE)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return frozenset(re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in plain)


def remarks(source: str) -> Iterator[str]:
    """The comments and docstrings of a module, attributes' included."""
    yield from COMMENT.findall(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@cache
def prose_of(file: str) -> str:
    """Return the prose of ``file``: a whole page; comments and docstrings of code."""
    text = (ROOT / file).read_text()
    return text if file.endswith(".md") else "\n".join(remarks(text))


def is_there(mention: str) -> bool:
    return any(f == mention or f.endswith("/" + mention) for f in TRACKED)


def absent(files: list[str], what: re.Pattern[str], exempt: frozenset[str] = frozenset()) -> list[str]:
    found = ((file, mention) for file in files for mention in what.findall(prose_of(file)) if mention not in exempt)
    return [f"{file}: {mention}" for file, mention in found if not is_there(mention)]


def test_cited_rules_are_headings_of_their_page():
    broken = []
    for file in CODE + PAGES:
        for page, anchor in RULE.findall((ROOT / file).read_text()):
            path = ROOT / "docs" / "protocol" / page
            if not path.exists() or anchor not in anchors(path):
                broken.append(f"{file}: {page}#{anchor}")
    assert broken == []


def test_comments_cite_no_numbered_rule_of_missing_documents():
    others = [file for file in CODE + PAGES if Path(file).name != Path(__file__).name]
    numbered = [f"{file}: {hit}" for file in others for hit in NUMBERED.findall((ROOT / file).read_text())]
    assert numbered == []


def test_cited_pages_exist():
    assert absent([f for f in CODE if f.startswith(("src/", "lab/"))] + PAGES, PAGE) == []


def test_cited_code_files_exist():
    assert absent([f for f in CODE if f.startswith(("src/", "lab/"))] + PAGES, MODULE, OF_USERS) == []


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_a_page_and_a_heading(page):
    broken = []
    for link in LINK.findall((ROOT / page).read_text()):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_kips_are_named_in_one_form():
    odd = [f"{file}: {hit}" for file in CODE + PAGES for hit in KIP.findall((ROOT / file).read_text())]
    assert odd == []
