"""Produce: batches, errors, idempotent producers."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.compression import Codec
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import produce_request


def batch(*values: bytes, **options) -> bytes:
    return build_batch([NewRecord(None, v, (), 1_700_000_000_000) for v in values], **options)


def test_produced_offsets_start_at_zero_and_increase(peer):
    peer.create("a")

    assert [peer.produce("a", b"1", b"2").base_offset, peer.produce("a", b"3").base_offset] == [0, 2]


@pytest.mark.parametrize("codec", list(Codec))
def test_fetched_batch_equals_the_produced_batch_except_its_offset(peer, codec):
    peer.create("a")
    peer.produce("a", b"before")
    sent = batch(b"x" * 1000, b"y", codec=codec)

    peer.produce("a", batch=sent)

    stored = bytes(peer.fetch("a", 1).responses[0].partitions[0].records)
    assert stored[21:] == sent[21:]
    assert stored[16:21] == sent[16:21]
    assert int.from_bytes(stored[:8], "big") == 1


def test_each_version_of_produce_is_answered(peer):
    peer.create("a")
    for version in range(3, 13):
        answer = peer.ask(produce_request("a", batch(b"v")), version)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_produce_from_version_13_names_the_topic_by_id(peer):
    peer.create("a")
    request = produce_request("a", batch(b"v"))
    request.topic_data[0].topic_id = peer.topic_id("a")

    topic = peer.ask(request, 13).responses[0]
    request.topic_data[0].topic_id = b"?" * 16
    unknown = peer.ask(request, 13).responses[0]

    assert topic.partition_responses[0].base_offset == 0
    assert unknown.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_produce_errors_are_per_partition(peer):
    peer.create("a")
    broken = bytearray(batch(b"v"))
    broken[-1] ^= 1

    codes = {
        "no topic": peer.produce("nope", b"v").error_code,
        "no partition": peer.produce("a", b"v", partition=7).error_code,
        "negative partition": peer.produce("a", b"v", partition=-1).error_code,
        "wrong crc": peer.produce("a", batch=bytes(broken)).error_code,
        "two batches": peer.produce("a", batch=batch(b"v") + batch(b"w")).error_code,
        "half a batch": peer.produce("a", batch=batch(b"v")[:-3]).error_code,
        "acks": peer.produce("a", b"v", acks=5).error_code,
        "control": peer.produce("a", batch=batch(b"v", is_control=True)).error_code,
        "transactional": peer.produce("a", batch=batch(b"v", is_transactional=True)).error_code,
        "base offset": peer.produce("a", batch=batch(b"v", base_offset=3)).error_code,
    }

    assert codes == {
        "no topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "negative partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "wrong crc": ErrorCode.CORRUPT_MESSAGE,
        "two batches": ErrorCode.INVALID_RECORD,
        "half a batch": ErrorCode.CORRUPT_MESSAGE,
        "acks": ErrorCode.INVALID_REQUIRED_ACKS,
        "control": ErrorCode.INVALID_RECORD,
        "transactional": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "base offset": ErrorCode.INVALID_RECORD,
    }
    assert peer.produce("a", b"good").base_offset == 0


def test_produce_error_lists_the_positions_of_rejected_records(peer):
    peer.create("keyed", cleanup_policy="compact")
    records = [NewRecord(key, b"v", (), 1_700_000_000_000) for key in (b"a", None, b"b", None)]

    refused = peer.produce("keyed", batch=build_batch(records))

    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in refused.record_errors] == [1, 3]
    assert all("has no key" in e.batch_index_error_message for e in refused.record_errors)
    assert "2 records of the batch" in refused.error_message


@pytest.mark.parametrize("version", [3, 9, 13])
def test_damaged_batch_is_rejected_with_a_retriable_error(peer, version):
    peer.create("a")
    whole = batch(b"v")
    for at in [*range(8, 12), *range(17, len(whole))]:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            request = produce_request("a", bytes(damaged))
            if version >= 13:
                request.topic_data[0].topic_id = peer.topic_id("a")
            answer = peer.ask(request, version).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.CORRUPT_MESSAGE, f"bit {bit} of byte {at}: {answer.error_message}"


def test_produce_rejects_a_partition_without_records(peer):
    peer.create("a")
    request = produce_request("a", b"")
    request.topic_data[0].partition_data[0].records = None

    answer = peer.ask(request, 9).responses[0].partition_responses[0]

    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_batch_above_max_message_bytes_is_rejected(peer):
    peer.create("a", max_message_bytes="200")

    assert peer.produce("a", b"x" * 200).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_version_7(peer):
    peer.create("a")
    request = produce_request("a", batch(b"v", codec=Codec.ZSTD))

    old = peer.ask(request, 6).responses[0].partition_responses[0]
    new = peer.ask(request, 7).responses[0].partition_responses[0]

    assert (old.error_code, new.error_code) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, 0)


def test_produce_with_acks_0_has_no_response(peer):
    peer.create("a")

    peer.send(produce_request("a", batch(b"v"), acks=0), 9, answered=False)

    assert peer.closed is None
    assert peer.produce("a", b"next").base_offset == 1


def test_failed_produce_with_acks_0_closes_the_connection(peer):
    peer.send(produce_request("nope", batch(b"v"), acks=0), 9, answered=False)

    assert peer.closed == "127.0.0.1: Produce with acks=0 failed: nope-0: UNKNOWN_TOPIC_OR_PARTITION"


# ---------------------------------------------------------------- idempotent producers


def test_each_idempotent_producer_gets_its_own_id(peer, stage):
    first, second = (peer.ask(InitProducerIdRequest(transactional_id=None), 4) for _ in range(2))
    stage.restart()
    third = stage.connect().ask(InitProducerIdRequest(transactional_id=None), 4)

    assert len({first.producer_id, second.producer_id, third.producer_id}) == 3
    assert first.producer_epoch == 0


def test_producer_epoch_without_id_is_rejected(peer):
    refused = peer.ask(InitProducerIdRequest(transactional_id=None, producer_epoch=3), 4)

    assert (refused.error_code, refused.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def sequenced(peer, sequence: int, *values: bytes, epoch: int = 0):
    sent = batch(*values, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
    answer = peer.produce("a", batch=sent)
    return answer.error_code, answer.base_offset


def test_repeated_batch_of_a_producer_gets_the_offset_of_the_original(peer):
    peer.create("a")

    assert sequenced(peer, 0, b"1", b"2") == (0, 0)
    assert sequenced(peer, 2, b"3") == (0, 2)
    assert sequenced(peer, 0, b"1", b"2") == (0, 0)
    assert peer.produce("a", b"other").base_offset == 3


def test_gap_in_the_sequence_of_a_producer_is_rejected(peer):
    peer.create("a")
    sequenced(peer, 0, b"1")

    assert sequenced(peer, 5, b"6")[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_older_producer_epoch_is_fenced(peer):
    peer.create("a")
    sequenced(peer, 0, b"1", epoch=2)

    assert sequenced(peer, 1, b"2", epoch=1)[0] == ErrorCode.INVALID_PRODUCER_EPOCH


def test_producer_sequences_survive_a_restart(peer, stage):
    peer.create("a")
    sequenced(peer, 0, b"1")

    stage.restart(cleanly=False)
    back = stage.connect()

    assert sequenced(back, 0, b"1") == (0, 0)
    assert sequenced(back, 1, b"2") == (0, 1)
