from __future__ import annotations

from datetime import UTC, datetime

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from kohort.spark.values.row_builders import (  # noqa: E402 - behind importorskip
    ERROR,
    BadRecords,
    ValueRowBuilder,
)
from kohort.spark.values.value_format import ValueFormat  # noqa: E402 - behind importorskip

VALUE = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
ROWS = pa.schema([*VALUE, (ERROR, pa.string()), ("_key", pa.binary())])


def built(values: list[bytes | None], **options: str) -> list[dict[str, object]]:
    batch = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k%d" % n for n in range(len(values))], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * len(values),
            "partition": pa.array([0] * len(values), pa.int32()),
            "offset": pa.array(range(len(values)), pa.int64()),
        }
    )
    builder = ValueRowBuilder(ROWS, ValueFormat("json", VALUE), BadRecords("null", "", {}), **options)
    rows: list[dict[str, object]] = builder.build(batch).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("tombstones", "outcome"),
    [
        ("row", [(b"k0", 1, None), (b"k1", None, None), (b"k2", 3, None)]),
        ("drop", [(b"k0", 1, None), (b"k2", 3, None)]),
        ("bad", [(b"k0", 1, None), (b"k1", None, "the record has no value"), (b"k2", 3, None)]),
    ],
)
def test_tombstones_option_selects_a_row_of_nulls_a_bad_value_or_no_row(
    tombstones: str, outcome: list[tuple[object, ...]]
) -> None:
    rows = built([b'{"id": 1}', None, b'{"id": 3}'], tombstones=tombstones, zone="UTC")

    assert [(row["_key"], row["id"], row[ERROR]) for row in rows] == outcome


def test_timestamp_without_time_zone_uses_the_zone_option() -> None:
    values = [b'{"at": "2024-07-01T12:00:00"}', b'{"at": "2024-07-01T12:00:00Z"}']

    rows = built(values, zone="America/New_York")

    assert [row["at"] for row in rows] == [
        datetime(2024, 7, 1, 16, tzinfo=UTC), datetime(2024, 7, 1, 12, tzinfo=UTC)
    ]  # fmt: skip
