from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from kohort.aio.producing.record_forms import ArrowRows  # noqa: E402 - behind importorskip
from kohort.config.client import ProducerConfig  # noqa: E402 - behind importorskip
from kohort.errors import UsageError  # noqa: E402 - behind importorskip

TABLE = pa.table({"key": ["a", None], "value": [b"1", b"2"]})
COLUMNS = ("value", "key", "headers", "timestamp", "partition")


class Frame:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        views = pa.schema([("key", pa.string_view()), ("value", pa.binary_view())])
        return TABLE.cast(views).__arrow_c_stream__(requested_schema)


def encoded(table: object) -> list[bytes]:
    rows = ArrowRows(table, *COLUMNS)
    return [
        batch.data
        for batch in rows.encoded(ProducerConfig(bootstrap_servers=["localhost:9092"]), 1, 1_700_000_000_000, 0)
    ]


@pytest.mark.parametrize("table", [TABLE.to_batches()[0], TABLE.to_reader(), Frame()], ids=["batch", "reader", "frame"])
def test_send_arrow_accepts_record_batch_readers_and_data_frames(table: object) -> None:
    assert encoded(table) == encoded(TABLE)


@pytest.mark.parametrize("rows", [None, {"value": [b"1"]}, [b"1"]])
def test_send_arrow_rejects_objects_without_arrow_interface(rows: object) -> None:
    with pytest.raises(
        UsageError, match="send_arrow takes a pyarrow Table, RecordBatch or RecordBatchReader, or a data"
    ):
        encoded(rows)
