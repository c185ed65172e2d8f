"""Long requests in steps, with other requests in between."""

import pytest

from kohort.broker.io import Tick
from kohort.errors import ErrorCode
from kohort.log.storage import MemoryStorage
from kohort.wire.compression import Codec
from kohort.wire.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from kohort.wire.messages.group_classic import HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, fetch_request, produce_request

MANY = 50_000


def unknown_names(count: int = MANY) -> MetadataRequest:
    names = [MetadataRequestTopic(name=f"n{i}") for i in range(count)]
    return MetadataRequest(topics=names, allow_auto_topic_creation=False)


def finish(stage: BrokerStage) -> int:
    ticks = 0
    while stage.broker.long_work:
        stage.give(Tick())
        ticks += 1
    return ticks


def ask(peer, message, version):
    peer.send(message, version)
    finish(peer.stage)
    return peer.take()


@pytest.mark.heavy
def test_other_requests_are_served_during_a_long_request(stage, peer):
    other = stage.connect()
    peer.send(unknown_names(), 9)

    served = 0
    while stage.broker.long_work and peer.take() is None:
        assert stage.broker.wake_at_ms == 0
        stage.give(Tick())
        assert other.ask(HeartbeatRequest(group_id="g", member_id="m"), 4).error_code
        served += 1

    assert served > 10


@pytest.mark.heavy
def test_long_request_is_answered_and_the_connection_continues(stage, peer):
    peer.send(unknown_names(), 9)
    peer.send(MetadataRequest(topics=[]), 9)
    assert peer.take() is None

    finish(stage)

    long, short = peer.take_all()
    assert [t.name for t in long.topics] == [f"n{i}" for i in range(MANY)]
    assert {t.error_code for t in long.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert short.topics == []


@pytest.mark.heavy
def test_steps_of_two_long_requests_alternate(stage, peer):
    other = stage.connect()
    peer.send(unknown_names(), 9)
    other.send(unknown_names(2_000), 9)

    while other.take() is None:
        stage.give(Tick())

    assert peer.take() is None
    finish(stage)
    assert peer.take() is not None


def test_long_request_completes_after_its_client_disconnects(stage, peer):
    request_topics = [CreatableTopic(name=f"t{i}", num_partitions=1, replication_factor=1) for i in range(200)]
    peer.send(CreateTopicsRequest(topics=request_topics), 7)
    assert stage.broker.long_work

    peer.leave()
    finish(stage)

    assert len(stage.broker.state.topics) == 200


def test_malformed_end_of_a_long_request_closes_the_connection(stage, peer):
    body = peer.request_bytes(unknown_names(), 9)
    peer.send_bytes(body[:-40] + b"\xff" * 40)

    assert finish(stage) > 1

    assert "malformed Metadata version 9" in peer.closed


def test_metadata_request_with_too_many_names_closes_the_connection(stage, peer):
    peer.send(MetadataRequest(topics=[MetadataRequestTopic(name="")] * 100_001), 1)

    assert "100001 elements, more than the 100000 accepted" in peer.closed
    assert not stage.broker.long_work


def test_duplicate_topic_is_answered_once(peer):
    peer.create("a")
    answer = ask(peer, MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in ("a", "b", "a", "b")]), 9)

    assert [t.name for t in answer.topics] == ["a", "b"]


@pytest.mark.heavy
def test_internal_error_closes_only_its_connection(stage, peer, monkeypatch):
    peer.send(unknown_names(), 9)
    monkeypatch.setattr(stage.broker.state.topics, "get", None)

    with pytest.raises(TypeError):
        finish(stage)
    monkeypatch.undo()
    finish(stage)

    assert "internal error of the broker" in peer.closed
    assert stage.connect().ask(MetadataRequest(topics=[]), 9).topics == []


# ---------------------------------------------------------------- topics


