"""Conversions of text and JSON values to column types, by the rules of Spark's readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

REASON_MOST: Final = 300
"""Characters of a reason; a longer one is cut."""


class Decoded(NamedTuple):
    """The columns of a block, null in the rows of values that do not fit, and the reason by row."""

    columns: list[pa.Array]
    problems: dict[int, str]
