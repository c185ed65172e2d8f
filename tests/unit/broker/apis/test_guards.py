"""Responses to requests for both allowed and denied topics, groups and other resources."""

from __future__ import annotations

import pytest

from kohort.errors import ErrorCode
from kohort.security.acls import ALL_OPERATIONS, NOT_REQUESTED, Operation, PatternType, Permission, ResourceType
from kohort.wire.messages.cluster import DescribeClusterRequest
from kohort.wire.messages.configs import ConfigResourceType, DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from kohort.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    DescribeTransactionsRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.guarded_stage import GuardedStage, acl, state_of
from support.machines.populated import GROUP, TOPIC, TRANSACTIONAL_ID

OPEN, SHUT = "open", "shut"
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
BATCH = build_batch([NewRecord(None, b"v", (), 1_700_000_000_000)])
TOPICS, GROUPS, IDS, THE_CLUSTER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.CLUSTER,
)


def on_topic(*operations: Operation, name: str = OPEN):
    return [acl(operation, TOPICS, name) for operation in operations]


def on_group(*operations: Operation, name: str = GROUP):
    return [acl(operation, GROUPS, name) for operation in operations]


def on_cluster(*operations: Operation):
    return [acl(operation, THE_CLUSTER, "kafka-cluster") for operation in operations]


@pytest.fixture
def stage() -> GuardedStage:
    """Topics ``open`` and ``shut`` with a record each, and a client without rights."""
    stage = GuardedStage()
    stage.let_everything()
    peer = stage.connect()
    for name in (OPEN, SHUT):
        peer.create(name)
        assert peer.produce(name, b"v").error_code == 0
    stage.let()
    return stage


@pytest.fixture
def peer(stage):
    return stage.connect()


def ids(stage: GuardedStage) -> dict[str, bytes]:
    return {topic.name: topic.topic_id for topic in stage.broker.state.topics}


# ---------------------------------------------------------------- topics


def metadata(*names: str, **more) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


@pytest.mark.parametrize("version", [0, 1, 9, 12, 13])
def test_topic_without_describe_is_denied_whether_or_not_it_exists(stage, peer, version):
    stage.let(*on_topic(Operation.DESCRIBE))

    answer = peer.ask(metadata(OPEN, SHUT, "missing"), version)

    assert {t.name: (t.error_code, bool(t.partitions)) for t in answer.topics} == {
        OPEN: (0, True),
        SHUT: (DENIED, False),
        "missing": (DENIED, False),
    }
    assert {t.topic_id for t in answer.topics if t.error_code} == {bytes(16)}
    assert len(answer.brokers) == 1


def test_metadata_version_0_with_only_denied_topics_does_not_list_all_topics(stage, peer):
    answer = peer.ask(metadata(SHUT), 0)

    assert [(t.name, t.error_code) for t in answer.topics] == [(SHUT, DENIED)]