def test_topic_is_visible_after_all_its_partitions_are_created(stage, peer):
    other = stage.connect()
    peer.send(CreateTopicsRequest(topics=[CreatableTopic(name="wide", num_partitions=500, replication_factor=1)]), 7)

    observed = []
    while stage.broker.long_work:
        stage.give(Tick())
        (topic,) = other.ask(MetadataRequest(topics=[MetadataRequestTopic(name="wide")]), 4).topics
        observed.append((topic.error_code, len(topic.partitions)))

    assert set(observed) == {(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0), (0, 500)}
    assert peer.take().topics[0].error_code == 0


@pytest.mark.parametrize("validate_only", [False, True])
def test_topics_with_a_rejected_option_are_served_in_steps(stage, peer, validate_only):
    wrong = [CreatableTopicConfig(name="retention.mss", value="1")]
    topics = [CreatableTopic(name=f"t{i}", num_partitions=1, replication_factor=1, configs=wrong) for i in range(500)]

    peer.send(CreateTopicsRequest(topics=topics, validate_only=validate_only), 7)

    assert finish(stage) > 90
    (answer,) = peer.take_all()
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.INVALID_CONFIG}


def test_incremental_alter_configs_with_rejected_options_is_served_in_steps(stage, peer):
    wrong = [AlterableConfig(name="retention.mss", value="1")]
    resources = [AlterConfigsResource(resource_type=2, resource_name=f"t{n}", configs=wrong) for n in range(500)]

    peer.send(IncrementalAlterConfigsRequest(resources=resources), 1)

    assert finish(stage) > 40
    (answer,) = peer.take_all()
    assert all(found.error_code for found in answer.responses)


def test_name_of_a_topic_in_creation_is_rejected_as_existing(stage, peer):
    wide = CreateTopicsRequest(topics=[CreatableTopic(name="a.b", num_partitions=500, replication_factor=1)])
    peer.send(wide, 7)
    other = stage.connect()

    codes = [
        other.ask(CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]), 7)
        .topics[0]
        .error_code
        for name in ("a.b", "a_b")
    ]

    assert codes == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_partitions_per_request_are_limited_as_in_kafka(peer):
    request_topics = [
        CreatableTopic(name=f"t{i}", num_partitions=n, replication_factor=1) for i, n in enumerate((5_000, 5_001))
    ]

    answer = peer.ask(CreateTopicsRequest(topics=request_topics), 7)

    assert [(t.name, t.error_code) for t in answer.topics] == [("t0", 44), ("t1", 44)]


def test_topic_deleted_while_partitions_are_added_is_unknown(stage, peer):
    peer.create("a")
    other = stage.connect()
    grow = CreatePartitionsTopic(name="a", count=500, assignments=None)
    peer.send(CreatePartitionsRequest(topics=[grow]), 3)

    deleted = other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6)
    finish(stage)
    other.create("a", 3)
    stage.advance(1)

    assert deleted.responses[0].error_code == 0
    assert peer.take().results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.storage.folders() == ["a-0", "a-1", "a-2"]


def test_topic_recreated_during_its_deletion_is_empty(stage, peer):
    ask(peer, CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=2_000, replication_factor=1)]), 7)
    peer.produce("a", b"old", partition=1_999)
    other = stage.connect()
    peer.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")]), 6)
    assert stage.broker.long_work

    other.send(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=2_000, replication_factor=1)]), 7)
    finish(stage)
    stage.advance(1)

    assert (peer.take().responses[0].error_code, other.take().topics[0].error_code) == (0, 0)
    assert sorted(stage.storage.folders()) == sorted(f"a-{i}" for i in range(2_000))
    assert stage.broker.state.topics.log("a", 1_999).log_end_offset == 0
    assert stage.broker.state.topics.recovery_notes == []


def test_auto_created_topics_are_stored_with_one_write(stage, peer):
    written = []
    replace = stage.storage.replace
    stage.storage.replace = lambda name, *content, **how: (written.append(name), replace(name, *content, **how))

    answer = ask(peer, MetadataRequest(topics=[MetadataRequestTopic(name=f"t{i}") for i in range(300)]), 4)

    assert [t.error_code for t in answer.topics] == [0] * 300
    assert written.count("kohort-topics.json") == 1


# ---------------------------------------------------------------- partitions, groups


