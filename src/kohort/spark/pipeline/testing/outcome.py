"""Compares what came of a test's records with what the file says must: as sets of rows, by the columns it names."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

Row = Mapping[str, Any]
_CLOSE: Final = 1e-9


@dataclass(slots=True)
class TestOutcome:
    """What one test found: nothing, or sentences saying what is missing and what is too much."""

    __test__ = False  # pytest: no test class

    name: str
    line: int
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems


def compare_rows(what: str, expected: Sequence[Row], found: Sequence[Row]) -> list[str]:
    """Find every expected row, once, and nothing else; return what differs. Columns that a row does not name may hold
    anything."""
    left = list(found)
    missing = []
    for row in expected:
        match = next((other for other in left if _agrees(row, other)), None)
        if match is None:
            missing.append(row)
        else:
            left.remove(match)
    problems = []
    for row in missing:
        near = _nearest(row, left)
        hint = f"; nearest: {shown(near, row)}" if near is not None else ""
        problems.append(f"{what}: missing {shown(row)}{hint}")
    named = sorted({column for row in expected for column in row})
    too_much = left if not missing else []
    problems += [f"{what}: not expected {shown(row, named or None)}" for row in too_much]
    return problems


def shown(row: Row, only: Any = None) -> str:
    """Return a row as JSON, with the columns ``only`` where given."""
    kept = {k: v for k, v in row.items() if only is None or k in only}
    return json.dumps(kept, default=lambda v: bytes(v).decode(errors="replace") if isinstance(v, bytes) else str(v))


def _agrees(expected: Row, found: Row) -> bool:
    return all(column in found and same(value, found[column]) for column, value in expected.items())


def _nearest(row: Row, found: Sequence[Row]) -> Row | None:
    def score(other: Row) -> int:
        return sum(column in other and same(value, other[column]) for column, value in row.items())

    return max(found, key=score, default=None)


def same(expected: Any, found: Any) -> bool:
    """Tell whether a value of the file means a value of Spark's: numbers by value, times as instants, structs by
    name."""
    if isinstance(found, datetime) or isinstance(expected, datetime):
        return _instant(expected) == _instant(found)
    if isinstance(found, date) or isinstance(expected, date):
        return str(expected) == str(found)
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float | Decimal) and isinstance(found, int | float | Decimal):
        return math.isclose(expected, found, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _agrees(expected, found)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(found, bytes | bytearray):
        return bool(expected == bytes(found).decode(errors="replace"))
    return bool(expected == found)


def _instant(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        return None
    return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
