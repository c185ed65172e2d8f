"""Admin operations against a simulated broker, without sockets."""

from __future__ import annotations

import random

import pytest

from kohort import ConfigResource, NewTopic
from kohort.broker.broker import Broker
from kohort.client.admin import groups as admin_groups
from kohort.client.admin import nodes as admin_nodes
from kohort.client.admin import offsets as admin_offsets
from kohort.client.admin import topics as admin_topics
from kohort.client.admin.operations import AdminMachine, Ask, Pause, ask
from kohort.client.producer import ProducerMachine
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.clock import ManualClock
from kohort.config.broker import BrokerConfig
from kohort.config.client import AdminConfig, ProducerConfig
from kohort.errors import (
    ApiError,
    ApiTimeout,
    ConnectionFailed,
    ErrorCode,
    ProtocolError,
    UnsupportedVersion,
    UsageError,
)
from kohort.log.storage import MemoryStorage
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.configs import DescribeConfigsRequest
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.log_dirs import DescribeLogDirsResponse, DescribeLogDirsResult
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kohort.wire.record_batch import NewRecord
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import SILENCE, ScriptedBroker

ONE = ("one", 9092)


class World:
    def __init__(self, broker=None) -> None:
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        at_one = BrokerConfig(listen_host="one", listen_port=9092)
        self.broker = broker or Broker(at_one, MemoryStorage(), random.Random(1), self.clock.now_ms())
        self.loop.serve(ONE, self.broker)
        self.metadata = Metadata(AdminConfig(bootstrap_servers=["one:9092"]), random.Random(2))
        config = AdminConfig(bootstrap_servers=["one:9092"])
        self.machine = AdminMachine(config, self.metadata, random.Random(3))
        self.loop.add(Engine(config, [self.machine], self.metadata, random.Random(4)))

    def run(self, operation, timeout_ms=10_000):
        promise = self.machine.start("the call", operation, timeout_ms, self.clock.now_ms())
        self.loop.run_until(lambda: promise.done)
        return promise.result()

    def create(self, name, partitions=1):
        topics = [NewTopic(name, partitions)]
        operation = admin_topics.create_topics(self.metadata, topics, validate_only=False, timeout_ms=1000)
        return self.run(operation)

    def produce(self, topic, partition, values, timestamps=None):
        machine = ProducerMachine(ProducerConfig(bootstrap_servers=["one:9092"], linger_ms=0), random.Random(5))
        machine.metadata.track([topic])
        self.loop.add(machine.engine)
        now_ms = self.clock.now_ms()
        for value, at_ms in zip(values, timestamps or [now_ms] * len(values), strict=True):
            batch, _, _ = machine.add(topic, partition, NewRecord(None, value, (), at_ms), now_ms)
        self.loop.run_until(lambda: batch.done)
        assert batch.error is None
        self.loop.close(machine.engine)


@pytest.fixture
def world() -> World:
    return World()


def test_topics_are_created_listed_described_and_deleted(world):
    created = world.create("orders", 3)
    assert created["orders"].partitions == 3

    (listing,) = world.run(admin_topics.list_topics(world.metadata, internal=False))
    assert (listing.name, listing.partitions, listing.topic_id) == ("orders", 3, created["orders"].topic_id)

    described = world.run(admin_topics.describe_topics(world.metadata, ["orders"]))["orders"]
    assert [(p.partition, p.leader_id, p.isr) for p in described.partitions] == [(n, 1, (1,)) for n in range(3)]

    world.run(admin_topics.delete_topics(world.metadata, ["orders"], timeout_ms=1000)).check()
    assert world.run(admin_topics.list_topics(world.metadata, internal=False)) == []


def test_create_topics_returns_result_for_each_topic(world):
    world.create("orders")
    topics = [NewTopic("orders"), NewTopic("no/good"), NewTopic("fine", 2)]

    results = world.run(admin_topics.create_topics(world.metadata, topics, validate_only=False, timeout_ms=1000))

    assert results["fine"].partitions == 2
    with pytest.raises(ApiError, match="TOPIC_ALREADY_EXISTS: orders"):
        results["orders"]
    assert results.errors["no/good"].code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(results) == {"orders", "no/good", "fine"}
    with pytest.raises(ApiError):
        results.check()


