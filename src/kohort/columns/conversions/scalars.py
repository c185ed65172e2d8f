"""Conversion of one value, from its text in CSV or its token in JSON, to a column's type.

Each converter raises ValueError for a value that the column cannot hold exactly. Two roundings are those of Spark:
binary floating point, and time digits beyond microseconds (nanoseconds in a nanosecond column).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Context, Decimal, DecimalException
from math import isinf
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as is_type

from kohort.columns.conversions.times import date_days, time_nanos, timestamp_nanos

Convert = Callable[[str], Any]
SHOWN_MOST: Final = 60
_INTEGER: Final = re.compile(r"[+-]?\d{1,25}", re.ASCII)
_FLOAT: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?)\s*", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d*)?(?:[eE][+-]?\d{1,4})?", re.ASCII)
_EXACT: Final = Context(prec=200, Emax=10_000, Emin=-10_000)
_NOT_FINITE: Final = {
    name: float(name.lower())
    for name in ("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF", "Inf", "+Inf", "-Inf")
}
_NANOS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST: Final = (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Converters of one type from a CSV field or a JSON string (``text``), and from the text of a JSON number.

    A converter is None if the type does not accept such a value.
    """

    text: Convert | None
    number: Convert | None = None


def shown(text: str) -> str:
    """Return a value in printable form, truncated for an error message."""
    cut = text if len(text) <= SHOWN_MOST else f"{text[:SHOWN_MOST]}..."
    return cut.encode(errors="backslashreplace").decode()


def scalar_of(kind: pa.DataType, zone: tzinfo) -> Scalar | None:
    """Return the converters of a type; None for nested and unsupported types."""
    if is_type.is_integer(kind):
        return Scalar(_integer(kind), _integer(kind))
    if is_type.is_floating(kind):
        return Scalar(_floating(kind), _floating(kind))
    if is_type.is_decimal(kind):
        return Scalar(_decimal(kind), _decimal(kind))
    if is_type.is_boolean(kind):
        return Scalar(_boolean)
    if is_type.is_timestamp(kind):
        return _timestamp(kind, zone)
    if is_type.is_date(kind):
        days = 1 if is_type.is_date32(kind) else _DAY_MS
        return Scalar(lambda text: date_days(text) * days)
    if is_type.is_time(kind):
        unit = _NANOS[kind.unit]
        return Scalar(lambda text: _in_unit(time_nanos(text), unit))
    if is_text(kind):
        return Scalar(checked_text)
    if is_binary(kind):
        return Scalar(_base64)
    return None


def is_text(kind: pa.DataType) -> bool:
    return bool(is_type.is_string(kind) or is_type.is_large_string(kind) or is_type.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    return bool(is_type.is_binary(kind) or is_type.is_large_binary(kind))


def json_float(text: str) -> float:
    """Return NaN or an infinity by the names that Spark reads in quotes. Raises ValueError."""
    if text not in _NOT_FINITE or text in ("INF", "Inf", "+Inf", "-Inf"):
        raise ValueError("expected a number, or NaN, Infinity or -Infinity as text")
    return _NOT_FINITE[text]


def checked_text(text: str) -> str:
    """Return ``text``. Raises ValueError for a lone surrogate, and for escaped bytes that are not UTF-8."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            is_byte = "\udc80" <= text[error.start] <= "\udcff"
            raise ValueError("not UTF-8" if is_byte else "lone surrogate, which is not valid text") from None
    return text


def _integer(kind: pa.DataType) -> Convert:
    low, high = 0, (1 << kind.bit_width) - 1
    if is_type.is_signed_integer(kind):
        low, high = -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1

    def convert(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(f"expected an integer from {low} to {high}")
        return int(text)

    return convert


def _floating(kind: pa.DataType) -> Convert:
    def convert(text: str) -> Any:
        if text in _NOT_FINITE:
            return _NOT_FINITE[text]
        found = _FLOAT.fullmatch(text)
        if not found:
            raise ValueError(f"expected a number for {kind}")
        value = float(found[1]) if kind == pa.float64() else pa.scalar(found[1]).cast(pa.float32()).as_py()
        if isinf(value):
            raise ValueError(f"too large for {kind}")
        return value

    return convert


def _decimal(kind: pa.DataType) -> Convert:
    most = 10 ** (kind.precision - kind.scale)
    step = Decimal(1).scaleb(-kind.scale)

    def convert(text: str) -> Decimal:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(f"expected a number for {kind}")
        try:
            value = Decimal(text.replace(",", ""))
            rounded = value.quantize(step, context=_EXACT)
        except (DecimalException, ValueError):
            raise ValueError(f"expected a number for {kind}") from None
        if rounded != value:
            raise ValueError(f"more than the {kind.scale} decimal places of {kind}")
        if abs(value) >= most:
            raise ValueError(f"too large for {kind}")
        return rounded

    return convert


def _boolean(text: str) -> bool:
    found = {"true": True, "false": False}.get(text.lower())
    if found is None:
        raise ValueError("expected true or false")
    return found


def _timestamp(kind: pa.DataType, zone: tzinfo) -> Scalar:
    unit, default = _NANOS[kind.unit], zone if kind.tz else None

    def number(text: str) -> int:
        """Read an integer as seconds since 1970, as Spark does."""
        if not _INTEGER.fullmatch(text) or not _FIRST <= int(text) <= _LAST:
            raise ValueError("expected whole seconds since 1970, until the year 9999; read other units as bigint")
        return int(text) * _NANOS["s"] // unit

    return Scalar(lambda text: _in_unit(timestamp_nanos(text, default), unit), number if kind.tz else None)


def _in_unit(nanos: int, unit: int) -> int:
    """Convert nanoseconds to ``unit``; only digits beyond microseconds may be dropped. Raises ValueError."""
    if unit > _NANOS["us"] and nanos // _NANOS["us"] * _NANOS["us"] % unit:
        raise ValueError("more precise than the column")
    value = nanos // unit
    if unit == 1 and not -(1 << 63) <= value < 1 << 63:
        raise ValueError("outside of the years that a column of nanoseconds holds")
    return value


def _base64(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise ValueError("expected base64") from None
