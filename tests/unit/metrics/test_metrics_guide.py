"""The guide has every metric there is, as the catalogue has it."""

from __future__ import annotations

import re
from pathlib import Path

from kohort.metrics.catalogue import CATALOGUE

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "metrics.md").read_text()


def test_the_tables_are_those_of_the_catalogue():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", GUIDE, re.MULTILINE)

    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert told == {known.name: (known.kind, known.labels, known.text) for known in CATALOGUE.values()}
    assert len(rows) == len(told)
