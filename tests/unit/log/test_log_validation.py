"""Batches that a log rejects, with Kafka's codes (protocol/records.md#rejected-batches)."""

import struct

import pytest

from kohort.errors import ApiError, ErrorCode
from kohort.wire.record_batch import check_crc, parse_batch_header
from support.machines.log_stage import LogStage, batch


@pytest.fixture
def stage():
    stage = LogStage()
    yield stage
    assert stage.log.log_end_offset == 0
    stage.check()


def refused(stage, data, *, from_client=True):
    with pytest.raises(ApiError) as error:
        stage.log.append(data, stage.now_ms, from_client=from_client)
    return error.value.code


def forged(original, at, layout, *values):
    from crc32c import crc32c

    data = bytearray(original)
    struct.pack_into(layout, data, at, *values)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def test_produce_needs_exactly_one_batch(stage):
    assert refused(stage, b"") is ErrorCode.INVALID_RECORD
    assert refused(stage, batch() + batch()) is ErrorCode.INVALID_RECORD
    assert refused(stage, batch() + b"x") is ErrorCode.INVALID_RECORD


def test_incomplete_batch_is_rejected(stage):
    whole = batch(["some value"])
    for size in range(1, len(whole)):
        assert refused(stage, whole[:size]) is ErrorCode.CORRUPT_MESSAGE, "a truncated batch is retriable"


def test_old_message_formats_are_rejected(stage):
    for magic in (0, 1, 3):
        data = bytearray(batch())
        data[16] = magic
        assert refused(stage, bytes(data)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("of_a_producer", [{}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}])
def test_flipped_bit_returns_retriable_error(stage, of_a_producer):
    whole = batch(["some value", "and another"], **of_a_producer)
    for at in [*range(8, 12), *range(17, len(whole))]:  # the CRC does not cover offset, leader epoch and format
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            assert refused(stage, bytes(data)) is ErrorCode.CORRUPT_MESSAGE, f"bit {bit} of byte {at}"


@pytest.mark.parametrize(
    ("at", "layout", "value", "code"),
    [
        (0, ">q", 5, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),
        (57, ">i", -1, ErrorCode.INVALID_RECORD),
        (57, ">i", 9, ErrorCode.INVALID_RECORD),
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (23, ">i", 5, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x07, ErrorCode.INVALID_RECORD),
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),
        (43, ">q", 1, ErrorCode.INVALID_RECORD),
        (8, ">i", 48, ErrorCode.CORRUPT_MESSAGE),
        (8, ">i", -1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_contradictory_batch_header_is_rejected(stage, at, layout, value, code):
    assert refused(stage, forged(batch(["a", "b"], at_ms=1), at, layout, value)) is code


def test_batch_without_records_is_rejected(stage):
    for delta in (-1, 0):
        data = forged(forged(batch(["a"], at_ms=1), 57, ">i", 0), 23, ">i", delta)
        with pytest.raises(ApiError, match=f"0 records with a last offset delta of {delta}$"):
            stage.log.append(data, stage.now_ms)


def test_batch_above_max_message_bytes_is_rejected():
    stage = LogStage(max_message_bytes="200")
    most = "x" * (200 - len(batch([""])))
    while len(batch([most])) > 200:
        most = most[1:]
    stage.append(most)

    assert refused(stage, batch([most + "y"])) is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_above_segment_bytes_is_rejected():
    stage = LogStage()

    assert refused(stage, batch(["x" * 1024])) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("producer_id", [0, 7])
@pytest.mark.parametrize(
    "fields", [{"producer_epoch": -1, "base_sequence": 0}, {"producer_epoch": 0, "base_sequence": -1}]
)
def test_producer_id_without_epoch_or_sequence_is_rejected(stage, fields, producer_id):
    words = f"producer {producer_id} has epoch {fields['producer_epoch']} and sequence {fields['base_sequence']}$"
    with pytest.raises(ApiError, match=words) as error:
        stage.log.append(batch(producer_id=producer_id, **fields), stage.now_ms)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_transactional_batch_without_producer_id_is_rejected(stage):
    with pytest.raises(ApiError, match="transactional batch without a producer id") as error:
        stage.log.append(batch(is_transactional=True), stage.now_ms)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_timestamp_of_1970_is_validated():
    stage = LogStage(message_timestamp_before_max_ms="1000")

    for at_ms in (0, 1):
        assert refused(stage, batch(at_ms=at_ms)) is ErrorCode.INVALID_TIMESTAMP
    assert stage.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("size", "length", "message"),
    [
        (11, 0, "11 bytes are not a complete batch; expected exactly one batch"),
        (12, 1, "12 bytes are not a complete batch; expected exactly one batch"),
        (12, 0, "a batch header of 12 bytes, fewer than 61"),
    ],
)
def test_malformed_batch_error_has_its_cause(stage, size, length, message):
    data = (bytes(8) + struct.pack(">i", length))[:size]
    with pytest.raises(ApiError, match=message) as error:
        stage.log.append(data, stage.now_ms)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def test_timestamps_out_of_range_are_rejected():
    stage = LogStage(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="2000")

    assert refused(stage, batch(at_ms=stage.now_ms - 1001)) is ErrorCode.INVALID_TIMESTAMP
    assert refused(stage, batch(at_ms=stage.now_ms + 2001)) is ErrorCode.INVALID_TIMESTAMP
    stage.append(at_ms=stage.now_ms - 1000)
    stage.append(at_ms=stage.now_ms + 2000)
    stage.append(at_ms=-1)
    assert stage.log.log_end_offset == 3


def test_default_max_future_timestamp_is_one_hour(stage):
    assert refused(stage, batch(at_ms=stage.now_ms + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_ignores_producer_timestamp():
    stage = LogStage(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="1")

    stage.append(at_ms=stage.now_ms + 10**9)

    stored = bytes(stage.log.read(0, 1)[0])
    check_crc(stored, 0, parse_batch_header(stored))
    assert parse_batch_header(stored).max_timestamp == stage.now_ms


def test_broker_control_batch_is_size_checked():
    stage = LogStage(max_message_bytes="200")
    stage.log.append(batch(is_control=True), stage.now_ms, from_client=False)

    assert stage.log.log_end_offset == 1
    assert refused(stage, batch(["x" * 500]), from_client=False) is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_as_memoryview_is_accepted():
    stage = LogStage()
    frame = b"head" + batch(["inside"]) + b"tail"

    stage.log.append(memoryview(frame)[4:-4], stage.now_ms)

    assert bytes(stage.log.read(0, 1)[0])[16:] == batch(["inside"])[16:]
