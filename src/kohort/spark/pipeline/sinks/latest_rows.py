"""Merge of change events into the latest row of each key: Arrow tables, without Spark.

The last event of a key wins. Events are ordered by micro-batch and offset: Kafka keeps the order of a key, since all
its records are in one partition. With an order column its values decide, and the offset only between equal values. Then
the keys of deleted rows are kept too, so that a late duplicate does not bring a row back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.errors import KohortError

PLACE: Final = "_source"
"""Column of the stored rows: topic, partition, offset and micro-batch of the event, and its order."""
DELETED, UNCHANGED = "_deleted", "_unchanged"
_PLACES: Final = ("topic", "partition", "offset", "batch")


class EventRefused(KohortError):
    """Error: an event that no rule can merge."""


class LatestRows(NamedTuple):
    """Rows by key, and the keys of deleted rows (kept only with an order column)."""

    live: pa.Table
    deleted: pa.Table


def place_type(order: pa.DataType | None) -> pa.DataType:
    fields = [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("batch", pa.int64())]
    return pa.struct([*fields, *([("order", order)] if order is not None else [])])


def merge(stored: LatestRows | None, events: pa.Table, keys: Sequence[str]) -> LatestRows:
    """Merge events into the stored rows. A repeated merge of the same events changes nothing.

    ``events``: columns of the rows, ``_source`` (see ``place_type``), ``_deleted``, and ``_unchanged``: the names of
    columns that keep the value of the row before. Raises EventRefused for an event without key or order, and for a key
    in two partitions without an order column.
    """
    ordered = events.schema.field(PLACE).type.get_field_index("order") >= 0
    _check_events(events, keys, ordered=ordered)
    tables = [_flagged(stored.live, deleted=False), _flagged(stored.deleted, deleted=True)] if stored else []
    everything = pa.concat_tables([*tables, events], promote_options="default").combine_chunks()
    everything, first = _sorted(everything, keys, ordered=ordered)
    starts = np.flatnonzero(first)
    last = np.append(starts[1:], everything.num_rows) - 1
    if not ordered:
        _check_partitions(everything, keys, first)
    rows = _keep_unchanged(everything, starts, last).drop_columns([UNCHANGED])
    is_deleted = rows.column(DELETED)
    rows = rows.drop_columns([DELETED])
    deleted = rows.filter(is_deleted).select([*keys, PLACE])
    return LatestRows(rows.filter(pc.invert(is_deleted)), deleted if ordered else deleted.slice(0, 0))


def _flagged(rows: pa.Table, *, deleted: bool) -> pa.Table:
    rows = rows.append_column(DELETED, pa.array(np.full(rows.num_rows, deleted)))
    return rows.append_column(UNCHANGED, pa.nulls(rows.num_rows, pa.list_(pa.string())))


def _check_events(events: pa.Table, keys: Sequence[str], *, ordered: bool) -> None:
    order = events.column(PLACE).combine_chunks().field("order") if ordered else None
    for what, column in (
        *((f"the key column {key} is NULL", events.column(key)) for key in keys),
        ("the order column is NULL", order),
    ):
        if column is not None and column.null_count:
            place = events.column(PLACE)[int(np.flatnonzero(np.asarray(column.is_null()))[0])].as_py()
            raise EventRefused(
                f"{place['topic']}-{place['partition']} offset {place['offset']}: {what}. Remove such rows in a step "
                "(filters: true), or send them to the dead letters with expect: {not_null: ...}"
            )


def _sorted(rows: pa.Table, keys: Sequence[str], *, ordered: bool) -> tuple[pa.Table, Any]:
    """Sort rows by key and order. Return them with a mask: True for the first row of each key."""
    place = rows.column(PLACE).combine_chunks()
    by = {f"k{i}": rows.column(key) for i, key in enumerate(keys)}
    # rows from before the order column was set have no order: every event replaces them
    by |= {"has_order": place.field("order").is_valid(), "order": place.field("order")} if ordered else {}
    by |= {name: place.field(name) for name in ("batch", "offset")}
    table = pa.table(by)
    rows = rows.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in by])).combine_chunks()
    first = np.zeros(rows.num_rows, bool)
    first[:1] = True
    for key in keys:
        column = rows.column(key).combine_chunks()
        first[1:] |= np.asarray(pc.not_equal(column[1:], column[:-1]))
    return rows, first


def _check_partitions(rows: pa.Table, keys: Sequence[str], first: Any) -> None:
    """Raise EventRefused for a key in two partitions: their offsets have no order."""
    place = rows.column(PLACE).combine_chunks()
    moved = np.zeros(rows.num_rows, bool)
    for name in ("topic", "partition"):
        column = place.field(name)
        moved[1:] |= np.asarray(pc.not_equal(column[1:], column[:-1]))
    wrong = np.flatnonzero(moved & ~first)
    if len(wrong):
        at = int(wrong[0])
        key = ", ".join(f"{name}={rows.column(name)[at].as_py()}" for name in keys)
        one, other = (f"{p['topic']}-{p['partition']}" for p in (place[at - 1].as_py(), place[at].as_py()))
        raise EventRefused(
            f"key {key} is in {one} and in {other}, whose offsets have no order: set order, such as order: __position"
        )


def _keep_unchanged(rows: pa.Table, starts: Any, last: Any) -> pa.Table:
    """Return the last row of each key. An unchanged column has the value of the last row that has one."""
    unchanged = rows.column(UNCHANGED).combine_chunks()
    found = rows.take(pa.array(last))
    names = pc.list_flatten(unchanged)
    parents = np.asarray(pc.list_parent_indices(unchanged))
    for name in pc.unique(names).to_pylist():
        if name not in rows.column_names:
            continue
        place = np.arange(rows.num_rows)
        place[parents[np.asarray(pc.equal(names, name))]] = -1
        source = np.maximum.accumulate(place)[last]
        values = rows.column(name).take(pa.array(source, mask=source < starts))
        found = found.set_column(found.column_names.index(name), rows.schema.field(name), values)
    return found
