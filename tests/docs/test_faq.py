"""FAQ: its figures stand in the pages that it cites."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "faq.md").read_text()
ROWS = re.findall(r"^\| (.+) \| (.+) \| \[.+\]\(([^)#]+)\S*\) \|$", TEXT, re.MULTILINE)
NUMBER = r"\d+(?:[.,]\d+)*"


@pytest.mark.parametrize(("subject", "figure", "source"), ROWS)
def test_figure_of_faq_stands_in_its_source(subject: str, figure: str, source: str) -> None:
    source_numbers = set(re.findall(NUMBER, (DOCS / source).read_text()))

    assert set(re.findall(NUMBER, figure)) <= source_numbers, subject


def test_share_of_right_causes_in_faq_holds_in_the_campaign() -> None:
    (quoted,) = re.findall(r"In at least (\d+) of 100 .* (\d+) of 100 on Apache Kafka", TEXT)
    totals = (DOCS / "lab" / "campaign.md").read_text().split("totals -->")[1]
    shares = re.findall(r"^\| (?:kohort|Apache Kafka) \| .* \| ([\d.]+) % \|", totals, re.MULTILINE)

    assert len(ROWS) == 5
    assert len(shares) == len(quoted)
    assert all(float(share) >= int(least) for share, least in zip(shares, quoted, strict=True))
