"""Reads and merges Parquet files without Spark: how many rows they hold, and several made one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES: Final = 64 * 1024 * 1024
"""About how much of a merged file is in memory at once, and then one row group."""


def rows_in(files: Sequence[Path], counts: str = "") -> int:
    """Return the rows of these files; with ``counts``, the sum of that column, which says how many rows each stands
    for."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not counts:
        return sum(pq.read_metadata(file).num_rows for file in files)
    return sum(int(pc.sum(pq.ParquetFile(file).read([counts])[counts]).as_py() or 0) for file in files)


def by_schema(files: Sequence[Path]) -> list[list[Path]]:
    """Group neighbours whose columns are the same: only those can be one file."""
    import pyarrow.parquet as pq

    return [list(run) for _, run in groupby(files, key=lambda file: pq.read_schema(file).remove_metadata())]


def merge_files(files: Sequence[Path], target: Path) -> None:
    """Write the rows of files of one schema to ``target``, in their order, with the notes that Spark made in them.

    It is on the disk when this returns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = pq.ParquetFile(files[0])
    schema = first.schema_arrow
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(target, schema, compression=_compression(files[0]), store_schema=False) as writer:
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches():
                held.append(batch)
                if sum(b.nbytes for b in held) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(held, held[0].schema).cast(schema))
                    held = []
        if held:
            writer.write_table(pa.Table.from_batches(held, held[0].schema).cast(schema))
        notes = first.metadata.metadata or {}
        writer.add_key_value_metadata({k: v for k, v in notes.items() if k != b"ARROW:schema"})
    with target.open("rb") as written:
        os.fsync(written.fileno())


def _compression(file: Path) -> str:
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(file)
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    found = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none"}.get(found, found)