def test_describe_topics_reports_missing_topic_and_does_not_create_it(world):
    results = world.run(admin_topics.describe_topics(world.metadata, ["nowhere"]))

    assert results.errors["nowhere"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.run(admin_topics.list_topics(world.metadata, internal=False)) == []


def test_create_partitions_increases_partition_count(world):
    world.create("orders", 1)

    operation = admin_topics.create_partitions(
        world.metadata, {"orders": 4, "nowhere": 2}, validate_only=False, timeout_ms=1000
    )
    results = world.run(operation)

    assert results["orders"] is None
    assert results.errors["nowhere"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(world.run(admin_topics.describe_topics(world.metadata, ["orders"]))["orders"].partitions) == 4


def test_describe_cluster_returns_nodes_and_controller(world):
    described = world.run(admin_topics.describe_cluster(world.metadata))

    assert described.cluster_id == world.broker.cluster_id
    assert [(n.node_id, n.host, n.port) for n in described.nodes] == [(1, "one", 9092)]


def test_describe_configs_returns_value_and_source_of_each_option(world):
    topic = ConfigResource("topic", "orders")
    topics = [NewTopic("orders", 1, configs={"retention.ms": "1234"})]
    world.run(admin_topics.create_topics(world.metadata, topics, validate_only=False, timeout_ms=1000))

    results = world.run(admin_topics.describe_configs(world.metadata, [topic, ConfigResource("topic", "nowhere")]))

    assert (results[topic]["retention.ms"].value, results[topic]["retention.ms"].source) == ("1234", "topic")
    assert results[topic]["cleanup.policy"].is_default
    assert list(results.errors) == [ConfigResource("topic", "nowhere")]
    with pytest.raises(UsageError, match="resource kind 'tpoic' has no options"):
        world.run(admin_topics.describe_configs(world.metadata, [ConfigResource("tpoic", "orders")]))


def noting_sizes(operation, sizes):
    """Run an operation, and note the number of resources in each DescribeConfigs request."""
    answers = None
    while True:
        try:
            asks = operation.send(answers)
        except StopIteration as end:
            return end.value
        sizes += [len(one.request.resources) for one in asks if isinstance(one.request, DescribeConfigsRequest)]
        answers = yield asks


def test_describe_configs_sends_one_request_for_many_topics(world):
    names = [f"topic-{n}" for n in range(admin_topics.MAX_DESCRIBED + 1)]
    for name in names[::2]:
        world.create(name)
    resources = [ConfigResource("topic", name) for name in names] + [ConfigResource("broker", "1")]
    call = admin_topics.describe_configs(world.metadata, resources, ["cleanup.policy"])
    sent = []

    found = world.run(noting_sizes(call, sent))

    assert sent == [1, admin_topics.MAX_DESCRIBED, 1]
    assert {name for name in names if ConfigResource("topic", name) not in found.errors} == set(names[::2])
    assert found[ConfigResource("topic", "topic-0")]["cleanup.policy"].value == "delete"


def test_describe_log_dirs_returns_size_of_each_partition(world):
    world.create("orders", 2)
    orders = [TopicPartition("orders", n) for n in range(2)]

    (folder,) = world.run(admin_nodes.describe_log_dirs(world.metadata, orders[:1]))[1]
    (whole,) = world.run(admin_nodes.describe_log_dirs(world.metadata, None))[1]

    assert folder.sizes == {orders[0]: 0}
    assert set(whole.sizes) >= set(orders)
    assert folder.error is None


@pytest.mark.parametrize(
    ("response", "missing"),
    [
        (DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), True),
        (DescribeLogDirsResponse(results=[]), True),
        (DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR)]), False),
    ],
)
def test_describe_log_dirs_reports_denial_and_offline_directory(response, missing):
    call = admin_nodes.describe_log_dirs(Metadata(AdminConfig(bootstrap_servers=["one:9092"]), random.Random(2)), None)
    call.send(None)
    call.send([MetadataResponse(brokers=[MetadataResponseBroker(node_id=4, host="one", port=9092)])])

    with pytest.raises(StopIteration) as end:
        call.send([response])

    found = end.value.value
    if missing:
        assert found.errors[4].code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    else:
        assert found[4][0].error.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert found[4][0].total_bytes is None


def test_committed_offsets_are_altered_and_listed_and_are_deleted_with_their_group(world):
    world.create("orders", 2)
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    offsets = {first: OffsetAndMetadata(5, "moved"), second: OffsetAndMetadata(7)}

    world.run(admin_groups.alter_group_offsets(world.metadata, "g", offsets)).check()

    found = world.run(admin_groups.list_group_offsets(world.metadata, "g", None))
    assert dict(found) == offsets
    listed = world.run(admin_groups.list_groups(world.metadata, states=(), types=()))
    assert [(g.group_id, g.state) for g in listed] == [("g", "Empty")]
    described = world.run(admin_groups.describe_groups(world.metadata, ["g", "nobody"]))
    assert (described["g"].state, described["g"].members) == ("Empty", ())
    assert described.errors["nobody"].code is ErrorCode.GROUP_ID_NOT_FOUND

    world.run(admin_groups.delete_group_offsets(world.metadata, "g", [second])).check()
    found = world.run(admin_groups.list_group_offsets(world.metadata, "g", [first, second]))
    assert (found[first], found[second]) == (offsets[first], None)

    world.run(admin_groups.delete_groups(world.metadata, ["g"])).check()
    assert world.run(admin_groups.list_groups(world.metadata, states=(), types=())) == []


