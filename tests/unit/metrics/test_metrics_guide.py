"""The guide lists the metrics of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

from kohort.metrics.catalogue import CATALOGUE

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "metrics.md").read_text()


def test_metric_tables_of_the_guide_match_the_catalogue():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \| (.+) \|$", GUIDE, re.MULTILINE)

    documented = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in rows}
    assert documented == {spec.name: (spec.kind, spec.labels, spec.help) for spec in CATALOGUE.values()}
    assert len(rows) == len(documented)