def commit(partitions: int, offset: int = 5) -> OffsetCommitRequest:
    request_partitions = [
        OffsetCommitRequestPartition(partition_index=i, committed_offset=offset + i) for i in range(partitions)
    ]
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="wide", partitions=request_partitions)]
    )


@pytest.fixture
def wide(stage, peer):
    ask(peer, CreateTopicsRequest(topics=[CreatableTopic(name="wide", num_partitions=3_000, replication_factor=1)]), 7)
    return peer


@pytest.mark.parametrize("version", [6, 8])
def test_offsets_of_many_partitions_are_committed_and_fetched(wide, version):
    committed = ask(wide, commit(3_000), 8)
    topics = [OffsetFetchRequestTopics(name="wide", partition_indexes=list(range(3_000)))]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=request_topics) for request_topics in (topics, None)]
    fetched = ask(wide, OffsetFetchRequest(groups=groups), 8)

    assert [p.error_code for t in committed.topics for p in t.partitions] == [0] * 3_000
    assert len(committed.topics) == 1
    for group in fetched.groups:
        assert [(t.name, len(t.partitions)) for t in group.topics] == [("wide", 3_000)]
        assert [p.committed_offset for p in group.topics[0].partitions] == [5 + i for i in range(3_000)]


def test_duplicate_group_in_a_split_delete_groups_request_is_deleted_once(stage, peer):
    peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    names = [f"n{i}" for i in range(100)] * 2

    answer = ask(peer, DeleteGroupsRequest(groups_names=names), 2)

    assert [r.group_id for r in answer.results] == names[:100]


def test_describe_groups_with_many_group_ids_describes_each_group(stage, peer):
    answer = ask(peer, DescribeGroupsRequest(groups=[f"n{i}" for i in range(3_000)]), 5)

    assert [g.group_id for g in answer.groups] == [f"n{i}" for i in range(3_000)]


@pytest.mark.heavy
def test_duplicate_partition_in_a_large_request_is_rejected(wide):
    request_partitions = [ListOffsetsPartition(partition_index=i % 2_999, timestamp=-1) for i in range(3_000)]

    answer = ask(wide, ListOffsetsRequest(topics=[ListOffsetsTopic(name="wide", partitions=request_partitions)]), 7)

    codes = [p.error_code for p in answer.topics[0].partitions]
    assert (codes[0], codes[-1], set(codes[1:-1])) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, {0})


def test_join_group_with_large_metadata_is_read_in_steps(stage, peer):
    blob = bytes(5 << 20)
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=blob)],
    )

    peer.send(join, 3)
    finish(stage)
    stage.advance(10)

    assert [m.metadata for m in peer.take().members] == [blob]


def test_join_group_rejects_too_many_or_too_large_protocols(peer):
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=f"p{i}") for i in range(10_001)],
    )
    large = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(17 << 20))],
    )

    assert ask(peer, join, 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ask(peer, large, 3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# ---------------------------------------------------------------- fetch, produce


def wide_fetch(count: int = 3_000, max_wait_ms: int = 0) -> FetchRequest:
    request_partitions = [FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in range(count)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic="wide", partitions=request_partitions)],
    )


def test_fetch_of_many_partitions_waits_and_is_answered_in_steps(stage, wide):
    other = stage.connect()
    wide.send(wide_fetch(max_wait_ms=60_000), 12)
    finish(stage)
    assert wide.take() is None

    other.produce("wide", b"v", partition=2_500)
    finish(stage)

    (topic,) = wide.take().responses
    assert [p.partition_index for p in topic.partitions if p.records] == [2_500]


@pytest.mark.heavy
def test_fetch_of_many_partitions_returns_records_appended_between_its_steps(stage, peer):
    ask(peer, CreateTopicsRequest(topics=[CreatableTopic(name="wide", num_partitions=9_000, replication_factor=1)]), 7)
    other = stage.connect()
    peer.send(wide_fetch(9_000, max_wait_ms=60_000), 12)
    assert stage.broker.long_work

    other.produce("wide", b"v", partition=0)
    finish(stage)

    assert [p.partition_index for p in peer.take().responses[0].partitions if p.records] == [0]


