"""Hand-written pages have wrapped lines and short cells of tables, so that they can be read in a terminal."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GENERATED = ("docs/causes/", "docs/reference/", "docs/rooms.md", "docs/lab/campaign.md")
PAGES = [
    page
    for page in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    if not page.startswith((*GENERATED, "docs/lab/coordinator-conformance.md"))  # its cells list tests
]
LINE = 100
CELL = 120
NAME = 60
"""Words of this length, such as test names, may exceed the line length."""
TARGET = re.compile(r"\]\([^)]*\)")


def prose(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside its code blocks, with their numbers."""
    code = False
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


@pytest.mark.parametrize("page", PAGES)
def test_page_has_wrapped_lines_and_short_cells(page):
    long = []
    for number, line in prose(page):
        if line.startswith("|"):
            cells = (TARGET.sub("]", cell.strip()) for cell in line.strip("| ").split(" | "))
            long += [f"{number}: cell of {len(cell)}" for cell in cells if len(cell) > CELL]
        elif (
            len(TARGET.sub("]", line)) > LINE
            and not line.startswith(("![", ">"))
            and len(max(line.split(), key=len)) < NAME
        ):
            long.append(f"{number}: line of {len(line)}")
    assert long == []
