"""DescribeLogDirs, AlterReplicaLogDirs, DescribeProducers and DescribeTopicPartitions."""

import pytest

from kohort.errors import ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.messages.log_dirs import (
    AlterLogDir,
    AlterLogDirTopic,
    AlterReplicaLogDirsRequest,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from kohort.wire.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
from kohort.wire.messages.topics import DescribedTopicName, DescribeTopicPartitionsRequest, TopicPartitionsCursor
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage
from support.raw.transactional import Transactional

# ---------------------------------------------------------------- folders


def log_dir(peer, topics: dict[str, list[int]] | None = None, version: int = 5):
    request_topics = topics and [DescribableLogDirTopic(topic=name, partitions=at) for name, at in topics.items()]
    answer = peer.ask(DescribeLogDirsRequest(topics=request_topics), version)
    assert answer.error_code == 0
    (result,) = answer.results
    return result


def sizes(result) -> dict[tuple[str, int], int]:
    return {(t.name, p.partition_index): p.partition_size for t in result.topics for p in t.partitions}


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_describe_log_dirs_reports_the_size_of_each_log(peer, version):
    peer.create("a", partitions=2)
    peer.create("b")
    batch = build_batch([NewRecord(None, b"x" * 100, (), 0)])
    peer.produce("a", batch=batch, partition=1)
    peer.produce("a", batch=batch, partition=1)

    found = log_dir(peer, version=version)

    assert (found.error_code, found.log_dir) == (0, "memory")
    assert sizes(found) == {("a", 0): 0, ("a", 1): 2 * len(batch), ("b", 0): 0}
    assert {(p.offset_lag, p.is_future_key) for t in found.topics for p in t.partitions} == {(0, False)}


def test_describe_log_dirs_omits_unrequested_and_unknown_partitions(peer):
    peer.create("a", partitions=3)
    peer.create("b")

    assert set(sizes(log_dir(peer, {"a": [2, 0, 9], "gone": [0]}))) == {("a", 0), ("a", 2)}


def test_describe_log_dirs_of_an_in_memory_broker_has_no_disk_space(peer):
    found = log_dir(peer)

    assert (found.total_bytes, found.usable_bytes, found.is_cordoned) == (-1, -1, False)


def test_describe_log_dirs_reports_disk_error_of_the_data_folder():
    class LostDisk(MemoryStorage):
        def disk_space(self):
            raise StorageError("cannot ask for the room on the disk of /data: Input/output error")

    answer = BrokerStage(LostDisk()).connect().ask(DescribeLogDirsRequest(topics=None), 5)

    assert [result.error_code for result in answer.results] == [ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("version", [1, 2])
def test_alter_replica_log_dirs_accepts_only_the_present_folder(peer, version):
    peer.create("a")
    here, elsewhere = (
        AlterLogDir(path=path, topics=[AlterLogDirTopic(name=name, partitions=at) for name, at in partitions.items()])
        for path, partitions in (("memory", {"a": [0, 1], "gone": [0]}), ("/elsewhere", {"a": [0]}))
    )

    answer = peer.ask(AlterReplicaLogDirsRequest(dirs=[here, elsewhere]), version)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {t.topic_name: [(p.partition_index, p.error_code) for p in t.partitions] for t in answer.results} == {
        "a": [(0, 0), (1, unknown), (0, ErrorCode.LOG_DIR_NOT_FOUND)],
        "gone": [(0, unknown)],
    }


# ---------------------------------------------------------------- producers


def producers_of(peer, topic: str, *partitions: int):
    request_topics = [DescribeProducersTopic(name=topic, partition_indexes=list(partitions))]
    (answered,) = peer.ask(DescribeProducersRequest(topics=request_topics), 0).topics
    assert answered.name == topic
    return answered.partitions


def test_describe_producers_lists_idempotent_producers_and_their_sequences(peer):
    peer.create("a", partitions=2)
    for sequence, time_ms in ((0, 1000), (1, 2000)):
        record = NewRecord(None, b"v", (), time_ms)
        peer.produce("a", batch=build_batch([record], producer_id=7, producer_epoch=3, base_sequence=sequence))
    peer.produce("a", b"by nobody in particular", partition=1)

    first, second = producers_of(peer, "a", 0, 1)

    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (producer.last_timestamp, producer.coordinator_epoch, producer.current_txn_start_offset) == (2000, -1, -1)
    assert (second.partition_index, second.error_code, second.active_producers) == (1, 0, [])


def test_describe_producers_reports_the_time_of_the_last_marker(stage, peer):
    peer.create("a")
    producer = Transactional(peer)
    producer.init()
    producer.send("a", b"v")
    (before,) = producers_of(peer, "a", 0)[0].active_producers

    stage.advance(5000)
    ended_ms = stage.now_ms
    producer.end(commit=False)
    stage.advance(5000)

    (after,) = producers_of(peer, "a", 0)[0].active_producers
    assert (before.last_timestamp, after.last_timestamp) == (ended_ms - 5000, ended_ms)
    stage.restart(cleanly=False)
    (replayed,) = producers_of(stage.connect(), "a", 0)[0].active_producers
    assert replayed.last_timestamp == ended_ms


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("a", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("gone", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/name", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_describe_producers_rejects_an_unknown_partition(peer, topic, index, code):
    peer.create("a")

    assert [p.error_code for p in producers_of(peer, topic, index)] == [code]


# ---------------------------------------------------------------- pages of DescribeTopicPartitions


def page(peer, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None):
    return peer.ask(
        DescribeTopicPartitionsRequest(
            topics=[DescribedTopicName(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor and TopicPartitionsCursor(topic_name=cursor[0], partition_index=cursor[1]),
        ),
        0,
    )


def shown(answer) -> dict[str, list[int]]:
    return {t.name: [p.partition_index for p in t.partitions] for t in answer.topics}


def following(answer) -> tuple[str, int] | None:
    return answer.next_cursor and (answer.next_cursor.topic_name, answer.next_cursor.partition_index)


def test_describe_topic_partitions_lists_all_topics_in_name_order_with_leaders(peer):
    peer.create("b")
    peer.create("a", partitions=2)

    answer = page(peer)

    assert shown(answer) == {"a": [0, 1], "b": [0]}
    assert following(answer) is None
    first = answer.topics[0]
    assert (first.error_code, first.topic_id, first.is_internal) == (0, peer.topic_id("a"), False)
    assert {(p.leader_id, tuple(p.replica_nodes), tuple(p.isr_nodes)) for p in first.partitions} == {(1, (1,), (1,))}
    assert {tuple(p.eligible_leader_replicas + p.last_known_elr + p.offline_replicas) for p in first.partitions} == {()}


def test_pages_of_topic_partitions_contain_each_partition_once(peer):
    peer.create("a", partitions=3)
    peer.create("b", partitions=1)
    peer.create("c", partitions=4)
    whole = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1), ("c", 2), ("c", 3)]

    for limit in range(1, 10):
        found, cursor = [], None
        while True:
            answer = page(peer, limit=limit, cursor=cursor)
            entries = [(name, index) for name, at in shown(answer).items() for index in at]
            assert 1 <= len(entries) <= limit
            found += entries
            cursor = following(answer)
            if cursor is None:
                break
        assert found == whole


def test_page_of_described_topic_partitions_is_limited_by_the_broker():
    peer = BrokerStage(max_request_partition_size_limit=2).connect()
    peer.create("a", partitions=3)

    answer = page(peer, limit=2000)

    assert (shown(answer), following(answer)) == ({"a": [0, 1]}, ("a", 2))
    assert shown(page(peer, limit=0)) == {"a": [0]}


def test_unknown_topic_does_not_count_against_the_page_limit(peer):
    peer.create("b")

    answer = page(peer, "b", "a", "no/name", limit=1)

    assert [(t.name, t.error_code) for t in answer.topics] == [("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("b", 0)]
    assert following(answer) == ("no/name", 0)
    assert [t.error_code for t in page(peer, "no/name").topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_invalid_cursor_is_reported_for_each_topic(peer, cursor):
    peer.create("a")

    assert [(t.name, t.error_code) for t in page(peer, "a", cursor=cursor).topics] == [("a", ErrorCode.INVALID_REQUEST)]
