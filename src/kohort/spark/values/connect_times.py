"""Converts dates and times of Kafka Connect and Debezium. Only ZonedTimestamp has a zone.

Without a schema the unit of an integer is unknown, unless the settings of the source name it.
"""

from __future__ import annotations

from datetime import UTC
from typing import Any, Final

import pyarrow as pa

from kohort.columns.conversions.scalars import shown
from kohort.columns.conversions.times import date_days, time_nanos, timestamp_nanos
from kohort.spark.values.connect_schema import CONNECT, Convert, Encodings, Node, name_of, refused, wrong

_MS, _US, _NS = 1_000_000, 1000, 1
_UNITS: Final = {"milliseconds": _MS, "microseconds": _US, "nanoseconds": _NS}
_TIME: Final = "io.debezium.time."
_DAYS: Final = frozenset((f"{_TIME}Date", f"{CONNECT}Date"))
_CLOCKS: Final = {f"{_TIME}Time": _MS, f"{_TIME}MicroTime": _US, f"{_TIME}NanoTime": _NS, f"{CONNECT}Time": _MS}
_LOCAL: Final = {
    f"{_TIME}Timestamp": _MS,
    f"{_TIME}MicroTimestamp": _US,
    f"{_TIME}NanoTimestamp": _NS,
    f"{CONNECT}Timestamp": _MS,
}
INTEGER_TIMES: Final = (*_DAYS, *_CLOCKS, *_LOCAL)
_ISO: Final = {f"{_TIME}IsoDate": "date", f"{_TIME}IsoTime": "time", f"{_TIME}IsoTimestamp": "timestamp"}
_ZONED: Final = f"{_TIME}ZonedTimestamp"
_NANOS: Final = {"s": 1_000_000_000, "ms": _MS, "us": _US, "ns": _NS}
_FIRST_DAY, _LAST_DAY = date_days("0001-01-01"), date_days("9999-12-31")
_DAY_NANOS: Final = 86_400_000_000_000


def date_of(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    if node and name_of(node) not in _DAYS and name_of(node) != f"{_TIME}IsoDate":
        raise refused(node, kind, "timestamp_ntz" if name_of(node) in _LOCAL else "")

    def convert(value: Any) -> int:
        days = date_days(value.removesuffix("Z")) if isinstance(value, str) else _whole(value)
        if not _FIRST_DAY <= days <= _LAST_DAY:
            raise ValueError(f"day {days} since 1970 is outside of the years 1 to 9999")
        return days

    return convert


def clock_of(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    name = name_of(node)
    if node and name not in _CLOCKS and _ISO.get(name) != "time":
        raise refused(node, kind, "string")
    size, unit = _CLOCKS.get(name) or _UNITS.get(given.times, 0), _NANOS[kind.unit]

    def convert(value: Any) -> int:
        nanos = time_nanos(value.removesuffix("Z")) if isinstance(value, str) else _scaled(value, size)
        if not 0 <= nanos < _DAY_NANOS:
            raise ValueError(f"{value} is not a time of day")
        return nanos // unit

    return convert


def local_of(kind: pa.DataType, node: Node | None, given: Encodings) -> Convert:
    name = name_of(node)
    if node and name not in _LOCAL and _ISO.get(name) != "timestamp":
        raise refused(node, kind, "timestamp" if name == _ZONED else "date" if name in _DAYS else "")
    size, unit = _LOCAL.get(name) or _UNITS.get(given.times, 0), _NANOS[kind.unit]
    is_iso = bool(node) or given.times == "isostring"

    def convert(value: Any) -> int:
        if isinstance(value, str):
            return timestamp_nanos(value.removesuffix("Z") if is_iso else value, None) // unit
        nanos = _scaled(value, size)
        if not _FIRST_DAY <= nanos // _DAY_NANOS <= _LAST_DAY:
            raise ValueError(f"the time {value} is outside of the years 1 to 9999")
        return nanos // unit

    return convert


def instant_of(kind: pa.DataType, node: Node | None, _given: Encodings) -> Convert:
    if node and name_of(node) != _ZONED:
        raise refused(node, kind, "timestamp_ntz" if name_of(node) in (*_LOCAL, *_ISO) else "")
    unit = _NANOS[kind.unit]

    def convert(value: Any) -> int:
        if not isinstance(value, str):
            raise _zoneless(value)
        if not value.endswith("Z") and "+" not in value and "-" not in value[10:]:
            raise _zoneless(value)
        return timestamp_nanos(value, UTC) // unit

    return convert


def _zoneless(value: Any) -> ValueError:
    return ValueError(f"the time {shown(str(value))} has no zone: declare the column as timestamp_ntz")


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong("an integer", value)
    return value


def _scaled(value: Any, size: int) -> int:
    """Return a time in nanoseconds. ``size``: nanoseconds of its unit; 0 if the unit is unknown."""
    if size:
        return _whole(value) * size
    raise ValueError(
        f"the record has no schema, so the unit of the time {shown(str(value))} is unknown: set times to "
        f"{', '.join(_UNITS)}"
    )
