"""Admin operations on producers against two scripted brokers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kohort import ProducerState
from kohort.client.admin.operations import AdminMachine
from kohort.client.admin.transactions import abort_transaction, describe_producers
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.clock import ManualClock
from kohort.config.client import AdminConfig
from kohort.errors import ApiError, ErrorCode, UsageError
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.producer_ids import (
    ActiveProducer,
    ActiveProducersPartition,
    ActiveProducersTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kohort.wire.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import ScriptedBroker
from support.machines.consumer_stage import tp

NODES = {1: ("one", 9092), 2: ("two", 9092)}
T0, T1, T2 = tp("t-0"), tp("t-1"), tp("t-2")


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.leaders = {0: 1, 1: 2, 2: 1}
        self.first_leaders: list[dict[int, int]] = []
        self.brokers = {n: ScriptedBroker() for n in NODES}
        self.loop = Loop(self.clock)
        for n, broker in self.brokers.items():
            broker.on(MetadataRequest, lambda *_: self._metadata())
            self.loop.serve(NODES[n], broker)
        config = AdminConfig(bootstrap_servers=["one:9092"])
        self.metadata = Metadata(config, random.Random(2))
        self.machine = AdminMachine(config, self.metadata, random.Random(3))
        self.loop.add(Engine(config, [self.machine], self.metadata, random.Random(4)))

    def _metadata(self) -> MetadataResponse:
        leaders = self.first_leaders.pop(0) if self.first_leaders else self.leaders
        partitions = [MetadataResponsePartition(partition_index=p, leader_id=n) for p, n in leaders.items()]
        brokers = [MetadataResponseBroker(node_id=n, host=host, port=port) for n, (host, port) in NODES.items()]
        return MetadataResponse(brokers=brokers, topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    def run(self, operation: Any) -> Any:
        promise = self.machine.start("the call", operation, 10_000, self.clock.now_ms())
        self.loop.run_until(lambda: promise.done)
        return promise.result()

    def requests(self, node: int, kind: type) -> list[Any]:
        return self.brokers[node].requests(kind)

    def know(self, *producers: ActiveProducer) -> None:
        for n, broker in self.brokers.items():
            broker.on(DescribeProducersRequest, lambda request, _version, n=n: self._described(n, request, producers))

    def _described(self, node: int, request: Any, producers: tuple[ActiveProducer, ...]) -> DescribeProducersResponse:
        wrong = ErrorCode.NOT_LEADER_OR_FOLLOWER
        partitions = [
            ActiveProducersPartition(partition_index=p, active_producers=list(producers))
            if self.leaders.get(p) == node
            else ActiveProducersPartition(partition_index=p, error_code=wrong)
            for topic in request.topics
            for p in topic.partition_indexes
        ]
        return DescribeProducersResponse(topics=[ActiveProducersTopic(name="t", partitions=partitions)])

    def answer_markers(self, code: int) -> None:
        partition = WritableTxnMarkerPartitionResult(partition_index=1, error_code=code)
        topics = [WritableTxnMarkerTopicResult(name="t", partitions=[partition])]
        response = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=4, topics=topics)])
        for broker in self.brokers.values():
            broker.on(WriteTxnMarkersRequest, lambda *_: response)


@pytest.fixture
def world() -> World:
    return World()


def test_describe_producers_sends_one_request_per_leader(world: World) -> None:
    ended = ActiveProducer(producer_id=9, producer_epoch=2, last_sequence=5, last_timestamp=70, coordinator_epoch=3)
    hangs = ActiveProducer(
        producer_id=4,
        producer_epoch=108,
        last_sequence=0,
        last_timestamp=50,
        coordinator_epoch=-1,
        current_txn_start_offset=707,
    )
    world.know(ended, hangs)

    results = world.run(describe_producers(world.metadata, [T0, T1, T2]))

    assert set(results) == {T0, T1, T2}
    assert results[T1] == [ProducerState(4, 108, 0, 50, None, 707), ProducerState(9, 2, 5, 70, 3, None)]
    at_one, at_two = (world.requests(n, DescribeProducersRequest) for n in NODES)
    assert [[t.partition_indexes for t in request.topics] for request in at_one] == [[[0, 2]]]
    assert [[t.partition_indexes for t in request.topics] for request in at_two] == [[[1]]]


def test_describe_producers_retries_moved_leader_and_reports_missing_partition(world: World) -> None:
    world.know()
    world.first_leaders, world.leaders = [world.leaders], {**world.leaders, 0: 2}

    results = world.run(describe_producers(world.metadata, [T0, T1, tp("t-7")]))

    assert (results[T0], results[T1]) == ([], [])
    with pytest.raises(ApiError, match="t-7") as refused:
        results[tp("t-7")]
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    queries = [
        (n, [i for topic in r.topics for i in topic.partition_indexes])
        for n in NODES
        for r in world.requests(n, DescribeProducersRequest)
    ]
    assert queries == [(1, [0]), (2, [1]), (2, [0])]


@pytest.mark.parametrize(("coordinator_epoch", "sent"), [(None, 0), (-1, 0), (7, 7)])
def test_abort_transaction_sends_marker_to_partition_leader_only(
    world: World, coordinator_epoch: int | None, sent: int
) -> None:
    world.answer_markers(0)

    world.run(
        abort_transaction(world.metadata, T1, producer_id=4, producer_epoch=108, coordinator_epoch=coordinator_epoch)
    )

    assert world.requests(1, WriteTxnMarkersRequest) == []
    (request,) = world.requests(2, WriteTxnMarkersRequest)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (4, 108, False)
    assert (marker.coordinator_epoch, marker.transaction_version) == (sent, 0)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_abort_transaction_error_names_partition(world: World, code: ErrorCode) -> None:
    world.answer_markers(code)

    with pytest.raises(ApiError, match="t-1") as refused:
        world.run(abort_transaction(world.metadata, T1, producer_id=4, producer_epoch=1, coordinator_epoch=None))

    assert refused.value.code is code
    assert len(world.requests(2, WriteTxnMarkersRequest)) == 1, "WriteTxnMarkers is not retried"


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            {"producer_id": -1, "producer_epoch": 0},
            "producer_id must be a number from 0 to 9223372036854775807, not -1",
        ),
        ({"producer_id": 1, "producer_epoch": 1 << 15}, "producer_epoch must be a number from 0 to 32767, not 32768"),
        (
            {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 1 << 31},
            "coordinator_epoch must be a number from 0",
        ),
    ],
)
def test_abort_transaction_rejects_number_out_of_range_before_any_request(
    world: World, numbers: dict[str, int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        world.run(abort_transaction(world.metadata, T1, **{"coordinator_epoch": None, **numbers}))

    assert world.requests(1, MetadataRequest) == []
