"""Headers that name where a row came from, added to a whole Arrow column at a time.

A sink that is at least once may send a row twice: when Spark repeats a task or a micro-batch. The repeated row carries
the same query, micro-batch, task and row number (as long as the plan gives the same task the same rows, which sources
with offsets and their projections do), so a reader that remembers these four can drop it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

QUERY: Final = "kohort-query"
BATCH: Final = "kohort-batch"
TASK: Final = "kohort-task"
ROW: Final = "kohort-row"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who sends: the query's id, the micro-batch, and the task's number in it."""

    query: str
    batch: str
    task: int


def delivery_headers(origin: Origin, first_row: int, rows: int) -> list[tuple[str, pa.Array]]:
    """Return the headers of ``rows`` rows, the first of which is the task's row number ``first_row``."""
    import numpy as np
    import pyarrow as pa

    def constant(text: str) -> pa.Array:
        return pa.repeat(pa.scalar(text.encode(), pa.binary()), rows)

    numbers = pa.array(np.arange(first_row, first_row + rows)).cast(pa.string()).cast(pa.binary())
    return [
        (QUERY, constant(origin.query)),
        (BATCH, constant(origin.batch)),
        (TASK, constant(str(origin.task))),
        (ROW, numbers),
    ]


def add_headers(own: pa.Array | None, rows: int, more: Sequence[tuple[str, pa.Array]]) -> pa.Array:
    """Return a column list<struct<key, value>>: each row's own headers, then one of each of ``more`` (name, value by
    row)."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [pa.repeat(pa.scalar(name, pa.string()), rows) for name, _ in more]
    values = [value for _, value in more]
    counts = np.zeros(rows, np.int64)
    taken = 0
    if own is not None and len(own):
        counts = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        flat = own.flatten()
        names.insert(0, flat.field(0).cast(pa.string()))
        values.insert(0, flat.field(1).cast(pa.binary()))
        taken = len(flat)
    # Row r holds its own items and then len(more) new ones; the new ones lie behind all own items, name by name.
    starts = np.concatenate(([0], np.cumsum(counts + len(more))))
    order = np.empty(starts[-1], np.int64)
    is_new = np.zeros(starts[-1], bool)
    for place in range(len(more)):
        at = starts[1:] - len(more) + place
        order[at] = taken + place * rows + np.arange(rows)
        is_new[at] = True
    order[~is_new] = np.arange(taken)
    items = pa.StructArray.from_arrays(
        [pa.concat_arrays(names).take(pa.array(order)), pa.concat_arrays(values).take(pa.array(order))],
        ["key", "value"],
    )
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), items)
