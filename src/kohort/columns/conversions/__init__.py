"""Conversions of text and JSON values to column types, by the rules of Spark's readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

REASON_MOST: Final = 300
"""Length limit of a reason in characters."""


class Decoded(NamedTuple):
    """Columns of a block of rows. ``problems``: reason by invalid row, whose values are null."""

    columns: list[pa.Array]
    problems: dict[int, str]
