"""The nearest known name, for the hint in each error about an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 300
"""Characters of a name for which a near one is looked for: strangers choose it, and a long one takes long."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean X?"`` with X the nearest of ``known``, or nothing where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1) if len(name) <= LONGEST else []
    return f"; did you mean {near[0]}?" if near else ""
