"""Durations as people type them, ``90s``, ``30m``, ``1h30m``, ``1.5h``, and as Kafka's tools take them, ``P1DT2H``."""

from __future__ import annotations

from typing import Final

import click

from kohort.verbs.spans import LONGEST_MS, milliseconds_of


class Duration(click.ParamType[int]):
    """An option's value of milliseconds, of ``least_ms`` at the least."""

    name = "duration"

    def __init__(self, least_ms: int = 1) -> None:
        self.least_ms = least_ms

    def get_metavar(self, *_args: object, **_named: object) -> str:
        return "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        total_ms = milliseconds_of(str(value).strip().lower())
        if total_ms is None or not self.least_ms <= total_ms <= LONGEST_MS:
            shown = str(value)[:40]
            self.fail(f"{shown!r} is no duration: give a number and s, m, h or d, as in 30m, or PT30M", param, ctx)
        return total_ms


DURATION: Final = Duration()