def test_denied_topic_id_is_returned_without_a_name(stage, peer):
    request_topics = [
        MetadataRequestTopic(topic_id=ids(stage)[SHUT], name=None),
        MetadataRequestTopic(topic_id=b"?" * 16, name=None),
    ]

    answer = peer.ask(MetadataRequest(topics=request_topics), 12)

    topics = {t.topic_id: (t.name, t.error_code) for t in answer.topics}
    assert topics == {ids(stage)[SHUT]: (None, DENIED), b"?" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


@pytest.mark.parametrize("version", [0, 9])
def test_metadata_of_all_topics_hides_topics_without_describe(stage, peer, version):
    stage.let(*on_topic(Operation.READ))

    answer = peer.ask(MetadataRequest(topics=[] if version == 0 else None), version)

    assert [t.name for t in answer.topics] == [OPEN]
    assert stage.log_lines() == [], "hidden topics are not logged as denied"


@pytest.mark.parametrize("right", [acl(Operation.CREATE, TOPICS, "new"), *on_cluster(Operation.CREATE)])
def test_auto_creation_of_a_topic_needs_create(stage, peer, right):
    stage.let(acl(Operation.DESCRIBE, TOPICS, "new"))
    assert peer.ask(metadata("new"), 9).topics[0].error_code == DENIED
    assert "new" not in stage.broker.state.topics

    stage.let(acl(Operation.DESCRIBE, TOPICS, "new"), right)
    assert peer.ask(metadata("new"), 9).topics[0].error_code == 0


def test_metadata_reports_a_missing_topic_without_auto_creation_as_unknown(stage, peer):
    stage.let(acl(Operation.DESCRIBE, TOPICS, "new"))

    answer = peer.ask(metadata("new", allow_auto_topic_creation=False), 9)

    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_has_the_authorized_operations(stage, peer):
    stage.let(*on_topic(Operation.READ, Operation.ALTER_CONFIGS), *on_cluster(Operation.DESCRIBE, Operation.ALTER))
    request = metadata(OPEN, SHUT, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)

    answer = peer.ask(request, 9)
    cluster = peer.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)

    may = {Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}
    operations = {t.name: t.topic_authorized_operations for t in answer.topics}
    assert operations == {OPEN: sum(1 << operation for operation in may), SHUT: NOT_REQUESTED}
    of_cluster = 1 << Operation.DESCRIBE | 1 << Operation.ALTER
    assert (answer.cluster_authorized_operations, cluster.cluster_authorized_operations) == (of_cluster, of_cluster)

    stage.let(*on_cluster(Operation.CREATE))
    blind = peer.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert (blind.cluster_authorized_operations, len(blind.brokers)) == (0, 1)

    stage.let_everything()
    all_ = peer.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
    assert all_.cluster_authorized_operations == ALL_OPERATIONS[THE_CLUSTER] == 8096
    assert peer.ask(request, 9).topics[0].topic_authorized_operations == ALL_OPERATIONS[TOPICS] == 3576


def test_describe_topic_partitions_skips_denied_topics(stage, peer):
    stage.let_everything()
    for name in ("a", "z"):
        peer.create(name)
    stage.let(*(acl(Operation.DESCRIBE, TOPICS, name) for name in ("a", "z")))

    page = peer.ask(DescribeTopicPartitionsRequest(response_partition_limit=1), 0)
    assert [t.name for t in page.topics] == ["a"]
    assert page.next_cursor.topic_name == "z"

    rest = peer.ask(DescribeTopicPartitionsRequest(response_partition_limit=1, cursor=page.next_cursor), 0)
    assert ([t.name for t in rest.topics], rest.next_cursor) == (["z"], None)

    named = peer.ask(DescribeTopicPartitionsRequest(topics=[DescribedTopicName(name=n) for n in ("a", SHUT, "no")]), 0)
    topics = {t.name: (t.error_code, t.topic_id == bytes(16), t.topic_authorized_operations) for t in named.topics}
    assert topics == {
        "a": (0, False, 1 << Operation.DESCRIBE),
        SHUT: (DENIED, True, NOT_REQUESTED),
        "no": (DENIED, True, NOT_REQUESTED),
    }


def creations(*names: str, **more) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, **more)


def test_create_topics_needs_create_and_hides_options_without_describe_configs(stage, peer):
    stage.let(
        acl(Operation.CREATE, TOPICS, "my-", pattern=PatternType.PREFIXED),
        acl(Operation.DESCRIBE_CONFIGS, TOPICS, "my-b"),
    )

    answer = peer.ask(creations("my-a", "my-b", "yours", "twice", "twice"), 7)

    errors = {t.name: (t.error_code, t.error_message) for t in answer.topics}
    assert errors == {
        "my-a": (0, None),
        "my-b": (0, None),
        "yours": (DENIED, "Authorization failed."),
        "twice": (ErrorCode.INVALID_REQUEST, "duplicate topic in the request"),
    }
    by_name = {t.name: t for t in answer.topics}
    hidden, shown = by_name["my-a"], by_name["my-b"]
    assert (hidden.topic_config_error_code, hidden.num_partitions, hidden.replication_factor) == (DENIED, -1, -1)
    assert hidden.configs == []
    assert hidden.topic_id == ids(stage)["my-a"]
    assert (shown.topic_config_error_code, shown.num_partitions, shown.replication_factor) == (0, 2, 1)
    assert shown.configs


