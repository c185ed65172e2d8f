"""Uncommitted rows of a load, and the limits that end their wait for a commit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from kohort.aio.consuming.consumer import ARROW_BYTES
from kohort.client.user_input import whole_number
from kohort.errors import UsageError

Transform = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True, slots=True)
class Limits:
    rows: int
    nbytes: int
    ms: int

    @classmethod
    def of(cls, **limits: int) -> Limits:
        """Check limits under the names of ``load``'s arguments. Raises UsageError for a limit below 1."""
        for name, value in limits.items():
            if whole_number(f"load: {name}", value) < 1:
                raise UsageError(f"load: {name}={value}: expected at least 1")
        return cls(limits["commit_rows"], limits["commit_bytes"], limits["commit_ms"])

    def are_reached(self, rows: BufferedRows, now_ms: int) -> bool:
        if rows.since_ms is None:
            return False
        return rows.count >= self.rows or rows.nbytes >= self.nbytes or self.left_ms(rows, now_ms) == 0

    def left_ms(self, rows: BufferedRows, now_ms: int) -> int:
        """Return the time in ms until the limit of time; without rows, all of it."""
        return self.ms if rows.since_ms is None else max(0, rows.since_ms + self.ms - now_ms)

    @property
    def poll_bytes(self) -> int:
        return min(self.nbytes, ARROW_BYTES)


class BufferedRows:
    """Uncommitted rows, after ``transform``."""

    def __init__(self, fetched: pa.Schema, transform: Transform | None) -> None:
        self._transform = transform
        self.schema = fetched
        if transform is not None:
            self.schema = self._transformed(fetched.empty_table()).schema
        self.clear()

    def clear(self) -> None:
        self._tables: list[pa.Table] = []
        self.count = self.nbytes = 0
        self.since_ms: int | None = None

    def add(self, table: pa.Table, now_ms: int) -> None:
        """Add fetched rows. Raises UsageError if ``transform`` returns other columns than for the empty table."""
        if self._transform is not None:
            table = self._transformed(table)
            if not table.schema.equals(self.schema):
                raise UsageError(
                    f"load: transform returned the columns {_shown(table.schema)}, but for an empty table"
                    f" {_shown(self.schema)}: return the same names and types for each table"
                )
        self.since_ms = now_ms if self.since_ms is None else self.since_ms
        if table.num_rows:  # rows that transform dropped wait only for the group's commit
            self._tables.append(table)
            self.count += table.num_rows
            self.nbytes += table.nbytes

    def table(self) -> pa.Table:
        return pa.concat_tables(self._tables)

    def _transformed(self, table: pa.Table) -> pa.Table:
        assert self._transform is not None
        found = self._transform(table)
        if not isinstance(found, pa.Table):
            raise UsageError(f"load: transform returned {type(found).__name__}, not a pyarrow.Table")
        return found


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
