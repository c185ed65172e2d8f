"""``compression.type``: a topic with a codec of its own recompresses other batches."""

import mmap

import pytest

from kohort.config.broker import COMPRESSION_TYPES
from kohort.errors import ApiError, CorruptRecord, ErrorCode
from kohort.log.keyed_records import body_of, keyed_records
from kohort.log.recoding import CODECS
from kohort.wire.codec import Buffer
from kohort.wire.compression import DEFAULT_MAX_BYTES, Codec, decompressed
from kohort.wire.record_batch import (
    HEADER_BYTES,
    SMALLEST_LENGTH,
    NewRecord,
    build_batch,
    check_crc,
    pack_batch,
    parse_batch_header,
    read_batch,
)
from kohort.wire.varints import varint_bytes
from support.machines.log_stage import LogStage, batch, values_from


def stored(stage: LogStage) -> Buffer:
    data = b"".join(stage.log.read(0, 1 << 20))
    check_crc(data, 0, parse_batch_header(data))
    return data


def test_every_compression_type_has_a_codec():
    assert tuple(CODECS) == COMPRESSION_TYPES


@pytest.mark.parametrize("topic_codec", [name for name in COMPRESSION_TYPES if name != "producer"])
@pytest.mark.parametrize("producer_codec", list(Codec))
def test_batch_is_recompressed_in_topic_codec(topic_codec, producer_codec):
    stage = LogStage(compression_type=topic_codec)

    appended = stage.append("a", "b" * 300, "c", codec=producer_codec, at_ms=stage.now_ms)

    assert parse_batch_header(stored(stage)).codec == CODECS[topic_codec]
    assert (appended.base_offset, appended.last_offset) == (0, 2)
    assert values_from(stage.log, 0) == ["a", "b" * 300, "c"]


def test_recompression_changes_only_codec_length_and_crc():
    stage = LogStage(compression_type="lz4")
    data = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.GZIP, producer_id=7, producer_epoch=2, base_sequence=0)

    stage.log.append(data, stage.now_ms)

    header = parse_batch_header(stored(stage))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 2, 0, 1)
    assert header.max_timestamp == stage.now_ms
    assert read_batch(stored(stage))[0].value == b"x" * 100


def test_producer_codec_is_kept():
    stage = LogStage()
    data = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.ZSTD)

    stage.log.append(data, stage.now_ms)

    assert bytes(stored(stage))[61:] == data[61:]


def test_repeated_batch_in_other_codec_is_recognized():
    stage = LogStage(compression_type="gzip")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}

    first = stage.append("a", codec=Codec.LZ4, **producer)
    again = stage.append("a", codec=Codec.NONE, **producer)

    assert (first.duplicate, again.duplicate, again.base_offset) == (False, True, 0)


def test_undecompressible_batch_is_rejected():
    stage = LogStage(compression_type="uncompressed")
    good = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.GZIP)
    bad = pack_batch(parse_batch_header(good), b"no gzip at all")

    with pytest.raises(ApiError, match="gzip") as refused:
        stage.log.append(bad, stage.now_ms)

    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert stage.log.log_end_offset == 0


def test_recompressed_batch_above_limit_is_too_large():
    stage = LogStage(compression_type="uncompressed", max_message_bytes="500")

    with pytest.raises(ApiError, match=r"uncompressed|none") as refused:
        stage.append("x" * 600, codec=Codec.GZIP)

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stage.log.log_end_offset == 0


@pytest.mark.parametrize("over", [0, 1])
def test_recompressed_batch_at_limit_is_accepted(over):
    value = "x" * 600
    size = len(batch([value], at_ms=0))
    stage = LogStage(compression_type="uncompressed", max_message_bytes=str(size - over))

    if over:
        with pytest.raises(ApiError, match=f"batch has {size} bytes in none; max.message.bytes is {size - 1}"):
            stage.append(value, codec=Codec.GZIP)
    else:
        stage.append(value, codec=Codec.GZIP)

    assert stage.log.size_bytes == (0 if over else size)


