"""The page for whoever is on call names every cause that ``kohort group why`` can name."""

import re
from pathlib import Path

import kohort.insight

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "on-call.md").read_text()
LISTED = set(re.findall(r"^\| `([A-Z_.a-z]+)` \|", PAGE, re.MULTILINE))
ERRORS = {"FENCED_INSTANCE_ID"}
"""Words of the protocol that stand in the code beside the causes."""


def test_every_cause_is_on_the_page_and_no_other():
    code = "".join(path.read_text() for path in Path(kohort.insight.__file__).parent.glob("*.py"))
    named = set(re.findall(r'"([A-Z]+_[A-Z_]+)"', code)) - ERRORS
    silent = {f"SESSION_TIMEOUT.{how}" for how in re.findall(r'cause, detail = "(\w+)"', code)}

    assert {*named, *silent} == LISTED
