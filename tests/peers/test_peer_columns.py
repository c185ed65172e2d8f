"""Columns against other clients: we read what they wrote, and they read what we wrote."""

from __future__ import annotations

from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import pytest

from kohort.columns.batches import OffsetRange
from kohort.columns.decode import decode_batches
from kohort.columns.encode import RecordColumns
from kohort.columns.records import records_of
from kohort.columns.records_by_kernels import located_records
from kohort.wire.compression import Codec
from support.encoded_batch import encode_batch

MIXED: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]] = [
    (b"key", b"value", [("h", b"1"), ("h", None), ("gr\u00f6\u00dfe", b"")], 1_700_000_000_000),
    (None, b"", [], 1_700_000_000_007),
    (b"", None, [("tombstone", b"yes")], 1_600_000_000_000),
    *((b"k%d" % i, b"a line that repeats itself " * 40, [], 1_700_000_000_000 + i) for i in range(200)),
]
"""Null and empty keys and values, headers, times out of order, and more than one block of every framing."""


def built_by(library: Any, codec: Codec) -> bytes:
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 24,
    )
    for i, (key, value, headers, timestamp_ms) in enumerate(MIXED):
        assert builder.append(i, timestamp_ms, key, value, headers) is not None
    return bytes(builder.build())


def encoded(codec: Codec) -> bytes:
    keys, values, headers, times = zip(*MIXED, strict=True)
    return encode_batch(RecordColumns(keys, values, times, headers), codec=codec)


@pytest.mark.parametrize("codec", Codec)
def test_what_aiokafka_wrote_is_read_as_columns_and_as_records(codec: Codec) -> None:
    batch = built_by(aiokafka_records, codec)

    rows = decode_batches(batch, OffsetRange("t", 0, 0), columns=["key", "value", "headers", "timestamp"]).to_pydict()
    plain = records_of(batch, OffsetRange("t", 0, 0))
    fast = located_records(batch, OffsetRange("t", 0, 0))

    headers = [[(h["key"], h["value"]) for h in row] for row in rows["headers"]]
    times = [round(t.timestamp() * 1000) for t in rows["timestamp"]]
    assert list(zip(rows["key"], rows["value"], headers, times, strict=True)) == MIXED
    assert [(r.key, r.value, list(r.headers), r.timestamp_ms) for r in plain] == MIXED
    assert fast == plain


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_what_columns_wrote(codec: Codec) -> None:
    theirs = aiokafka_records.DefaultRecordBatch(encoded(codec))

    assert theirs.validate_crc()
    assert [(r.key, r.value, list(r.headers), r.timestamp) for r in theirs] == MIXED


def test_uncompressed_batches_have_kafka_pythons_bytes() -> None:
    ours, theirs = encoded(Codec.NONE), built_by(kafka_python_records, Codec.NONE)

    assert ours[16:] == theirs[16:]  # before that lie offset and leader epoch, which are the broker's to write