@pytest.mark.parametrize("over", [0, 1])
def test_decompression_is_limited_to_16_megabytes(over):
    decompressed_size = (16 << 20) + over
    short = 14  # bytes of a record besides its value, with a key of one byte
    data = batch(["x" * (decompressed_size - short)], key=b"k", codec=Codec.ZSTD)
    assert len(decompressed(Codec.ZSTD, memoryview(data)[HEADER_BYTES:], 1 << 30)) == decompressed_size
    stage = LogStage(cleanup_policy="compact")

    if over:
        with pytest.raises(ApiError) as refused:
            stage.log.append(data, stage.now_ms)
        assert refused.value.code is ErrorCode.INVALID_RECORD
    else:
        stage.log.append(data, stage.now_ms)

    assert stage.log.log_end_offset == 1 - over


ONE = parse_batch_header(batch(["v"], key=b"k"))
DOES_NOT_FIT = "^a record does not match its length or the offsets of its batch$"


def record(*, size=None, delta=0, key=b"k", value=b"v", value_size=None, key_size=None):
    inner = b"\x00" + varint_bytes(0) + varint_bytes(delta)
    for data, encoded_size in ((key, key_size), (value, value_size)):
        own = -1 if data is None else len(data)
        inner += varint_bytes(own if encoded_size is None else encoded_size) + (data or b"")
    inner += varint_bytes(0)
    return varint_bytes(len(inner) if size is None else size) + inner


def read(body, header=ONE):
    return list(keyed_records(body, header))


def test_keyed_record_has_key_and_position():
    records = [NewRecord(b"a", b"1", (), 50), NewRecord(None, b"2", (), 51), NewRecord(b"c", None, (), 52)]
    data = build_batch([*records, NewRecord(b"", b"", (), 53)])
    header = parse_batch_header(data)
    body = body_of(data, header)

    found = read(body, header)

    assert [(r.offset_delta, r.timestamp_delta, r.key, r.is_tombstone) for r in found] == [
        (0, 0, b"a", False),
        (1, 1, None, False),
        (2, 2, b"c", True),
        (3, 3, b"", False),
    ]
    assert [(r.start, r.end) for r in found] == [(0, 9), (9, 17), (17, 25), (25, 32)]
    assert b"".join(body[r.start : r.end] for r in found) == body
    assert [body[r.rest] for r in found] == [0, 2, 4, 6], "the offset delta is at rest"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (record(size=-1), "^record has -1 bytes, but 8 are left$"),
        (record(size=-2), "^record has -2 bytes, but 8 are left$"),
        (record(size=9), "^record has 9 bytes, but 8 are left$"),
        (record(size=0), DOES_NOT_FIT),
        (record(size=5), DOES_NOT_FIT),
        (record(delta=-1), DOES_NOT_FIT),
        (record(delta=1), DOES_NOT_FIT),
        (record(value_size=3), DOES_NOT_FIT),
        (record(key=b"", key_size=40) + bytes(40), DOES_NOT_FIT),
        (record(key=b"", key_size=1 << 20) + bytes(60), "^a record exceeds the end of its batch$"),
        (record()[:3] + b"\xff" * 11, "^varint exceeds ten bytes$"),
        (record() + b"\x00", "^1 bytes after the last record$"),
        (b"", "^batch has 0 bytes, too few or too many for 1 records$"),
        (bytes(6), "^batch has 6 bytes, too few or too many for 1 records$"),
    ],
)
def test_malformed_record_error_has_its_cause(body, message):
    with pytest.raises(CorruptRecord, match=message):
        read(body)


def test_record_beyond_last_offset_is_rejected():
    header = ONE._replace(last_offset_delta=5)
    assert [r.offset_delta for r in read(record(delta=5), header)] == [5]
    with pytest.raises(CorruptRecord, match=DOES_NOT_FIT):
        read(record(delta=6), header)


def test_null_value_is_tombstone_and_empty_value_is_not():
    assert [read(record(value=value))[0].is_tombstone for value in (None, b"", b"v")] == [True, False, False]


def test_keyed_batch_is_limited_to_256_megabytes():
    def opened(size: int) -> int:
        header = ONE._replace(batch_length=SMALLEST_LENGTH + size)
        data = mmap.mmap(-1, HEADER_BYTES + size, flags=mmap.MAP_PRIVATE)  # uses no memory without writes
        return len(body_of(data, header))

    assert opened(DEFAULT_MAX_BYTES + 1) == DEFAULT_MAX_BYTES + 1
    with pytest.raises(CorruptRecord, match=f"more than the {2 * DEFAULT_MAX_BYTES} accepted"):
        opened(2 * DEFAULT_MAX_BYTES + 1)
