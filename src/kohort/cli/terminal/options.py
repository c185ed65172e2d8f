"""Options and value types that many commands share. Options that select a cluster are in ``cluster.py``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from kohort.model import TopicPartition
from kohort.notes import printable
from kohort.verbs.durations import LONGEST_MS, parse_duration_ms

F = TypeVar("F", bound=Callable[..., Any])

ADMIN_MS: Final = 15_000
PARTITION_DIGITS: Final = 9
"""Maximum number of digits of a partition number, which is an int32 on the wire."""
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""Type of a command parameter: the path of an existing file."""
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation.")


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds several options to a command. The help lists them in this order."""

    def decorate(command: F) -> F:
        decorated: Any = command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]  # click's decorators keep the type

    return decorate


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user for a confirmation, unless ``yes``. Raises UsageError if stdin is not a terminal."""
    if yes:
        return
    question = printable(question)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Add --yes to confirm.")
    click.confirm(question, abort=True, err=True)


def partition_in(text: str, sign: str = ":", shape: str = "TOPIC:NUMBER", *, given_as: str) -> TopicPartition:
    """Parse a partition such as ``orders:3``. ``sign`` separates topic and number. Raises BadParameter."""
    topic, _, number = text.rpartition(sign)
    if not topic or not number.isascii() or not number.isdecimal() or len(number) > PARTITION_DIGITS:
        raise click.BadParameter(f"{text!r}: expected {shape}, such as orders{sign}3", param_hint=given_as)
    return TopicPartition(topic, int(number))


class Duration(click.ParamType[int]):
    name = "duration"

    def __init__(self, least_ms: int = 1) -> None:
        self.least_ms = least_ms

    def get_metavar(self, *_args: object, **_named: object) -> str:
        return "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        total_ms = parse_duration_ms(str(value).strip().lower())
        if total_ms is None or not self.least_ms <= total_ms <= LONGEST_MS:
            shown = str(value)[:40]
            self.fail(f"{shown!r} is not a duration: expected a number with s, m, h or d (30m), or PT30M", param, ctx)
        return total_ms


DURATION: Final = Duration()
