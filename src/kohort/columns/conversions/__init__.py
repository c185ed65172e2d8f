"""Conversions of text and JSON values to column types, by the rules of Spark's readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.errors import UndecodableValue

if TYPE_CHECKING:
    import pyarrow as pa

REASON_MOST: Final = 300
"""Length limit of a reason in characters."""


class Decoded(NamedTuple):
    """Columns of a block of rows. ``problems``: reason by invalid row, whose values are null."""

    columns: list[pa.Array]
    problems: dict[int, str]


def raise_first_problem(decoded: Decoded, offsets: pa.Array, format_name: str, *, topic: str, partition: int) -> None:
    """Raise UndecodableValue for the first invalid value, with its offset. ``format_name``: for the message."""
    if decoded.problems:
        at = min(decoded.problems)
        problem = f"the value is not {format_name} of the schema: {decoded.problems[at]}"
        raise UndecodableValue(problem, topic=topic, partition=partition, offset=offsets[at].as_py())