def test_remove_group_members_request_before_version_3_removes_a_single_member_by_its_id(world):
    world.run(admin_groups.alter_group_offsets(world.metadata, "g", {TopicPartition("t", 0): OffsetAndMetadata(1)}))
    removed = world.run(admin_groups.remove_group_members(world.metadata, "g", ["m-1"], ["one"], ""))
    assert {name: error.code for name, error in removed.errors.items()} == dict.fromkeys(
        ("m-1", "one"), ErrorCode.UNKNOWN_MEMBER_ID
    )
    with pytest.raises(UsageError, match="no member to remove"):
        world.run(admin_groups.remove_group_members(world.metadata, "g", [], [], ""))
    with pytest.raises(UsageError, match="'x' is both a member id and an instance id"):
        world.run(admin_groups.remove_group_members(world.metadata, "g", ["x"], ["x"], ""))

    (step,) = _next_steps(admin_groups.remove_group_members(world.metadata, "g", ["m-1"], [], "x" * 300), world)
    assert [len(m.reason) for m in step.request.members] == [255]
    assert step.request.members[0].reason.startswith("member was removed by an admin: xxx")
    assert step.shape(step.request, 2).member_id == "m-1"
    for members, instances in ((["a", "b"], []), ([], ["one"])):
        (step,) = _next_steps(admin_groups.remove_group_members(world.metadata, "g", members, instances, ""), world)
        with pytest.raises(UnsupportedVersion, match="removes one member at a time"):
            step.shape(step.request, 2)


def _next_steps(operation, world):
    (lookup,) = next(operation)
    answer = FindCoordinatorResponse(node_id=1, host="one", port=9092)
    assert isinstance(lookup.request, FindCoordinatorRequest)
    return operation.send([answer])


def test_list_offsets_accepts_earliest_latest_and_timestamps(world):
    world.create("orders", 2)
    start = world.clock.now_ms() - 10_000
    world.produce("orders", 0, [b"a", b"b", b"c"], [start, start + 1000, start + 2000])
    full, empty, nowhere = (TopicPartition("orders", n) for n in (0, 1, 7))

    def offset(tp, place):
        operation = admin_offsets.list_offsets(world.metadata, {tp: place}, isolation_level="read_uncommitted")
        return world.run(operation)[tp].offset

    assert [offset(full, "earliest"), offset(full, "latest"), offset(empty, "latest")] == [0, 3, 0]
    assert [offset(full, start + 500), offset(full, start + 5000), offset(full, "max_timestamp")] == [1, -1, 2]
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: orders-7"):
        offset(nowhere, "latest")
    with pytest.raises(UsageError, match="not 'newest'"):
        offset(full, "newest")


def test_admin_call_timeout_error_names_bootstrap_servers():
    broker = ScriptedBroker()
    broker.on(MetadataRequest, lambda *_: SILENCE)
    world = World(broker)

    with pytest.raises(ApiTimeout, match=r"the call did not complete within 700 ms \(bootstrap\.servers=one:9092\)"):
        world.run(admin_topics.describe_cluster(world.metadata), timeout_ms=700)


def test_admin_call_without_reachable_broker_fails_before_timeout(world):
    world.loop.stop(ONE)

    with pytest.raises(ConnectionFailed, match=r"no broker could be reached: one:9092 \(Connection refused\)"):
        world.run(admin_topics.describe_cluster(world.metadata))


def test_admin_request_to_loading_coordinator_is_retried():
    broker = ScriptedBroker()
    broker.on(
        MetadataRequest, lambda *_: MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)])
    )
    codes = iter([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE])
    broker.ranges[10] = (0, 2)
    broker.on(
        FindCoordinatorRequest,
        lambda *_: FindCoordinatorResponse(error_code=next(codes), node_id=1, host="one", port=9092),
    )
    broker.on(DeleteGroupsRequest, lambda *_: DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g")]))
    world = World(broker)

    results = world.run(admin_groups.delete_groups(world.metadata, ["g"]))

    assert results["g"] is None
    assert len(broker.requests(FindCoordinatorRequest)) == 3


def test_admin_operation_sends_parallel_requests_and_can_pause():
    broker = ScriptedBroker()
    world = World(broker)

    def operation():
        answers = yield [Ask(HeartbeatRequest(group_id="a")), Ask(HeartbeatRequest(group_id="b"))]
        yield Pause(1)
        one = yield from ask(HeartbeatRequest(group_id="c"))
        return [*answers, one]

    start = world.clock.now_ms()

    assert world.run(operation()) == [HeartbeatResponse()] * 3
    assert 80 <= world.clock.now_ms() - start <= 120


@pytest.mark.parametrize("results", [[], [DeletableGroupResult(group_id="another")]])
def test_unexpected_response_fails_only_its_admin_call(results):
    broker = ScriptedBroker()
    world = World(broker)
    broker.on(
        MetadataRequest, lambda *_: MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)])
    )
    coordinator = Coordinator(key="g", node_id=1, host="one", port=9092)
    broker.on(FindCoordinatorRequest, lambda *_: FindCoordinatorResponse(coordinators=[coordinator]))
    broker.on(DeleteGroupsRequest, lambda *_: DeleteGroupsResponse(results=results))

    with pytest.raises(ProtocolError, match="the call: unexpected response"):
        world.run(admin_groups.delete_groups(world.metadata, ["g"]))

    results[:] = [DeletableGroupResult(group_id="g")]
    assert world.run(admin_groups.delete_groups(world.metadata, ["g"]))["g"] is None
