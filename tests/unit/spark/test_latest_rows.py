"""Latest rows of change events: compared with the database that the events come from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.spark.options.changes import ChangeOptions  # noqa: E402 - behind importorskip
from kohort.spark.pipeline.sinks.latest_rows import (  # noqa: E402 - behind importorskip
    DELETED,
    PLACE,
    UNCHANGED,
    EventRefused,
    LatestRows,
    merge,
    place_type,
)
from kohort.spark.values.debezium import ChangeReader  # noqa: E402 - behind importorskip
from support.change_events import ChangedTable, ChangeRecord  # noqa: E402 - behind importorskip

ROW = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us")),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
READ = pa.schema([*ROW, ("__op", pa.string()), ("__unchanged", pa.list_(pa.string())), ("__position", pa.string())])
WITHOUT_SCHEMAS = ChangeOptions(decimals="precise", times={"": "microseconds"})


def events_of(records: list[tuple[int, ChangeRecord]], batch: int, *, ordered: bool) -> Any:
    """Decode records with their offsets; leave out the tombstones."""
    kept = [(offset, record) for offset, record in records if record.value is not None]
    values, keys = (pa.array([getattr(r, name) for _, r in kept], pa.binary()) for name in ("value", "key"))
    decoded = ChangeReader(READ, WITHOUT_SCHEMAS).read_block(values, keys)
    assert not decoded.problems
    columns = dict(zip(READ.names, decoded.columns, strict=True))
    places = [
        {"topic": "items", "partition": record.partition, "offset": offset, "batch": batch, "order": position}
        for (offset, record), position in zip(kept, columns["__position"].to_pylist(), strict=True)
    ]
    return pa.table({
        **{name: columns[name] for name in ROW.names},
        PLACE: pa.array(places, place_type(pa.string() if ordered else None)),
        DELETED: pa.array([op == "d" for op in columns["__op"].to_pylist()], pa.bool_()),
        UNCHANGED: columns["__unchanged"],
    })  # fmt: skip


def batches_of(records: list[ChangeRecord], chance: random.Random) -> Iterator[list[tuple[int, ChangeRecord]]]:
    """Cut records into micro-batches of random size, with their offsets."""
    ends = [0, 0, 0]
    batch: list[tuple[int, ChangeRecord]] = []
    for record in records:
        batch.append((ends[record.partition], record))
        ends[record.partition] += 1
        if chance.random() < 1 / 500:
            yield batch
            batch = []
    yield batch


def rows_of(latest: LatestRows) -> dict[int, dict[str, Any]]:
    found = latest.live.select(ROW.names).to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row for row in found}


@pytest.mark.heavy
@pytest.mark.parametrize(("ordered", "schemas", "records"), [(False, True, 3_000), (True, False, 20_000)])
def test_latest_rows_of_random_changes_equal_the_database(*, ordered: bool, schemas: bool, records: int) -> None:
    table, chance = ChangedTable(records, schemas=schemas), random.Random(records)
    table.change(records)
    latest = None
    for number, batch in enumerate(batches_of(table.records, chance)):
        events = events_of(batch, number, ordered=ordered)
        latest = merge(latest, events, ["id"])
        if chance.random() < 0.3:  # Spark repeats the micro-batch after a crash
            again = merge(latest, events, ["id"])
            assert rows_of(again) == rows_of(latest)
            latest = again

    assert latest is not None
    assert rows_of(latest) == table.rows
    assert len(table.rows) > 200


def test_with_an_order_column_repeated_events_of_a_restarted_connector_change_nothing_at_any_time() -> None:
    table = ChangedTable(3)
    table.change(300)
    latest = merge(None, events_of(list(enumerate(table.records)), 0, ordered=True), ["id"])
    offset = len(table.records)

    for number, record in enumerate(table.records[-80:], 1):
        if record.value is not None:
            latest = merge(latest, events_of([(offset + number, record)], number, ordered=True), ["id"])
        assert rows_of(latest) == table.rows


def event(key: int | None, offset: int, *, name: str | None = "a", batch: int = 0, **more: Any) -> dict[str, Any]:
    place = {"topic": "t", "partition": more.get("partition", 0), "offset": offset, "batch": batch}
    place |= {"order": more["order"]} if "order" in more else {}
    return {
        "id": key,
        "name": name,
        PLACE: place,
        DELETED: more.get("deleted", False),
        UNCHANGED: more.get("unchanged"),
    }


def merged(stored: LatestRows | None, *events: dict[str, Any], ordered: bool = False) -> LatestRows:
    kinds = [("id", pa.int64()), ("name", pa.string()), (PLACE, place_type(pa.int64() if ordered else None))]
    schema = pa.schema([*kinds, (DELETED, pa.bool_()), (UNCHANGED, pa.list_(pa.string()))])
    return merge(stored, pa.Table.from_pylist(list(events), schema), ["id"])


def names_of(latest: LatestRows) -> dict[int, str | None]:
    return {row["id"]: row["name"] for row in latest.live.to_pylist()}


def test_recreated_topic_starts_again_at_offset_0_and_its_later_batch_wins() -> None:
    before = merged(None, event(1, 500, name="old"))

    assert names_of(merged(before, event(1, 0, name="new", batch=1))) == {1: "new"}


def test_unchanged_column_of_an_unknown_row_is_null() -> None:
    assert names_of(merged(None, event(1, 0, name=None, unchanged=["name"]))) == {1: None}


def test_unchanged_column_does_not_reach_behind_a_new_insert() -> None:
    first = merged(None, event(1, 0), event(1, 1, deleted=True, name=None), event(1, 2, name=None))

    assert names_of(merged(first, event(1, 3, name=None, batch=1, unchanged=["name", "none"]))) == {1: None}


def test_new_column_is_null_in_rows_before() -> None:
    before = merged(None, event(1, 0))
    later = pa.Table.from_pylist([event(2, 1, batch=1) | {"size": 5}], pa.schema([
        ("id", pa.int64()), ("name", pa.string()), ("size", pa.int32()), (PLACE, place_type(None)),
        (DELETED, pa.bool_()), (UNCHANGED, pa.list_(pa.string())),
    ]))  # fmt: skip

    assert [(r["id"], r["size"]) for r in merge(before, later, ["id"]).live.to_pylist()] == [(1, None), (2, 5)]


@pytest.mark.parametrize(
    ("events", "ordered", "problem"),
    [
        ([event(1, 0), event(None, 7)], False, "t-0 offset 7: the key column id is NULL"),
        ([event(1, 0, order=1), event(2, 7, order=None)], True, "t-0 offset 7: the order column is NULL"),
        ([event(1, 0), event(1, 7, partition=1)], False, "key id=1 is in t-0 and in t-1, whose offsets have no order"),
    ],
)
def test_event_without_key_or_order_is_refused(events: list[dict[str, Any]], ordered: bool, problem: str) -> None:
    with pytest.raises(EventRefused, match=problem):
        merged(None, *events, ordered=ordered)


def test_order_column_set_later_orders_events_behind_the_rows_before() -> None:
    before = merged(None, event(1, 0, name="old"), event(2, 1, name="old"))

    latest = merged(before, event(1, 2, name="new", batch=1, order=7), ordered=True)
    latest = merged(latest, event(1, 3, name="late duplicate", batch=2, order=5), ordered=True)

    assert names_of(latest) == {1: "new", 2: "old"}


def test_with_an_order_column_a_key_may_move_to_another_partition() -> None:
    latest = merged(None, event(1, 9, order=1), event(1, 0, partition=1, order=2, name="b"), ordered=True)

    assert names_of(latest) == {1: "b"}
