"""Timestamps, dates and times of day from text, in the forms of Spark's readers.

A timestamp without a zone is in the session's zone. In a gap of daylight saving time it moves forward by the gap; in an
overlap it is the earlier instant, as in Java.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DATE: Final = r"\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
_CLOCK: Final = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?"
_TIMESTAMP: Final = re.compile(rf"{_DATE}(?:[T ]{_CLOCK} ?((?:Z|UTC|GMT|UT|[A-Z][A-Za-z]|[+-]).*)?)?)?)?", re.ASCII)
_TIME: Final = re.compile(_CLOCK, re.ASCII)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_OFFSET_MOST: Final = timedelta(hours=18)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_FRACTION_DIGITS: Final = 9


@lru_cache(maxsize=256)
def zone_named(name: str) -> tzinfo:
    """Return a zone by its name (``Europe/Paris``) or offset (``+02:00``). Raises ValueError."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes, seconds = offset.groups()
        distance = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if distance > _OFFSET_MOST or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            raise ValueError(f"{name!r} is not a zone offset between -18:00 and +18:00")
        return timezone(-distance if sign == "-" else distance)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone") from None


def timestamp_nanos(text: str, zone: tzinfo | None) -> int:
    """Return nanoseconds since 1970. ``zone``: default; None: the text must have no zone. Raises ValueError."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a timestamp such as 2024-01-15T10:20:30Z")
    year, month, day, hour, minute, second, fraction, own = found.groups()
    if own and not minute:
        raise ValueError("a timestamp with a zone needs hours and minutes")
    if own and zone is None:
        raise ValueError("a column without a zone takes no timestamp with one")
    local = datetime(  # noqa: DTZ001 - the zone follows
        int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0)
    )
    where = zone_named(own.strip()) if own else zone or UTC
    since = local.replace(tzinfo=where) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + _nanos(fraction)


def date_days(text: str) -> int:
    """Return days since 1970 of a date, or of a timestamp's date as written. Raises ValueError."""
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a date such as 2024-01-15")
    year, month, day, hour, minute, second, _, own = found.groups()
    if hour:
        datetime(int(year), int(month), int(day), int(hour), int(minute or 0), int(second or 0))  # noqa: DTZ001
    if own:
        zone_named(own.strip())
    return date(int(year), int(month or 1), int(day or 1)).toordinal() - _FIRST_DAY


def time_nanos(text: str) -> int:
    """Return nanoseconds since midnight. Raises ValueError."""
    found = _TIME.fullmatch(text.strip())
    hour, minute, second, fraction = found.groups() if found else (None,) * 4
    if hour is None or minute is None or int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        raise ValueError("expected a time of day such as 10:20:30")
    return (int(hour) * 3600 + int(minute) * 60 + int(second or 0)) * 1_000_000_000 + _nanos(fraction)


def _nanos(fraction: str | None) -> int:
    return int(fraction[:_FRACTION_DIGITS].ljust(_FRACTION_DIGITS, "0")) if fraction else 0
