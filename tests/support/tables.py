"""Delta and Iceberg sinks in a folder, and the rows of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kohort.tables import DeltaSink, IcebergSink, TableSink

FORMATS = ("delta", "iceberg")


def sink_in(folder: Path, form: str, **options: Any) -> TableSink:
    """Return a new sink on the table ``orders`` of a folder, as another process would make it."""
    if form == "delta":
        return DeltaSink(folder / "orders", **options)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return IcebergSink("lake.orders", catalog=catalog, **options)


def table_of(sink: TableSink) -> Any:
    """Return the newest version of the table: an object of deltalake or pyiceberg."""
    sink.refresh()
    return getattr(sink, "_table")  # noqa: B009 - both sinks have it, their base class does not


def rows_of(sink: TableSink) -> list[dict[str, Any]]:
    table = table_of(sink)
    read = table.to_pyarrow_table() if isinstance(sink, DeltaSink) else table.scan().to_arrow()
    rows: list[dict[str, Any]] = read.to_pylist()
    return rows
