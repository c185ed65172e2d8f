"""Record batches, against the builders and readers of kafka-python, aiokafka and kio.

Uncompressed batches are compared byte for byte. Compressed ones need not be equal, so each side reads what the other
wrote. kafka-python compresses only with gzip unless more packages are installed; aiokafka does all codecs; kio none,
and its reader drops the milliseconds of a timestamp, so it is asked about whole seconds only.
"""

from __future__ import annotations

import datetime
import io
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import kafka.record.default_records as kafka_python_records
import kio.records.readers
import kio.records.schema
import kio.records.writers
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.wire.compression import Codec
from kohort.wire.record_batch import NewRecord, build_batch, check_crc, parse_batch_header, read_batch

SOME = settings(max_examples=25)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
BLOBS = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        key=BLOBS,
        value=BLOBS,
        headers=st.lists(st.tuples(NAMES, BLOBS), max_size=3),
        timestamp_ms=st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=8,
)

MIXED = [
    NewRecord(b"key", b"value", [("h", b"1"), ("h", None), ("größe", b"")], 1_700_000_000_000),
    NewRecord(None, b"", [], 1_700_000_000_007),
    NewRecord(b"", None, [("tombstone", b"yes")], 1_600_000_000_000),
    *(NewRecord(b"k%d" % i, b"a line that repeats itself " * 40, [], 1_700_000_000_000 + i) for i in range(200)),
]
"""Null and empty keys and values, headers, times out of order, and more than one block of every framing."""


def plain(batch: bytes) -> list[tuple[Any, ...]]:
    header = parse_batch_header(batch)
    check_crc(batch, 0, header)
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in read_batch(batch)]


def expected(records: list[NewRecord]) -> list[tuple[Any, ...]]:
    return [(i, r.timestamp_ms, r.key, r.value, list(r.headers)) for i, r in enumerate(records)]


def built_by(library: Any, records: list[NewRecord], codec: Codec, **producer: int) -> bytes:
    """A batch from the builder that kafka-python and aiokafka share the shape of."""
    builder = library.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=producer.get("is_transactional", 0),
        producer_id=producer.get("producer_id", -1),
        producer_epoch=producer.get("producer_epoch", -1),
        base_sequence=producer.get("base_sequence", -1),
        batch_size=1 << 24,
    )
    for i, r in enumerate(records):
        assert builder.append(i, r.timestamp_ms, r.key, r.value, list(r.headers)) is not None
    return bytes(builder.build())


def decoded_by(library: Any, batch: bytes) -> list[tuple[Any, ...]]:
    theirs = library.DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]


@SOME
@given(records=RECORDS, producer_id=st.integers(0, 2**63 - 1), epoch=st.integers(0, 2**15 - 1), data=st.data())
def test_an_uncompressed_batch_has_kafka_pythons_bytes(
    records: list[NewRecord], producer_id: int, epoch: int, data: st.DataObject
) -> None:
    sequence = data.draw(st.integers(0, 2**31 - 1))
    transactional = data.draw(st.booleans())

    ours = build_batch(
        records,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )

    assert ours == built_by(
        kafka_python_records,
        records,
        Codec.NONE,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    assert plain(ours) == expected(records)


@SOME
@given(records=RECORDS, base_offset=st.integers(0, 2**40), leader_epoch=st.integers(-1, 2**31 - 1))
def test_an_uncompressed_batch_has_kios_bytes(records: list[NewRecord], base_offset: int, leader_epoch: int) -> None:
    records = [r._replace(timestamp_ms=r.timestamp_ms // 1000 * 1000) for r in records]
    theirs = kio.records.schema.NewRecordBatch(
        producer_id=-1,
        producer_epoch=-1,
        partition_leader_epoch=leader_epoch,
        base_sequence=-1,
        attributes=0,
        records=tuple(
            kio.records.schema.Record(
                attributes=0,
                timestamp=datetime.datetime.fromtimestamp(r.timestamp_ms // 1000, datetime.UTC),
                offset=base_offset + i,
                key=r.key,
                value=r.value,
                headers=tuple(kio.records.schema.RecordHeader(key=n.encode(), value=v) for n, v in r.headers),
            )
            for i, r in enumerate(records)
        ),
    )
    out = io.BytesIO()
    kio.records.writers.write_batch(out, theirs)

    ours = build_batch(records, leader_epoch=leader_epoch)
    placed = build_batch(records, leader_epoch=leader_epoch, base_offset=base_offset)

    assert ours[8:] == out.getvalue()[8:]  # a new batch of kio's always says that its base offset is 0
    decoded, size = kio.records.readers.read_batch(placed, 0)
    assert size == len(placed)
    assert [(r.offset, r.key, r.value) for r in decoded.records] == [
        (base_offset + i, r.key, r.value) for i, r in enumerate(records)
    ]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda c: c.name)
def test_aiokafka_reads_what_we_compress_and_we_what_it_does(codec: Codec) -> None:
    ours = build_batch(MIXED, codec=codec)
    theirs = built_by(aiokafka_records, MIXED, codec)

    assert parse_batch_header(theirs).codec is codec
    assert decoded_by(aiokafka_records, ours) == expected(MIXED)
    assert plain(theirs) == expected(MIXED)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda c: c.name)
def test_kafka_python_reads_what_we_compress_and_we_what_it_does(codec: Codec) -> None:
    ours = build_batch(MIXED, codec=codec)
    theirs = built_by(kafka_python_records, MIXED, codec)

    assert parse_batch_header(theirs).codec is codec
    assert decoded_by(kafka_python_records, ours) == expected(MIXED)
    assert plain(theirs) == expected(MIXED)


def test_peers_agree_on_a_batch_of_log_append_time() -> None:
    batch = build_batch(MIXED[:3], log_append_time_ms=1_800_000_000_000)

    times = [1_800_000_000_000] * 3
    assert [r.timestamp_ms for r in read_batch(batch)] == times
    assert [r[1] for r in decoded_by(kafka_python_records, batch)] == times
    assert [r[1] for r in decoded_by(aiokafka_records, batch)] == times
