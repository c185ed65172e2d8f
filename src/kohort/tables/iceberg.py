"""An Iceberg table: offsets are a table property per topic, set in the commit that appends the rows.

A commit names the snapshot that it follows. It fails if another commit came first, so no other member changes the
property in between.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from kohort.errors import TableError, UsageError
from kohort.extras import needs
from kohort.tables.columns import ICEBERG, TableFormat
from kohort.tables.sink import OffsetStep, Owner, SchemaMode, TableSink, TopicLife, commit_facts

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

RETRIES: Final = "commit.retry.num-retries"
PROPERTY: Final = "kohort.offsets."


class IcebergSink(TableSink):
    """An Iceberg table ``namespace.table`` of a catalog. Needs ``kohort[iceberg]``.

    ``catalog`` is a catalog of pyiceberg, its name in ``.pyiceberg.yaml``, or a mapping of the arguments of pyiceberg's
    ``load_catalog``. ``load`` creates a missing table, partitioned by the columns ``partition_by``.
    ``schema_mode="merge"`` adds columns that the table lacks; ``"error"`` refuses them. Raises MissingExtra, and
    UsageError for an invalid argument.
    """

    form: ClassVar[TableFormat] = ICEBERG

    def __init__(
        self,
        table: str,
        *,
        catalog: Catalog | Mapping[str, str] | str = "default",
        partition_by: str | Iterable[str] = (),
        schema_mode: SchemaMode = "error",
    ) -> None:
        super().__init__(partition_by, schema_mode)
        with needs("iceberg", "IcebergSink"):
            import pyiceberg.exceptions
            import sqlalchemy.exc
            from pyiceberg.catalog import load_catalog
        if not isinstance(table, str) or not table.rpartition(".")[0]:
            raise UsageError(f"IcebergSink: the table {table!r} needs a namespace, as in 'sales.orders'")
        self._errors = pyiceberg.exceptions
        self._of_sql_catalogs = (sqlalchemy.exc.SQLAlchemyError,)
        self.table = table
        if isinstance(catalog, str):
            catalog = load_catalog(catalog)
        elif isinstance(catalog, Mapping):
            catalog = load_catalog(**catalog)
        self.catalog = catalog
        self._handle: Table | None = None

    @property
    def name(self) -> str:
        return f"the Iceberg table {self.table}"

    def exists(self) -> bool:
        return self.catalog.table_exists(self.table)

    def create(self, schema: pa.Schema) -> None:
        namespace = self.table.rpartition(".")[0]
        with _unless(lambda: self.catalog.namespace_exists(namespace)):
            self.catalog.create_namespace_if_not_exists(namespace)
        with (
            _unless(self.exists),
            self.catalog.create_table_transaction(self.table, schema) as new,
            new.update_spec() as spec,
        ):
            for column in self.partition_by:
                spec.add_identity(column)

    def refresh(self) -> None:
        if self._handle is None:
            self._handle = self.catalog.load_table(self.table)
        else:
            self._handle.refresh()
        # In this handle only: a retry of pyiceberg would append to a later snapshot without reading its offsets.
        self._handle.metadata.properties[RETRIES] = "0"

    @property
    def _table(self) -> Table:
        if self._handle is None:
            self.refresh()
        assert self._handle is not None
        return self._handle

    def columns(self) -> pa.Schema:
        return self._table.schema().as_arrow()

    def partition_columns(self) -> list[str]:
        return [field.name for field in self._table.spec().fields]

    def add_columns(self, fields: list[pa.Field]) -> None:
        with self._table.update_schema() as update:
            update.union_by_name(pa.schema(fields))

    def _stored(self, topic: str) -> dict[str, Any]:
        text = self._table.properties.get(PROPERTY + topic)
        if text is None:
            return {}
        try:
            found: dict[str, Any] = json.loads(text)
            return {"offsets": dict[str, int](found["offsets"]), **{name: str(found[name]) for name in _IDS}}
        except (ValueError, KeyError, TypeError) as error:
            raise TableError(f"{self.name}: property {PROPERTY + topic} is not kohort's: {text[:200]!r}") from error

    def owner(self, source: TopicLife) -> Owner:
        stored = self._stored(source.topic)
        if not stored:
            return "none"
        if stored["group"] != source.group:
            return "other group"
        return "same" if all(stored[name] == getattr(source, name) for name in _IDS) else "other topic"

    def group_of(self, topic: str) -> str | None:
        return self._stored(topic).get("group")

    def offset(self, source: TopicLife, partition: int) -> int | None:
        if self.owner(source) != "same":
            return None
        found: int | None = self._stored(source.topic)["offsets"].get(str(partition))
        return found

    def append(self, rows: pa.Table, steps: Sequence[OffsetStep]) -> None:
        properties = {}
        for source in {step.source for step in steps}:
            offsets = self._stored(source.topic)["offsets"] if self.owner(source) == "same" else {}
            offsets.update({str(step.partition): step.end for step in steps if step.source == source})
            ids = {name: getattr(source, name) for name in _IDS}
            properties[PROPERTY + source.topic] = json.dumps({**ids, "offsets": offsets})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pyiceberg, about its own deprecations and old metadata files
            with self._table.transaction() as transaction:
                transaction.set_properties(properties)
                transaction.append(rows, snapshot_properties=commit_facts(steps))

    def conflicts(self) -> tuple[type[Exception], ...]:
        return (self._errors.CommitFailedException,)

    def failures(self) -> tuple[type[Exception], ...]:
        found = [one for one in vars(self._errors).values() if isinstance(one, type) and issubclass(one, Exception)]
        return (*found, *self._of_sql_catalogs)

    def unknown_outcomes(self) -> tuple[type[Exception], ...]:
        return (self._errors.CommitStateUnknownException,)


_IDS: Final = ("group", "cluster_id", "topic_id")


@contextmanager
def _unless(exists: Callable[[], bool]) -> Iterator[None]:
    """Ignore an error, such as a catalog's database raises, if another member created the object meanwhile."""
    try:
        yield
    except Exception:
        if not exists():
            raise
