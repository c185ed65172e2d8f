"""The nearest known name, for error messages about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

LONGEST: Final = 300
"""Longest name that is compared, in characters: clients choose names, and comparing takes long."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean X?"`` with the nearest of ``known``, or an empty string."""
    near = difflib.get_close_matches(name, list(known), n=1) if len(name) <= LONGEST else []
    return f"; did you mean {near[0]}?" if near else ""