def test_delete_topics_needs_delete_and_hides_names_without_describe(stage, peer):
    stage.let(*on_topic(Operation.DESCRIBE))
    topic_ids = ids(stage)

    by_name = peer.ask(DeleteTopicsRequest(topic_names=[OPEN, SHUT, "missing"], timeout_ms=1000), 5)
    assert {t.name: t.error_code for t in by_name.responses} == dict.fromkeys((OPEN, SHUT, "missing"), DENIED)

    request_topics = [
        DeleteTopicState(name=None, topic_id=topic_ids[OPEN]),
        DeleteTopicState(name=None, topic_id=topic_ids[SHUT]),
    ]
    unknown = DeleteTopicState(name=None, topic_id=b"?" * 16)
    by_id = peer.ask(DeleteTopicsRequest(topics=[*request_topics, unknown], timeout_ms=1000), 6)
    assert {t.topic_id: (t.name, t.error_code) for t in by_id.responses} == {
        topic_ids[OPEN]: (OPEN, DENIED),
        topic_ids[SHUT]: (None, DENIED),
        b"?" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID),
    }
    assert ids(stage) == topic_ids

    stage.let(*on_topic(Operation.DELETE))
    response = peer.ask(DeleteTopicsRequest(topic_names=[OPEN, SHUT], timeout_ms=1000), 5)
    assert {t.name: t.error_code for t in response.responses} == {OPEN: 0, SHUT: DENIED}
    assert set(ids(stage)) == {SHUT}


def test_create_partitions_needs_alter(stage, peer):
    stage.let(*on_topic(Operation.ALTER))
    topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in (OPEN, SHUT, "twice", "twice")]

    answer = peer.ask(CreatePartitionsRequest(topics=topics, timeout_ms=1000), 3)

    codes = {t.name: t.error_code for t in answer.results}
    assert codes == {OPEN: 0, SHUT: DENIED, "twice": ErrorCode.INVALID_REQUEST}
    assert len(stage.broker.state.topics.get(SHUT).partitions) == 1


# ---------------------------------------------------------------- records


def producing(*names: str, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=BATCH)]
    topics = [TopicProduceData(name=name, partition_data=data) for name in names]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def end_of(stage: GuardedStage, name: str) -> int:
    return stage.broker.state.topics.get(name).partitions[0].log_end_offset


def test_produce_appends_to_allowed_topics_and_rejects_denied_ones(stage, peer):
    stage.let(*on_topic(Operation.WRITE))

    answer = peer.ask(producing(SHUT, OPEN, "missing"), 9)

    results = {t.name: [(p.error_code, p.base_offset) for p in t.partition_responses] for t in answer.responses}
    assert results == {OPEN: [(0, 1)], SHUT: [(DENIED, -1)], "missing": [(DENIED, -1)]}
    assert (end_of(stage, OPEN), end_of(stage, SHUT)) == (2, 1)


def test_produce_to_an_unknown_topic_id_is_not_denied(stage, peer):
    data = [PartitionProduceData(index=0, records=BATCH)]
    topics = [TopicProduceData(topic_id=one, partition_data=data) for one in (ids(stage)[SHUT], b"?" * 16)]

    answer = peer.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 13)

    codes = {t.topic_id: t.partition_responses[0].error_code for t in answer.responses}
    assert codes == {ids(stage)[SHUT]: DENIED, b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("names", [(SHUT,), (OPEN, SHUT)])
def test_denied_produce_with_acks_0_closes_the_connection(stage, peer, names):
    stage.let(*on_topic(Operation.WRITE))

    peer.send(producing(*names, acks=0), 9, answered=False)

    assert peer.closed == "127.0.0.1: Produce with acks=0 failed: shut: TOPIC_AUTHORIZATION_FAILED"
    assert (end_of(stage, OPEN), end_of(stage, SHUT)) == (len(names), 1)


def test_produce_response_after_a_flush_reports_denied_topics():
    stage = GuardedStage()
    stage.let_everything()
    peer = stage.connect()
    peer.create(OPEN, flush_messages="1")
    peer.create(SHUT)
    stage.let(*on_topic(Operation.WRITE))

    peer.send(producing(OPEN, SHUT), 9)
    stage.advance(1_000)

    codes = {t.name: t.partition_responses[0].error_code for t in peer.take().responses}
    assert codes == {OPEN: 0, SHUT: DENIED}
    assert stage.broker.state.amendments == {}


def fetching(*names: str, wait_ms: int = 0, session_id: int = 0, epoch: int = -1) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch,
        topics=[FetchTopic(topic=name, partitions=[part]) for name in names],
    )  # fmt: skip


