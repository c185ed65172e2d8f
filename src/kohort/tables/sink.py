"""A table that holds the offsets of its rows: open, check, and commit with compare-and-swap of offsets."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from kohort.errors import KohortError, TableError, UsageError
from kohort.tables.columns import TableFormat, fit_rows, new_columns, stored_schema

ATTEMPTS: Final = 20
"""Maximum number of attempts at one commit. Each failed attempt means that another writer committed."""
LONGEST_REASON: Final = 500
SchemaMode = Literal["error", "merge"]
Owner = Literal["none", "same", "other group", "other topic"]


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A topic, read by one group. A recreated topic has another topic id, so another life."""

    group: str
    cluster_id: str
    topic: str
    topic_id: str
    """Kafka's topic id in base64; empty for a cluster without topic ids (Kafka < 2.8)."""


@dataclass(frozen=True, slots=True)
class OffsetStep:
    """Progress of a partition in one commit: the table's offset (None: no rows yet), and the next offset."""

    source: TopicLife
    partition: int
    stored: int | None
    end: int


class Fenced(Exception):
    """The table's offset of a partition is not the expected one: another member committed rows of the partition."""


class TableSink(ABC):
    """A table for ``load``: ``DeltaSink`` or ``IcebergSink``.

    A commit appends rows and sets the next offset of their partitions, in one commit of the table. It fails if the
    table's offset of a partition differs from the offset at which the rows begin.
    """

    form: ClassVar[TableFormat]

    def __init__(self, partition_by: str | Iterable[str], schema_mode: SchemaMode) -> None:
        self.partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        if schema_mode not in ("error", "merge"):
            raise UsageError(f"schema_mode={schema_mode!r}: expected 'error' or 'merge'")
        self.schema_mode = schema_mode

    @property
    @abstractmethod
    def name(self) -> str:
        """Format and place of the table, for messages."""

    def open(self, schema: pa.Schema) -> None:
        """Create the table for rows of ``schema``, or check that the rows fit the existing table.

        With ``schema_mode="merge"`` adds the columns that the table lacks. Raises TableError for rows that do not fit,
        and for a table with other partition columns than ``partition_by``.
        """
        rows = stored_schema(schema, self.form)
        unknown = [name for name in self.partition_by if name not in rows.names]
        if unknown:
            raise TableError(f"partition_by={unknown[0]!r}: the rows have no such column, only {', '.join(rows.names)}")
        if set(rows.names) <= set(self.partition_by):
            raise TableError(f"partition_by={self.partition_by}: at least one column must remain in the files")
        if not self.exists():
            self.create(rows)
        self.refresh()
        found = self.partition_columns()
        if self.partition_by and found != self.partition_by:
            raise TableError(f"{self.name} is partitioned by {found}, not by {self.partition_by}: omit partition_by")
        for _ in range(ATTEMPTS):
            added = new_columns(rows, self._columns(), self.name)
            if added and self.schema_mode == "error":
                raise TableError(
                    f"{self.name} has no column {added[0].name!r}: pass schema_mode='merge' to add"
                    f" {', '.join(field.name for field in added)}, or drop it in transform="
                )
            if not added:
                return
            try:
                self.add_columns(added)
            except self.conflicts():
                pass
            self.refresh()

    def check(self, source: TopicLife, accept_recreated: Collection[str]) -> None:
        """Raise TableError if the table holds offsets of the topic from another group, or of an earlier topic."""
        owner = self.owner(source)
        if owner == "other group":
            other = self.group_of(source.topic)
            raise TableError(
                f"{self.name} holds rows of topic {source.topic!r} from group {other or 'another group'!r}, not from"
                f" {source.group!r}: a second group would write each row again; use that group, or another table"
            )
        if owner == "other topic" and source.topic not in accept_recreated:
            raise TableError(
                f"{self.name} holds rows of an earlier topic {source.topic!r}: the topic was deleted and created again,"
                " or belongs to another cluster. Its offsets begin again and do not match the table's. To append the"
                f" rows of the new topic, pass accept_recreated=[{source.topic!r}]"
            )

    def commit(self, rows: pa.Table, steps: Sequence[OffsetStep], accept_recreated: Collection[str] = ()) -> None:
        """Append rows and set the offsets of their partitions, in one commit.

        An attempt with an unknown outcome succeeded if the table has its offsets. Raises Fenced if the table has other
        offsets than expected, and TableError if other writers win every attempt, or as ``check``: another group may
        have committed its first rows since the partitions were assigned.
        """
        lost: Exception | None = None
        for _ in range(ATTEMPTS):
            self.refresh()
            for source in {step.source for step in steps}:
                self.check(source, accept_recreated)
            found = [self.offset(step.source, step.partition) for step in steps]
            if isinstance(lost, self.unknown_outcomes()) and found == [step.end for step in steps]:
                return
            for at, step in zip(found, steps, strict=True):
                if at != step.stored:
                    raise Fenced(
                        f"{step.source.topic}-{step.partition}: the table is at offset {at}, not {step.stored}"
                    )
            try:
                self.append(self._fitted(rows), steps)
            except (*self.conflicts(), *self.unknown_outcomes()) as error:
                lost = error
            else:
                return
        raise TableError(f"{self.name}: other writers won {ATTEMPTS} commits in a row: {lost}") from lost

    def _fitted(self, rows: pa.Table) -> pa.Table:
        columns = self._columns()
        dropped = new_columns(stored_schema(rows.schema, self.form), columns, self.name)
        if dropped:
            raise TableError(f"another writer dropped column {dropped[0].name!r} of {self.name}: load again")
        return fit_rows(rows, columns)

    def _columns(self) -> pa.Schema:
        return stored_schema(self.columns(), self.form)

    @abstractmethod
    def exists(self) -> bool:
        """Return whether the table exists."""

    @abstractmethod
    def create(self, schema: pa.Schema) -> None:
        """Create the table, unless another member created it meanwhile."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the newest version of the table."""

    @abstractmethod
    def columns(self) -> pa.Schema:
        """Return the table's columns."""

    @abstractmethod
    def partition_columns(self) -> list[str]:
        """Return the columns by which the table is partitioned."""

    @abstractmethod
    def add_columns(self, fields: list[pa.Field]) -> None:
        """Add nullable columns to the table."""

    @abstractmethod
    def owner(self, source: TopicLife) -> Owner:
        """Return whose offsets of the source's topic the table holds."""

    @abstractmethod
    def group_of(self, topic: str) -> str | None:
        """Return the group that wrote rows of the topic; None if the table no longer says."""

    @abstractmethod
    def offset(self, source: TopicLife, partition: int) -> int | None:
        """Return the next offset of a partition; None if the table holds none for this source."""

    @abstractmethod
    def append(self, rows: pa.Table, steps: Sequence[OffsetStep]) -> None:
        """Append rows and offsets to the version that ``refresh`` read. Raises one of ``conflicts()`` if it lost."""

    @abstractmethod
    def conflicts(self) -> tuple[type[Exception], ...]:
        """Return the errors of a commit that lost a race against another writer."""

    def failures(self) -> tuple[type[Exception], ...]:
        """Return the errors of the library for a table, catalog or store that cannot be used."""
        return ()

    @contextmanager
    def explained(self, action: str) -> Iterator[None]:
        """Turn errors of the library and of the file system into TableError, with the table and the action."""
        failures: tuple[type[Exception], ...] = (OSError, *self.failures())
        try:
            yield
        except KohortError:
            raise
        except failures as error:
            text = " ".join(str(error).split())
            raise TableError(
                f"{self.name}: cannot {action}: {type(error).__name__}: {text[:LONGEST_REASON]}. The table and the"
                " group's offsets agree on what is written: mend the cause, then load again"
            ) from error

    def unknown_outcomes(self) -> tuple[type[Exception], ...]:
        """Return the errors of a commit with an unknown outcome: only the refreshed table shows the outcome."""
        return ()


def commit_facts(steps: Iterable[OffsetStep]) -> dict[str, str]:
    """Return the group and the offsets of a commit, for the table's history."""
    topics: dict[str, Any] = {}
    group = ""
    for step in steps:
        group = step.source.group
        ids = {"cluster_id": step.source.cluster_id, "topic_id": step.source.topic_id}
        topics.setdefault(step.source.topic, {**ids, "offsets": {}})["offsets"][str(step.partition)] = step.end
    return {"kohort.group": group, "kohort.offsets": json.dumps(topics)}
