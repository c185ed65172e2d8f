"""Metadata: brokers, topics, auto-created topics."""

from kohort.errors import ErrorCode
from kohort.wire.messages.cluster import DescribeClusterRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.machines.broker_stage import BrokerStage


def named(*names: str, **options) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in names], **options)


def test_metadata_returns_id_and_partitions_of_a_topic(peer):
    peer.create("flights", 3)

    answer = peer.ask(named("flights"), 12)

    topic = answer.topics[0]
    assert (topic.name, topic.error_code, topic.is_internal, len(topic.topic_id)) == ("flights", 0, False, 16)
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
        (2, 1, [1], [1]),
    ]
    assert (answer.brokers[0].host, answer.brokers[0].port, answer.controller_id) == ("127.0.0.1", 9092, 1)
    assert len(answer.cluster_id) == 22


def test_metadata_creates_unknown_topic_with_the_default_number_of_partitions():
    peer = BrokerStage(num_partitions=4).connect()

    topic = peer.ask(named("new"), 12).topics[0]

    assert (topic.error_code, len(topic.partitions)) == (0, 4)


def test_invalid_topic_name_has_its_own_error_without_auto_creation(peer):
    quiet = BrokerStage(auto_create_topics_enable=False).connect()

    assert [
        one.ask(named("bad topic!", allow_auto_topic_creation=allowed), 12).topics[0].error_code
        for one in (peer, quiet)
        for allowed in (True, False)
    ] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 4


def test_client_and_broker_can_disable_auto_creation(peer):
    quiet = BrokerStage(auto_create_topics_enable=False).connect()

    refused = [
        peer.ask(named("new", allow_auto_topic_creation=False), 12).topics[0].error_code,
        quiet.ask(named("new"), 12).topics[0].error_code,
    ]

    assert refused == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert peer.ask(MetadataRequest(topics=None), 12).topics == []


def test_metadata_rejects_an_invalid_topic_name(peer):
    assert peer.ask(named("no spaces"), 12).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_all_topics_are_requested_by_null_or_in_version_0_by_an_empty_list(peer):
    peer.create("a")
    peer.create("b")

    assert sorted(t.name for t in peer.ask(MetadataRequest(topics=None), 12).topics) == ["a", "b"]
    assert sorted(t.name for t in peer.ask(MetadataRequest(topics=[]), 0).topics) == ["a", "b"]
    assert peer.ask(MetadataRequest(topics=[]), 1).topics == []


def test_metadata_finds_a_topic_by_id(peer):
    peer.create("a")
    topic_id = peer.topic_id("a")

    topic = peer.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]), 12).topics[0]
    unknown = peer.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"x" * 16, name=None)]), 12).topics[0]

    assert (topic.name, topic.error_code) == ("a", 0)
    assert (unknown.name, unknown.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)


def test_each_version_of_metadata_is_answered(peer):
    peer.create("a")
    for version in range(14):
        assert peer.ask(named("a"), version).topics[0].name == "a"


def test_metadata_returns_the_advertised_listener():
    peer = BrokerStage(**{"advertised.listeners": "PLAINTEXT://kohort.example:19092"}).connect()

    broker = peer.ask(named(), 12).brokers[0]

    assert (broker.host, broker.port) == ("kohort.example", 19092)


def test_describe_cluster_has_no_controller_endpoints(peer):
    response = peer.ask(DescribeClusterRequest(), 2)
    refused = peer.ask(DescribeClusterRequest(endpoint_type=2), 2)

    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