def fetch_codes(answer) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}


@pytest.mark.parametrize(("rights", "code"), [((Operation.READ, Operation.WRITE), 0), ((Operation.WRITE,), DENIED)])
def test_waiting_fetch_checks_rights_again_at_the_end_of_its_wait(stage, peer, rights, code):
    stage.let(*on_topic(Operation.READ))
    peer.send(fetching(OPEN, SHUT, wait_ms=500), 12)
    assert peer.take() is None

    stage.let(*(right for operation in rights for right in on_topic(operation)))
    assert stage.connect().produce(OPEN, b"more").error_code == 0

    answer = peer.take()
    assert fetch_codes(answer) == {OPEN: code, SHUT: DENIED}
    assert [bool(p.records) for t in answer.responses for p in t.partitions if t.topic == OPEN] == [code == 0]


def test_fetch_of_only_denied_topics_is_answered_at_once(stage, peer):
    assert fetch_codes(peer.ask(fetching(SHUT, "missing", wait_ms=500), 12)) == {SHUT: DENIED, "missing": DENIED}


def test_fetch_session_reports_a_denied_partition_until_it_is_allowed(stage, peer):
    stage.let(*on_topic(Operation.READ))
    first = peer.ask(fetching(OPEN, SHUT, epoch=0), 12)
    assert fetch_codes(first) == {OPEN: 0, SHUT: DENIED}
    assert first.session_id > 0

    again = peer.ask(fetching(session_id=first.session_id, epoch=1), 12)
    assert fetch_codes(again) == {SHUT: DENIED}

    stage.let(*on_topic(Operation.READ), *on_topic(Operation.READ, name=SHUT))
    assert fetch_codes(peer.ask(fetching(session_id=first.session_id, epoch=2), 12)) == {SHUT: 0}


def test_replica_fetch_needs_cluster_action(stage, peer):
    request = fetching(OPEN)
    request.replica_id = 1
    stage.let(*on_topic(Operation.READ))
    assert fetch_codes(peer.ask(request, 12)) == {OPEN: DENIED}

    stage.let(*on_cluster(Operation.CLUSTER_ACTION))
    assert fetch_codes(peer.ask(request, 12)) == {OPEN: 0}


# ---------------------------------------------------------------- groups


def committing(*names: str, group: str = GROUP) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=name, partitions=[part]) for name in names]
    )


def codes_of(answer) -> dict[str, int]:
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def test_offset_commit_needs_read_on_the_topic(stage, peer):
    stage.let(*on_group(Operation.READ), *on_topic(Operation.READ))

    assert codes_of(peer.ask(committing(OPEN, SHUT, "missing"), 8)) == {OPEN: 0, SHUT: DENIED, "missing": DENIED}
    assert list(stage.broker.state.coordinator.committed(GROUP).by_topic) == [OPEN]
    assert stage.broker.state.amendments == {}


def test_large_offset_commit_with_denied_topics_is_split(stage, peer):
    stage.let(*on_group(Operation.READ), *on_topic(Operation.READ))
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    more = [
        OffsetCommitRequestPartition(partition_index=i, committed_offset=5, committed_metadata="") for i in range(900)
    ]
    topics = [
        OffsetCommitRequestTopic(name=OPEN, partitions=more),
        OffsetCommitRequestTopic(name=SHUT, partitions=[part]),
    ]

    peer.send(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
    stage.advance(1_000)

    answer = peer.take()
    assert [(t.name, len(t.partitions)) for t in answer.topics] == [(OPEN, 900), (SHUT, 1)]
    assert answer.topics[1].partitions[0].error_code == DENIED


@pytest.mark.parametrize("version", [1, 5, 7])
def test_offset_fetch_of_one_group_needs_describe_on_the_topic(stage, peer, version):
    stage.let_everything()
    peer.ask(committing(OPEN, SHUT), 8)
    stage.let(*on_group(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE))
    request_topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in (OPEN, SHUT)]

    answer = peer.ask(OffsetFetchRequest(group_id=GROUP, topics=request_topics), version)

    results = {t.name: (t.partitions[0].error_code, t.partitions[0].committed_offset) for t in answer.topics}
    assert results == {OPEN: (0, 5), SHUT: (DENIED, -1)}
    if version > 1:
        every = peer.ask(OffsetFetchRequest(group_id=GROUP, topics=None), version)
        assert codes_of(every) == {OPEN: 0}


