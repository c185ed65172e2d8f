"""Fetch: records, waiting, sizes, sessions."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.compression import Codec
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import fetch_request, values_of


def only(answer):
    return answer.responses[0].partitions[0]


def test_fetch_returns_produced_records(peer):
    peer.create("a")
    peer.produce("a", b"1", b"2")
    peer.produce("a", b"3")

    got = only(peer.fetch("a"))

    assert values_of(got.records) == [b"1", b"2", b"3"]
    assert (got.high_watermark, got.last_stable_offset, got.log_start_offset, got.error_code) == (3, 3, 0, 0)
    assert got.aborted_transactions is None


def test_fetch_from_an_offset_within_a_batch_returns_the_whole_batch(peer):
    peer.create("a")
    peer.produce("a", b"1", b"2")

    assert values_of(only(peer.fetch("a", 1)).records) == [b"1", b"2"]


def test_each_version_of_fetch_is_answered(peer):
    peer.create("a")
    peer.produce("a", b"1")
    topic_id = peer.topic_id("a")
    for version in range(4, 19):
        answer = peer.ask(fetch_request("a", topic_id=topic_id), version)
        assert values_of(only(answer).records) == [b"1"]


def test_read_committed_fetch_has_an_empty_list_of_aborted_transactions(peer):
    peer.create("a")
    request = fetch_request("a")
    request.isolation_level = 1

    assert only(peer.ask(request, 12)).aborted_transactions == []


def test_fetch_of_out_of_range_offset_is_answered_at_once(peer):
    peer.create("a")

    got = only(peer.fetch("a", 5, max_wait_ms=1000))

    assert (got.error_code, got.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_fetch_returns_an_error_for_each_unknown_topic_partition_or_id(peer):
    peer.create("a")

    codes = [
        only(peer.fetch("nope")).error_code,
        only(peer.fetch("a", partition=3)).error_code,
        only(peer.ask(fetch_request("", topic_id=b"?" * 16), 13)).error_code,
    ]

    assert codes == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]


def test_fetch_with_another_leader_epoch_is_rejected(peer):
    peer.create("a")
    request = fetch_request("a")
    request.topics[0].partitions[0].current_leader_epoch = 5

    assert only(peer.ask(request, 12)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_zstd_batch_is_rejected_for_versions_below_10(peer):
    peer.create("a")
    peer.produce("a", batch=build_batch([NewRecord(None, b"v")], codec=Codec.ZSTD))

    assert only(peer.ask(fetch_request("a"), 9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert only(peer.ask(fetch_request("a"), 10)).error_code == 0


# ---------------------------------------------------------------- waiting


def test_fetch_waits_for_a_produced_record(peer, stage):
    peer.create("a")
    assert peer.fetch("a", max_wait_ms=5000) is None

    stage.connect().produce("a", b"1")

    assert values_of(only(peer.take()).records) == [b"1"]


def test_fetch_waits_for_min_bytes(peer, stage):
    peer.create("a")
    writer = stage.connect()
    writer.produce("a", b"x" * 100)
    assert peer.fetch("a", max_wait_ms=5000, min_bytes=500) is None

    writer.produce("a", b"x" * 100)
    assert peer.take() is None
    writer.produce("a", b"x" * 300)

    assert len(values_of(only(peer.take()).records)) == 3


def test_fetch_returns_available_records_after_max_wait(peer, stage):
    peer.create("a")
    stage.connect().produce("a", b"1")
    peer.fetch("a", max_wait_ms=500, min_bytes=10_000)

    stage.advance(499)
    assert peer.take() is None
    stage.advance(1)

    assert values_of(only(peer.take()).records) == [b"1"]


def test_fetch_is_not_woken_by_appends_to_other_partitions(peer, stage):
    peer.create("a", 2)
    peer.fetch("a", max_wait_ms=500)

    stage.connect().produce("a", b"1", partition=1)

    assert peer.take() is None


def test_append_wakes_all_fetches_of_its_partition(stage):
    peers = [stage.connect() for _ in range(5)]
    peers[0].create("a")
    for peer in peers:
        peer.fetch("a", max_wait_ms=5000)

    stage.connect().produce("a", b"1")

    assert [values_of(only(peer.take()).records) for peer in peers] == [[b"1"]] * 5
    assert len(stage.broker.state.purgatory) == 0


def test_deleted_topic_wakes_the_waiting_fetch(peer, stage):
    peer.create("a")
    peer.fetch("a", max_wait_ms=5000)

    stage.connect().ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5)

    assert only(peer.take()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# ---------------------------------------------------------------- sizes


def test_fetch_returns_only_the_first_batch_if_it_exceeds_the_size_limit(peer):
    peer.create("a", 3)
    for partition in range(3):
        peer.produce("a", b"x" * 1000, partition=partition)
    request_partitions = [FetchPartition(partition=p, partition_max_bytes=500) for p in range(3)]
    request = FetchRequest(max_bytes=600, topics=[FetchTopic(topic="a", partitions=request_partitions)])

    got = peer.ask(request, 11).responses[0].partitions

    assert [len(p.records) > 0 for p in got] == [True, False, False]
    assert all(p.error_code == 0 for p in got)


def test_fetch_without_partitions_is_answered_at_once(peer):
    answer = peer.ask(FetchRequest(max_wait_ms=1000, topics=[]), 12)

    assert (answer.error_code, answer.responses) == (0, [])


def session_of(peer, topic):
    answer = peer.fetch(topic, version=13, topic_id=peer.topic_id(topic), session_epoch=0)
    assert answer.error_code == 0
    return answer.session_id


def resume(peer, session_id, epoch=1):
    peer.send(FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch), 13)
    return [p.error_code for topic in peer.take().responses for p in topic.partitions]


def test_fetch_session_reports_a_deleted_topic_as_unknown_topic_or_partition(peer):
    peer.create("a")
    session_id = session_of(peer, "a")

    peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6)

    assert resume(peer, session_id) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("partitions", "code"), [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (2, ErrorCode.INCONSISTENT_TOPIC_ID)]
)
def test_fetch_session_with_the_id_of_a_deleted_topic_rejects_the_recreated_topic(peer, partitions, code):
    peer.create("a", 2)
    request = FetchRequest(
        max_wait_ms=0,
        session_epoch=0,
        topics=[FetchTopic(topic_id=peer.topic_id("a"), partitions=[FetchPartition(partition=1)])],
    )
    session_id = peer.ask(request, 13).session_id

    peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6)
    peer.create("a", partitions)

    assert resume(peer, session_id) == [code]
    assert resume(peer, session_id, epoch=2) == [code]


def test_fetch_session_with_an_unresolved_id_reports_unknown_topic_id(peer):
    peer.create("a")
    answer = peer.fetch("a", version=13, topic_id=b"n" * 16, session_epoch=0)

    assert resume(peer, answer.session_id) == [ErrorCode.UNKNOWN_TOPIC_ID]
