"""Durations as people type them: ``90s``, ``30m``, ``1h``, ``2d``, also ``1h30m``."""

from __future__ import annotations

import re
from typing import Final

import click

UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST_MS: Final = 100 * 366 * UNIT_MS["d"]
_PART: Final = re.compile(r"([0-9]{1,12})(ms|min|[smhdw])")


class Duration(click.ParamType[int]):
    """An option's value of milliseconds."""

    name = "duration"

    def get_metavar(self, *_args: object, **_named: object) -> str:
        return "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value).strip().lower()
        parts = _PART.findall(text)
        total_ms = sum(int(number) * UNIT_MS[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != text or not 0 < total_ms <= LONGEST_MS:
            self.fail(f"{str(value)[:40]!r} is no duration: give a number and s, m, h or d, as in 30m", param, ctx)
        return total_ms


DURATION: Final = Duration()
