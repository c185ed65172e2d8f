"""A Delta table: offsets are app transactions (``txn`` actions of the Delta protocol).

An app transaction is a name and a number. The table keeps the last number of each name, through checkpoints and log
cleanup. A commit fails if a commit since the handle's version set one of its names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from kohort.errors import TableError
from kohort.extras import needs
from kohort.tables.columns import DELTA, TableFormat
from kohort.tables.sink import OffsetStep, Owner, SchemaMode, TableSink, TopicLife, commit_facts

if TYPE_CHECKING:
    from deltalake import DeltaTable

EXPIRY: Final = "delta.setTransactionRetentionDuration"
COMMITS_SEARCHED: Final = 100


class DeltaSink(TableSink):
    """A Delta table at ``uri``: a folder, or ``s3://bucket/path`` and the like. Needs ``kohort[delta]``.

    ``load`` creates a missing table, partitioned by the columns ``partition_by``. ``storage_options`` are the
    credentials and endpoint of the object store, as for ``deltalake``. ``schema_mode="merge"`` adds columns that the
    table lacks; ``"error"`` refuses them. Raises MissingExtra, and UsageError for another ``schema_mode``.
    """

    form: ClassVar[TableFormat] = DELTA

    def __init__(
        self,
        uri: str | Path,
        *,
        partition_by: str | Iterable[str] = (),
        storage_options: Mapping[str, str] | None = None,
        schema_mode: SchemaMode = "error",
    ) -> None:
        super().__init__(partition_by, schema_mode)
        with needs("delta", "DeltaSink"):
            import deltalake
        self._lib = deltalake
        self.uri = str(uri)
        self.storage_options = dict(storage_options or {})
        self._handle: DeltaTable | None = None

    @property
    def name(self) -> str:
        return f"the Delta table {self.uri}"

    def exists(self) -> bool:
        return self._lib.DeltaTable.is_deltatable(self.uri, self.storage_options)

    def create(self, schema: pa.Schema) -> None:
        options, errors = self.storage_options, self._lib.exceptions
        try:
            self._lib.DeltaTable.create(
                self.uri, schema, mode="ignore", partition_by=self.partition_by or None, storage_options=options
            )
        except (errors.DeltaError, errors.SchemaMismatchError) as error:
            if not self.exists():
                raise TableError(f"{self.name} cannot be created: {error}") from error

    def refresh(self) -> None:
        if self._handle is None:
            self._handle = self._lib.DeltaTable(self.uri, storage_options=self.storage_options)
        else:
            self._handle.update_incremental()
        expiry = self._handle.metadata().configuration.get(EXPIRY)
        if expiry:
            raise TableError(f"{self.name} forgets offsets after {expiry} (property {EXPIRY}): unset the property")

    @property
    def _table(self) -> DeltaTable:
        if self._handle is None:
            self.refresh()
        assert self._handle is not None
        return self._handle

    def columns(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    def partition_columns(self) -> list[str]:
        return list(self._table.metadata().partition_columns)

    def add_columns(self, fields: list[pa.Field]) -> None:
        self._table.alter.add_columns(list(self._lib.Schema.from_arrow(pa.schema(fields)).fields))

    def owner(self, source: TopicLife) -> Owner:
        group = self._table.transaction_version(_owner_id(source, "group"))
        if group is None:
            return "none"
        if group != _number(source.group):
            return "other group"
        same = self._table.transaction_version(_owner_id(source, "topic")) == _topic_number(source)
        return "same" if same else "other topic"

    def group_of(self, topic: str) -> str | None:
        for commit in self._table.history(COMMITS_SEARCHED):
            if f'"{topic}": ' in commit.get("kohort.offsets", ""):
                return str(commit.get("kohort.group"))
        return None

    def offset(self, source: TopicLife, partition: int) -> int | None:
        return self._table.transaction_version(_offset_id(source, partition))

    def append(self, rows: pa.Table, steps: Sequence[OffsetStep]) -> None:
        numbers = {_offset_id(step.source, step.partition): step.end for step in steps}
        for source in {step.source for step in steps}:
            if self.owner(source) != "same":  # set once: members that set a name at the same time conflict
                numbers[_owner_id(source, "group")] = _number(source.group)
                numbers[_owner_id(source, "topic")] = _topic_number(source)
        properties = self._lib.CommitProperties(
            custom_metadata=commit_facts(steps),
            app_transactions=[self._lib.Transaction(app_id, number) for app_id, number in numbers.items()],
        )
        # the handle that the offsets were read from: a handle of a later version would not notice a commit in between
        self._lib.write_deltalake(self._table, rows, mode="append", commit_properties=properties)

    def conflicts(self) -> tuple[type[Exception], ...]:
        return (self._lib.exceptions.CommitFailedError,)

    def failures(self) -> tuple[type[Exception], ...]:
        return (self._lib.exceptions.DeltaError,)


def _offset_id(source: TopicLife, partition: int) -> str:
    return f"kohort/{source.group}/{source.topic}/{source.topic_id or source.cluster_id}/{partition}"


def _owner_id(source: TopicLife, kind: str) -> str:
    return f"kohort/{source.topic}/{kind}"


def _topic_number(source: TopicLife) -> int:
    return _number(f"{source.cluster_id}/{source.topic_id}")


def _number(text: str) -> int:
    """Return 63 bits of a hash: an app transaction holds an int64."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
