"""CreateTopics, CreatePartitions, DeleteRecords and DeleteTopics."""

from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from support.machines.broker_stage import BrokerStage


def create(peer, *topics: CreatableTopic, version: int = 7, validate_only: bool = False):
    return peer.ask(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), version).topics


def topic(name: str = "a", partitions: int = 1, replicas: int = 1, **options) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **options)


def names(peer) -> list[str]:
    return sorted(t.name for t in peer.ask(MetadataRequest(topics=None), 12).topics)


def test_created_topic_is_returned_with_its_options(peer):
    config = CreatableTopicConfig(name="retention.ms", value="1000")

    (made,) = create(peer, topic("a", 3, configs=[config]))

    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 3, 1)
    options = {c.name: (c.value, c.config_source) for c in made.configs}
    assert options["retention.ms"] == ("1000", 1)
    assert options["cleanup.policy"] == ("delete", 5)
    assert made.topic_id == peer.topic_id("a")


def test_create_topics_with_minus_1_uses_the_broker_defaults():
    peer = BrokerStage(num_partitions=4).connect()

    assert create(peer, topic("a", -1, -1))[0].num_partitions == 4


def test_each_version_of_create_topics_creates_a_topic(peer):
    assert [create(peer, topic(f"t{v}"), version=v)[0].error_code for v in range(2, 8)] == [0] * 6


def test_create_topics_returns_an_error_code_for_each_invalid_topic(peer):
    create(peer, topic("there"))
    answers = create(
        peer,
        topic("there"),
        topic("no spaces"),
        topic("three", 1, 3),
        topic("none", 0),
        topic("odd", configs=[CreatableTopicConfig(name="retenton.ms", value="1")]),
        topic("valueless", configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
        topic("twice"),
        topic("twice"),
        topic("good"),
    )

    assert {a.name: a.error_code for a in answers} == {
        "there": ErrorCode.TOPIC_ALREADY_EXISTS,
        "no spaces": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "three": ErrorCode.INVALID_REPLICATION_FACTOR,
        "none": ErrorCode.INVALID_PARTITIONS,
        "odd": ErrorCode.INVALID_CONFIG,
        "valueless": ErrorCode.INVALID_CONFIG,
        "twice": ErrorCode.INVALID_REQUEST,
        "good": 0,
    }
    assert [a.name for a in answers].count("twice") == 1
    assert "did you mean retention.ms?" in next(a.error_message for a in answers if a.name == "odd")
    assert names(peer) == ["good", "there"]


def test_create_topics_with_validate_only_creates_nothing(peer):
    (valid,) = create(peer, topic("a", 2), validate_only=True)
    (invalid,) = create(peer, topic("b", 0), validate_only=True)

    assert (valid.error_code, valid.num_partitions) == (0, 2)
    assert invalid.error_code == ErrorCode.INVALID_PARTITIONS
    assert names(peer) == []


def test_manual_replica_assignment_must_name_this_broker(peer):
    def by_hand(name: str, *brokers: int) -> CreatableTopic:
        assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=[b]) for i, b in enumerate(brokers)]
        return topic(name, -1, -1, assignments=assignments)

    here, elsewhere = create(peer, by_hand("here", 1, 1), by_hand("elsewhere", 1, 2))

    assert (here.error_code, here.num_partitions) == (0, 2)
    assert elsewhere.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_create_partitions_rejects_a_duplicate_topic_in_a_single_response_entry(peer):
    create(peer, topic("a"))
    request_topic = CreatePartitionsTopic(name="a", count=2, assignments=None)

    (answer,) = peer.ask(CreatePartitionsRequest(topics=[request_topic, request_topic], timeout_ms=1), 3).results

    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_delete_topics_with_name_and_id_is_rejected(peer):
    (answer,) = peer.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=None)], timeout_ms=1), 6).responses

    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_topics_are_deleted_by_name_and_by_id(peer):
    create(peer, topic("a"), topic("b"))
    topic_id = peer.topic_id("b")

    by_name = peer.ask(DeleteTopicsRequest(topic_names=["a", "zzz"], timeout_ms=1), 5).responses
    states = [DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=b"?" * 16)]
    by_id = peer.ask(DeleteTopicsRequest(topics=states, timeout_ms=1), 6).responses

    assert [(r.name, r.error_code) for r in by_name] == [("a", 0), ("zzz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert [(r.name, r.error_code) for r in by_id] == [("b", 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert names(peer) == []


def test_internal_topics_cannot_be_deleted(peer):
    peer.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)

    (answer,) = peer.ask(DeleteTopicsRequest(topic_names=["__consumer_offsets"], timeout_ms=1), 5).responses

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_internal_topics_cannot_be_created(peer):
    (journal,) = create(peer, topic("__kohort_journal"))

    assert journal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_delete_topic_enable_false_forbids_deletion():
    peer = BrokerStage(delete_topic_enable=False).connect()
    create(peer, topic("a"))

    (answer,) = peer.ask(DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), 5).responses

    assert answer.error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_create_partitions_rejects_a_smaller_number_of_partitions(peer):
    create(peer, topic("a", 2))

    def widen(name: str, count: int, version: int = 3):
        request_topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        return peer.ask(CreatePartitionsRequest(topics=[request_topic], timeout_ms=1), version).results[0].error_code

    assert [widen("a", 3, 0), widen("a", 3), widen("a", 1), widen("zzz", 3), widen("a", 5, 2)] == [
        0,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]
    assert peer.produce("a", b"v", partition=4).error_code == 0


def test_delete_records_moves_the_log_start_offset(peer):
    create(peer, topic("a"))
    for value in (b"1", b"2", b"3"):
        peer.produce("a", value)

    def cut(offset: int, name: str = "a"):
        request_partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=[request_partition])], timeout_ms=1
        )
        got = peer.ask(request, 2).topics[0].partitions[0]
        return got.error_code, got.low_watermark

    assert cut(2) == (0, 2)
    assert peer.fetch("a", 0).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cut(99) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert cut(-1) == (0, 3)
    assert cut(0, "zzz") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


def test_topics_and_records_survive_a_restart(peer, stage):
    create(peer, topic("a", 3, configs=[CreatableTopicConfig(name="retention.ms", value="1000")]))
    peer.produce("a", b"kept", partition=2)
    topic_id, cluster_id = peer.topic_id("a"), stage.broker.cluster_id

    stage.restart(cleanly=False)
    back = stage.connect()

    assert (back.topic_id("a"), stage.broker.cluster_id) == (topic_id, cluster_id)
    assert back.fetch("a", partition=2).responses[0].partitions[0].high_watermark == 1
