"""Seeds as commands of the simulator read them: one, or a range."""

from __future__ import annotations

import click


def parse_seeds(text: str) -> range:
    """``"7"`` is one seed, ``"0..200"`` the 200 from 0 to 199."""
    first, dots, last = text.partition("..")
    try:
        low = int(first)
        high = int(last) if dots else low + 1
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a seed (7) nor a range of seeds (0..200)") from None
    if high <= low:
        raise click.BadParameter(f"{text!r} holds no seed: the end is not part of a range")
    return range(low, high)
