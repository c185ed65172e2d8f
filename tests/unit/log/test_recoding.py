"""``compression.type``: a topic with a codec of its own compresses anew what comes with another."""

import pytest

from kohort.config.broker import COMPRESSION_TYPES
from kohort.errors import ApiError, ErrorCode
from kohort.log.recoding import CODECS
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec, decompressed
from kohort.wire.record_batch import HEADER_BYTES, check_crc, pack_batch, parse_batch_header, read_batch
from support.machines.log_stage import LogStage, batch, values_from


def stored(stage: LogStage) -> Buffer:
    """What lies in the log; its CRC holds."""
    data = b"".join(stage.log.read(0, 1 << 20))
    check_crc(data, 0, parse_batch_header(data))
    return data


def test_every_type_that_may_be_named_has_a_codec():
    assert tuple(CODECS) == COMPRESSION_TYPES


@pytest.mark.parametrize("wanted", [name for name in COMPRESSION_TYPES if name != "producer"])
@pytest.mark.parametrize("came", list(Codec))
def test_a_batch_lies_in_the_log_under_the_topics_codec(wanted, came):
    stage = LogStage(compression_type=wanted)

    appended = stage.append("a", "b" * 300, "c", codec=came, at_ms=stage.now_ms)

    assert parse_batch_header(stored(stage)).codec == CODECS[wanted]
    assert (appended.base_offset, appended.last_offset) == (0, 2)
    assert values_from(stage.log, 0) == ["a", "b" * 300, "c"]


def test_nothing_but_the_wrapping_changes():
    stage = LogStage(compression_type="lz4")
    given = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.GZIP, producer_id=7, producer_epoch=2, base_sequence=0)

    stage.log.append(given, stage.now_ms)

    header = parse_batch_header(stored(stage))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 2, 0, 1)
    assert header.max_timestamp == stage.now_ms
    assert read_batch(stored(stage))[0].value == b"x" * 100


def test_what_the_producer_chose_is_kept_as_it_came():
    stage = LogStage()
    given = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.ZSTD)

    stage.log.append(given, stage.now_ms)

    assert bytes(stored(stage))[61:] == given[61:]


def test_a_repeated_batch_is_known_whatever_it_was_wrapped_in():
    stage = LogStage(compression_type="gzip")
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}

    first = stage.append("a", codec=Codec.LZ4, **producer)
    again = stage.append("a", codec=Codec.NONE, **producer)

    assert (first.duplicate, again.duplicate, again.base_offset) == (False, True, 0)


def test_records_that_cannot_be_opened_are_refused():
    stage = LogStage(compression_type="uncompressed")
    good = batch(["x" * 100], at_ms=stage.now_ms, codec=Codec.GZIP)
    bad = pack_batch(parse_batch_header(good), b"no gzip at all")

    with pytest.raises(ApiError, match="gzip") as refused:
        stage.log.append(bad, stage.now_ms)

    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert stage.log.log_end_offset == 0


def test_a_batch_that_grows_past_the_topics_bound_is_too_large():
    stage = LogStage(compression_type="uncompressed", max_message_bytes="500")

    with pytest.raises(ApiError, match=r"uncompressed|none") as refused:
        stage.append("x" * 600, codec=Codec.GZIP)

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stage.log.log_end_offset == 0


@pytest.mark.parametrize("over", [0, 1])
def test_a_batch_may_be_as_large_as_the_topic_allows_once_it_is_compressed_anew(over):
    value = "x" * 600
    size = len(batch([value], at_ms=0))
    stage = LogStage(compression_type="uncompressed", max_message_bytes=str(size - over))

    if over:
        with pytest.raises(ApiError, match=f"a batch of {size} bytes once it is none; max.message.bytes is {size - 1}"):
            stage.append(value, codec=Codec.GZIP)
    else:
        stage.append(value, codec=Codec.GZIP)

    assert stage.log.size_bytes == (0 if over else size)


@pytest.mark.parametrize("over", [0, 1])
def test_a_batch_is_opened_up_to_sixteen_megabytes_of_records(over):
    wanted = (16 << 20) + over
    short = 14  # what a record has beside its value, with a key of one byte and a value of this size
    given = batch(["x" * (wanted - short)], key=b"k", codec=Codec.ZSTD)
    assert len(decompressed(Codec.ZSTD, memoryview(given)[HEADER_BYTES:], 1 << 30)) == wanted
    stage = LogStage(cleanup_policy="compact")

    if over:
        with pytest.raises(ApiError) as refused:
            stage.log.append(given, stage.now_ms)
        assert refused.value.code is ErrorCode.INVALID_RECORD
    else:
        stage.log.append(given, stage.now_ms)

    assert stage.log.log_end_offset == 1 - over
