"""Text columns to typed columns by Arrow's kernels, for rows in a plain form.

``scalars.py`` converts rows in any other form; for a plain form it gives the same value.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_type

_DATE: Final = r"[12]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_TIMESTAMP: Final = rf"^{_DATE}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?"
_FLOAT: Final = r"^-?\d{1,17}(?:\.\d{1,17})?(?:[eE][+-]?\d)?$"
_INTEGER: Final = r"^-?\d{1,18}$"
_INTEGER_DIGITS: Final = 18


class Block(NamedTuple):
    """Column with null in unconverted rows, and a mask of these rows."""

    column: pa.Array
    left: Any


def plain_values(text: pa.Array, kind: pa.DataType, zone: tzinfo) -> Block:
    """Convert the rows of a text column that have the plain form of ``kind``, or are null."""
    if is_type.is_string(kind):
        return Block(text, np.zeros(len(text), bool))
    pattern = _pattern_of(kind)
    if pattern is None:
        return _nothing(text, kind)
    plain = pc.fill_null(pc.match_substring_regex(text, pattern), True)
    if is_type.is_timestamp(kind) and kind.tz:
        return _instants(text, plain, kind, zone)
    return _cast(text, plain, kind)


def _pattern_of(kind: pa.DataType) -> str | None:
    """Return the pattern of a type's plain form; None if it has none."""
    if is_type.is_signed_integer(kind):
        digits = {8: 2, 16: 4, 32: 9, 64: _INTEGER_DIGITS}[kind.bit_width]
        return _INTEGER if digits == _INTEGER_DIGITS else rf"^-?\d{{1,{digits}}}$"
    if is_type.is_float64(kind) or is_type.is_float32(kind):
        return _FLOAT
    if is_type.is_boolean(kind):
        return "^(?:true|false)$"
    if is_type.is_date32(kind):
        return f"^{_DATE}$"
    if is_type.is_timestamp(kind) and kind.unit == "us":
        return _TIMESTAMP + ("Z?$" if kind.tz else "$")
    if is_type.is_decimal128(kind) and 0 <= kind.scale < kind.precision:
        places = rf"(?:\.\d{{1,{kind.scale}}})?" if kind.scale else ""
        return rf"^-?\d{{1,{kind.precision - kind.scale}}}{places}$"
    return None


def _nothing(text: pa.Array, kind: pa.DataType) -> Block:
    return Block(pa.nulls(len(text), kind), np.asarray(text.is_valid()))


def _cast(text: pa.Array, plain: pa.Array, kind: pa.DataType) -> Block:
    try:
        column = pc.if_else(plain, text, None).cast(kind)
    except pa.ArrowInvalid:
        return _nothing(text, kind)
    left = ~np.asarray(plain)
    if is_type.is_floating(kind):
        left |= np.asarray(pc.fill_null(pc.is_inf(column), False))
    return Block(column, left)


def _instants(text: pa.Array, plain: pa.Array, kind: pa.DataType, zone: tzinfo) -> Block:
    """Convert timestamps in UTC (``Z``), and timestamps without a zone, which are in the session's zone."""
    zoned = pc.fill_null(pc.ends_with(text, "Z"), False)
    local = pc.if_else(pc.and_(plain, pc.invert(zoned)), text, None)
    try:
        instants = pc.if_else(pc.and_(plain, zoned), text, None).cast(kind)
    except pa.ArrowInvalid:
        return _nothing(text, kind)
    left = ~np.asarray(plain)
    if local.null_count == len(local):
        return Block(instants, left)
    name = zone.key if isinstance(zone, ZoneInfo) else str(zone)
    try:
        moments = pc.assume_timezone(local.cast(pa.timestamp("us")), name, ambiguous="earliest").cast(kind)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return Block(instants, left | np.asarray(local.is_valid()))
    return Block(pc.coalesce(instants, moments), left)
