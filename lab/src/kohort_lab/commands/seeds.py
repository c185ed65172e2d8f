"""Parser of the option ``--seeds``."""

from __future__ import annotations

import click


def parse_seeds(text: str) -> range:
    """Parse one seed (``"7"``) or a range (``"0..200"`` is 0 to 199). Raises BadParameter."""
    first, dots, last = text.partition("..")
    try:
        low = int(first)
        high = int(last) if dots else low + 1
    except ValueError:
        raise click.BadParameter(f"invalid seeds {text!r}: expected a seed (7) or a range (0..200)") from None
    if high <= low:
        raise click.BadParameter(f"empty seed range {text!r}: the end is excluded from the range")
    return range(low, high)