def test_offset_fetch_of_several_groups_checks_each_group_and_topic(stage, peer):
    stage.let_everything()
    for group in (GROUP, "other"):
        peer.ask(committing(OPEN, SHUT, group=group), 8)
    stage.let(*on_group(Operation.DESCRIBE), *on_topic(Operation.DESCRIBE))
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in (OPEN, SHUT)]
    groups = [
        OffsetFetchRequestGroup(group_id="other", topics=topics),
        OffsetFetchRequestGroup(group_id=GROUP, topics=topics),
        OffsetFetchRequestGroup(group_id=GROUP, topics=None),
    ]

    answer = peer.ask(OffsetFetchRequest(groups=groups), 8)

    assert [(g.group_id, g.error_code, codes_of(g)) for g in answer.groups] == [
        (GROUP, 0, {OPEN: 0, SHUT: DENIED}),
        (GROUP, 0, {OPEN: 0}),
        ("other", ErrorCode.GROUP_AUTHORIZATION_FAILED, {}),
    ]


def test_list_describe_and_delete_groups_need_rights_on_the_group(stage, peer):
    stage.let_everything()
    for group in (GROUP, "other"):
        peer.ask(committing(OPEN, group=group), 8)
    stage.let(*on_group(Operation.DESCRIBE, Operation.READ))
    stage.log_lines()

    assert [g.group_id for g in peer.ask(ListGroupsRequest(), 4).groups] == [GROUP]
    assert stage.log_lines() == []
    request = DescribeGroupsRequest(groups=["other", GROUP], include_authorized_operations=True)
    described = peer.ask(request, 5)
    assert {g.group_id: (g.error_code, g.authorized_operations) for g in described.groups} == {
        GROUP: (0, 1 << Operation.READ | 1 << Operation.DESCRIBE),
        "other": (ErrorCode.GROUP_AUTHORIZATION_FAILED, NOT_REQUESTED),
    }
    stage.let(*on_group(Operation.DELETE, name="other"))
    delete_response = peer.ask(DeleteGroupsRequest(groups_names=[GROUP, "other", GROUP]), 2)
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [(r.group_id, r.error_code) for r in delete_response.results] == [("other", 0), (GROUP, refused)]
    stage.let(*on_cluster(Operation.DESCRIBE))
    assert [g.group_id for g in peer.ask(ListGroupsRequest(), 4).groups] == [GROUP]
    stage.let_everything()
    everything = peer.ask(DescribeGroupsRequest(groups=[GROUP], include_authorized_operations=True), 5)
    assert everything.groups[0].authorized_operations == ALL_OPERATIONS[GROUPS] == 3400


def test_find_coordinator_checks_rights_on_each_key(stage, peer):
    stage.let(*on_group(Operation.DESCRIBE))

    answer = peer.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["other", GROUP]), 4)

    assert {c.key: (c.error_code, c.error_message, c.node_id) for c in answer.coordinators} == {
        GROUP: (0, None, 1),
        "other": (ErrorCode.GROUP_AUTHORIZATION_FAILED, "", -1),
    }
    old = peer.ask(FindCoordinatorRequest(key="other"), 3)
    assert (old.error_code, old.node_id) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, -1)


def test_errors_of_denied_topics_are_dropped_when_the_client_disconnects(stage):
    stage.let(*on_topic(Operation.WRITE))
    stage.broker.state.amendments[99] = lambda answer: answer
    peer = stage.connect()
    stage.broker.state.amendments[peer.number] = lambda answer: answer

    peer.leave()

    assert list(stage.broker.state.amendments) == [99]


# ---------------------------------------------------------------- transactions, options, the cluster


