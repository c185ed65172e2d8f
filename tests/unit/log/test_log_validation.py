"""Which batches a log refuses, and with which of Kafka's codes (protocol/records.md#what-a-broker-refuses)."""

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


def refused(stage, given, *, from_client=True):
    with pytest.raises(ApiError) as error:
        stage.log.append(given, stage.now_ms, from_client=from_client)
    return error.value.code


def forged(given, at, layout, *values):
    """``given`` with other fields, under a CRC that fits them."""
    from crc32c import crc32c

    data = bytearray(given)
    struct.pack_into(layout, data, at, *values)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


def test_exactly_one_batch_is_expected(stage):
    assert refused(stage, b"") is ErrorCode.INVALID_RECORD
    assert refused(stage, batch() + batch()) is ErrorCode.INVALID_RECORD
    assert refused(stage, batch() + b"x") is ErrorCode.INVALID_RECORD


def test_a_batch_must_be_whole(stage):
    whole = batch(["some value"])
    for size in range(1, len(whole)):
        assert refused(stage, whole[:size]) is ErrorCode.CORRUPT_MESSAGE, "it lost its end on its way"


def test_old_formats_are_refused(stage):
    for magic in (0, 1, 3):
        given = bytearray(batch())
        given[16] = magic
        assert refused(stage, bytes(given)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("of_a_producer", [{}, {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}])
def test_one_flipped_bit_anywhere_has_the_producer_send_the_batch_again(stage, of_a_producer):
    whole = batch(["some value", "and another"], **of_a_producer)
    for at in [*range(8, 12), *range(17, len(whole))]:  # the others are not summed: offset, leader epoch, format
        for bit in range(8):
            given = bytearray(whole)
            given[at] ^= 1 << bit
            assert refused(stage, bytes(given)) is ErrorCode.CORRUPT_MESSAGE, f"bit {bit} of byte {at}"


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
def test_a_header_that_contradicts_itself_is_refused(stage, at, layout, value, code):
    assert refused(stage, forged(batch(["a", "b"], at_ms=1), at, layout, value)) is code


def test_a_batch_without_records_is_refused_whatever_it_says_of_its_last(stage):
    for delta in (-1, 0):
        given = forged(forged(batch(["a"], at_ms=1), 57, ">i", 0), 23, ">i", delta)
        with pytest.raises(ApiError, match=f"0 records with a last offset delta of {delta}$"):
            stage.log.append(given, stage.now_ms)


def test_a_batch_may_be_as_large_as_the_topic_allows():
    stage = LogStage(max_message_bytes="200")
    most = "x" * (200 - len(batch([""])))
    while len(batch([most])) > 200:
        most = most[1:]
    stage.append(most)

    assert refused(stage, batch([most + "y"])) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_must_fit_into_a_segment():
    stage = LogStage()

    assert refused(stage, batch(["x" * 1024])) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("producer_id", [0, 7])
@pytest.mark.parametrize(
    "said", [{"producer_epoch": -1, "base_sequence": 0}, {"producer_epoch": 0, "base_sequence": -1}]
)
def test_a_producer_with_an_id_must_say_its_epoch_and_its_sequence(stage, said, producer_id):
    words = f"producer {producer_id} has epoch {said['producer_epoch']} and sequence {said['base_sequence']}$"
    with pytest.raises(ApiError, match=words) as error:
        stage.log.append(batch(producer_id=producer_id, **said), stage.now_ms)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_a_transactional_batch_must_be_of_a_producer(stage):
    with pytest.raises(ApiError, match="transactional batch without a producer id") as error:
        stage.log.append(batch(is_transactional=True), stage.now_ms)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_a_time_of_the_year_1970_is_judged_as_any_other():
    stage = LogStage(message_timestamp_before_max_ms="1000")

    for at_ms in (0, 1):
        assert refused(stage, batch(at_ms=at_ms)) is ErrorCode.INVALID_TIMESTAMP
    assert stage.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("size", "length", "said"),
    [
        (11, 0, "11 bytes are not a complete batch; expected exactly one batch"),
        (12, 1, "12 bytes are not a complete batch; expected exactly one batch"),
        (12, 0, "a batch header of 12 bytes, fewer than 61"),
    ],
)
def test_of_what_cannot_be_a_batch_is_said_what_it_lacks(stage, size, length, said):
    given = (bytes(8) + struct.pack(">i", length))[:size]
    with pytest.raises(ApiError, match=said) as error:
        stage.log.append(given, stage.now_ms)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


def test_times_far_off_are_refused():
    stage = LogStage(message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="2000")

    assert refused(stage, batch(at_ms=stage.now_ms - 1001)) is ErrorCode.INVALID_TIMESTAMP
    assert refused(stage, batch(at_ms=stage.now_ms + 2001)) is ErrorCode.INVALID_TIMESTAMP
    stage.append(at_ms=stage.now_ms - 1000)
    stage.append(at_ms=stage.now_ms + 2000)
    stage.append(at_ms=-1)
    assert stage.log.log_end_offset == 3


def test_an_hour_ahead_is_the_most_by_default(stage):
    assert refused(stage, batch(at_ms=stage.now_ms + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP


def test_where_the_broker_sets_the_time_the_producers_does_not_matter():
    stage = LogStage(message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="1")

    stage.append(at_ms=stage.now_ms + 10**9)

    stored = bytes(stage.log.read(0, 1)[0])
    check_crc(stored, 0, parse_batch_header(stored))
    assert parse_batch_header(stored).max_timestamp == stage.now_ms


def test_the_broker_itself_may_write_control_batches_but_no_larger_ones():
    stage = LogStage(max_message_bytes="200")
    stage.log.append(batch(is_control=True), stage.now_ms, from_client=False)

    assert stage.log.log_end_offset == 1
    assert refused(stage, batch(["x" * 500]), from_client=False) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_view_into_a_frame_is_as_good_as_bytes():
    stage = LogStage()
    frame = b"head" + batch(["inside"]) + b"tail"

    stage.log.append(memoryview(frame)[4:-4], stage.now_ms)

    assert bytes(stage.log.read(0, 1)[0])[16:] == batch(["inside"])[16:]