@pytest.mark.heavy
def test_fetch_of_many_partitions_does_not_wait_after_its_client_disconnected(stage, peer):
    ask(peer, CreateTopicsRequest(topics=[CreatableTopic(name="wide", num_partitions=9_000, replication_factor=1)]), 7)
    peer.send(wide_fetch(9_000, max_wait_ms=2**31 - 1), 12)
    assert stage.broker.long_work

    peer.leave()
    finish(stage)

    assert len(stage.broker.state.purgatory) == 0


@pytest.mark.heavy
def test_produce_to_many_partitions_appends_to_each_partition(stage, wide):
    batch = build_batch([NewRecord(None, b"v", (), stage.now_ms)])
    data = [PartitionProduceData(index=i, records=batch) for i in range(3_000)]
    message = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="wide", partition_data=data)])

    answer = ask(wide, message, 9)

    assert [p.base_offset for p in answer.responses[0].partition_responses] == [0] * 3_000
    assert stage.broker.state.topics.log("wide", 2_999).log_end_offset == 1


def many_records(stage, key=b"k") -> bytes:
    return build_batch([NewRecord(key, None, (), stage.now_ms)] * 50_000)


def test_batch_is_decompressed_in_steps_between_other_appends(stage, peer):
    peer.create("keyed", cleanup_policy="compact")
    other = stage.connect()
    peer.send(produce_request("keyed", many_records(stage)), 9)
    assert stage.broker.long_work

    assert other.produce("keyed", b"", batch=build_batch([NewRecord(b"k", b"v", (), stage.now_ms)])).base_offset == 0
    finish(stage)

    assert peer.take().responses[0].partition_responses[0].base_offset == 1


def test_topic_deleted_while_its_batch_is_decompressed_is_unknown(stage, peer):
    peer.create("keyed", cleanup_policy="compact")
    other = stage.connect()
    peer.send(produce_request("keyed", many_records(stage)), 9)

    other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="keyed")]), 6)
    other.create("keyed", cleanup_policy="compact")
    finish(stage)

    refused = peer.take().responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.broker.state.topics.log("keyed", 0).log_end_offset == 0


@pytest.mark.parametrize("codec", list(Codec)[1:])
@pytest.mark.parametrize("options", [{"cleanup_policy": "compact"}, {"compression_type": "uncompressed"}])
def test_batch_that_decompresses_above_the_limit_is_rejected(stage, peer, codec, options):
    peer.create("opened", max_message_bytes="3000000", **options)
    bomb = build_batch([NewRecord(b"k", bytes(1 << 20), (), stage.now_ms)] * 17, codec=codec)

    peer.send(produce_request("opened", bomb), 9)
    finish(stage)

    (refused,) = peer.take().responses[0].partition_responses
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert "more than the" in refused.error_message


# ---------------------------------------------------------------- broker stops, and small requests


def test_interrupted_topic_creation_is_completed_at_broker_start(stage, peer):
    request_topics = [CreatableTopic(name=f"t{i}", num_partitions=1, replication_factor=1) for i in range(300)]
    peer.send(CreateTopicsRequest(topics=request_topics), 7)
    while not len(stage.broker.state.topics):
        stage.give(Tick())
    assert len(stage.broker.state.topics) < 300

    stage.restart(cleanly=False)

    assert len(stage.broker.state.topics) == 300
    assert len(stage.storage.folders()) == 300


def test_broker_stop_during_a_long_request_is_clean(stage, peer):
    request_topics = [CreatableTopic(name="t", num_partitions=300, replication_factor=1)]
    peer.send(CreateTopicsRequest(topics=request_topics), 7)

    stage.broker.close(stage.now_ms)

    assert not [str(note) for note in stage.broker.take_notes() if "not closed" in str(note)]
    assert isinstance(stage.storage, MemoryStorage)
    assert stage.storage.read(".kafka_cleanshutdown") is not None


def test_small_fetch_is_answered_in_one_step(peer):
    peer.create("a")
    peer.produce("a", b"x")

    peer.send(fetch_request("a"), 12)

    assert peer.take().responses[0].partitions[0].high_watermark == 1