def test_denied_topic_prevents_adding_any_partition_to_the_transaction():
    stage = GuardedStage()
    things = stage.fill()
    stage.let_everything()
    peer = stage.connect()
    peer.create(OPEN)
    stage.let(acl(Operation.WRITE, IDS, TRANSACTIONAL_ID), *on_topic(Operation.WRITE))
    before = state_of(stage)
    request_topics = [
        AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in (OPEN, TOPIC, "__consumer_offsets")
    ]

    answer = peer.ask(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=things.producer_id,
            v3_and_below_producer_epoch=things.producer_epoch,
            v3_and_below_topics=request_topics,
        ),
        3,
    )

    codes = {t.name: t.results_by_partition[0].partition_error_code for t in answer.results_by_topic_v3_and_below}
    assert codes == {OPEN: ErrorCode.OPERATION_NOT_ATTEMPTED, TOPIC: DENIED, "__consumer_offsets": DENIED}
    assert state_of(stage) == before


def test_described_transaction_hides_topics_without_describe():
    stage = GuardedStage()
    stage.fill()
    peer = stage.connect()
    stage.let(acl(Operation.DESCRIBE, IDS, TRANSACTIONAL_ID))

    (hidden,) = peer.ask(DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), 0).transaction_states
    stage.let(acl(Operation.DESCRIBE, IDS, TRANSACTIONAL_ID), acl(Operation.DESCRIBE, TOPICS, TOPIC))
    (shown,) = peer.ask(DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), 0).transaction_states

    assert (hidden.error_code, hidden.transaction_state, hidden.topics) == (0, "Ongoing", [])
    assert [t.topic for t in shown.topics] == [TOPIC]


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([acl(Operation.WRITE, TOPICS, "some-", pattern=PatternType.PREFIXED)], True),
        ([acl(Operation.READ, TOPICS, "*")], False),
        ([acl(Operation.WRITE, TOPICS, OPEN), acl(Operation.WRITE, TOPICS, "*", permission=Permission.DENY)], False),
        (on_cluster(Operation.IDEMPOTENT_WRITE), True),
    ],
)
def test_idempotent_producer_needs_write_on_any_topic(stage, peer, acls, is_allowed):
    stage.let(*acls)

    answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 4)

    assert (answer.error_code == 0) == is_allowed
    assert answer.error_code in (0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert (answer.producer_id >= 0) == is_allowed


def test_config_requests_check_rights_on_each_resource(stage, peer):
    stage.let(*on_topic(Operation.DESCRIBE_CONFIGS), *on_group(Operation.DESCRIBE_CONFIGS))
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for kind, name in [
            (ConfigResourceType.TOPIC, OPEN), (ConfigResourceType.TOPIC, SHUT), (ConfigResourceType.GROUP, GROUP),
            (ConfigResourceType.GROUP, "other"), (ConfigResourceType.BROKER, "1"),
        ]
    ]  # fmt: skip

    answer = peer.ask(DescribeConfigsRequest(resources=resources), 4)

    assert {r.resource_name: (r.error_code, r.error_message) for r in answer.results} == {
        OPEN: (0, None),
        GROUP: (0, None),
        SHUT: (DENIED, "Topic authorization failed."),
        "other": (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
        "1": (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."),
    }


def test_denied_describe_log_dirs_before_version_3_is_empty(stage, peer):
    answer = peer.ask(DescribeLogDirsRequest(topics=None), 2)

    assert (answer.error_code, answer.results) == (0, [])


# ---------------------------------------------------------------- the audit


def test_denial_is_logged_in_kafkas_format(stage, peer):
    peer.ask(metadata(SHUT, OPEN, SHUT), 9)

    assert stage.log_lines() == [
        "Principal = User:ANONYMOUS is Denied operation = DESCRIBE from host = 127.0.0.1 "
        f"on resource = Topic:LITERAL:{name} for request = Metadata based on rule DefaultDeny"
        for name in (SHUT, OPEN)
    ]


def test_denial_log_names_the_denying_acl(stage, peer):
    stage.let(acl(Operation.ALL, TOPICS, "*"), acl(Operation.READ, TOPICS, SHUT, permission=Permission.DENY))

    peer.ask(fetching(SHUT), 12)

    (line,) = stage.log_lines()
    assert line.endswith(
        "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=shut, patternType=LITERAL, "
        "principal=User:ANONYMOUS, host=*, operation=READ, permissionType=DENY))"
    )


def test_request_with_many_denials_is_logged_in_few_lines(stage, peer):
    peer.ask(metadata(*(f"t{i}" for i in range(1_000))), 9)

    lines = stage.log_lines()
    assert len(lines) == 51
    assert lines[-1] == "950 more denied operations are not logged one by one"
