"""How long names may be of what is remembered as evidence alone: strangers make them up, of 32,767 letters each."""

from __future__ import annotations

from typing import Final

LETTERS_MOST: Final = 1_000
"""Of all names of one member, or of one who commits, together; of whoever has more nothing is remembered."""
BEGINNING: Final = 300
"""Letters by which those are told apart of whom something was told already."""


def are_memorable(*names: str | None) -> bool:
    """Tell whether names are short enough."""
    return sum(len(name) for name in names if name) <= LETTERS_MOST


def beginning_of(name: str) -> str:
    """Return what a name is told apart by."""
    return name[:BEGINNING]
