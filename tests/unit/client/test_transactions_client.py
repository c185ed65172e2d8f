"""Transactional producer against a scripted coordinator: order of requests, reactions to errors."""

from __future__ import annotations

import random

import pytest

from kohort.client.producer import ProducerMachine, record_metadata
from kohort.clock import ManualClock
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ErrorCode, ProducerFenced, TransactionFailed, UsageError
from kohort.model import NO_UUID, GroupMetadata, OffsetAndMetadata, TopicPartition
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.wire.record_batch import NewRecord, parse_batch_header
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import HANG_UP, SILENCE, ScriptedBroker

ADDRESS = ("one", 9092)
ORDERS = TopicPartition("orders", 0)
GROUP = GroupMetadata("g", 3, "member-1", None)
OF_TRANSACTIONS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    ProduceRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)


class World:
    def __init__(self, *, second: bool = False, **options: object) -> None:
        self.second = second
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.node = ScriptedBroker()
        if second:
            self.node.features["transaction.version"] = 2
        self.loop.serve(ADDRESS, self.node)
        self.codes: dict[type, list[object]] = {}
        self.epochs = iter(range(100))
        self.written = 0
        self.node.on(MetadataRequest, metadata)
        self.node.on(FindCoordinatorRequest, coordinators)
        self.node.on(InitProducerIdRequest, self._or_code(self._init, InitProducerIdResponse))
        self.node.on(AddPartitionsToTxnRequest, self._or_code(added, added))
        self.node.on(AddOffsetsToTxnRequest, self._or_code(AddOffsetsToTxnResponse, AddOffsetsToTxnResponse))
        self.node.on(TxnOffsetCommitRequest, self._or_code(offsets_taken, offsets_taken))
        self.node.on(EndTxnRequest, self._or_code(self._end, EndTxnResponse))
        self.node.on(ProduceRequest, self._or_code(self._produce, self._produce))
        config = ProducerConfig(
            bootstrap_servers=["one:9092"], transactional_id="t", linger_ms=options.pop("linger_ms", 0), **options
        )
        self.machine = ProducerMachine(config, random.Random(5))
        self.transactions = self.machine.transactional()
        self.loop.add(self.machine.engine)
        self.machine.metadata.track(["orders"])
        self.loop.settle()

    def _or_code(self, well, refused):
        def answer(request, _version):
            queue = self.codes.get(type(request))
            code = queue.pop(0) if queue else ErrorCode.NONE
            if code is HANG_UP or code is SILENCE:
                return code
            if refused in (added, offsets_taken) or refused == self._produce:
                return refused(request, code)
            if code:
                return refused(error_code=code)
            return well(request) if well in (self._init, self._end) else well()

        return answer

    def _init(self, _request):
        return InitProducerIdResponse(producer_id=500, producer_epoch=next(self.epochs))

    def _end(self, _request):
        if not self.second:
            return EndTxnResponse()
        return EndTxnResponse(producer_id=500, producer_epoch=next(self.epochs))

    def _produce(self, request, code):
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        base = self.written
        if code:
            one = PartitionProduceResponse(index=data.index, error_code=code)
        else:
            self.written += parse_batch_header(bytes(data.records)).record_count
            one = PartitionProduceResponse(index=data.index, base_offset=base)
        return ProduceResponse(
            responses=[TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[one])]
        )

    def send(self, value: bytes = b"v"):
        now_ms = self.clock.now_ms()
        self.machine.check_may_send()
        batch, index, _ = self.machine.add("orders", 0, NewRecord(None, value, (), now_ms), now_ms)
        return batch, index

    def settle(self, promise, limit_ms: int = 200_000):
        self.loop.run_until(lambda: promise.done, limit_ms)
        return promise

    def ready(self):
        self.settle(self.transactions.init()).result()
        return self

    def commit(self):
        self.settle(self.machine.commit_transaction()).result()

    def abort(self):
        self.settle(self.transactions.abort()).result()

    def request_names(self):
        found = []
        for received in self.node.received:
            request = received.request
            if isinstance(request, EndTxnRequest):
                found.append("commit" if request.committed else "abort")
            elif isinstance(request, ProduceRequest):
                header = self.batch(request)
                found.append(f"produce {header.producer_epoch}/{header.base_sequence}")
            elif isinstance(request, OF_TRANSACTIONS):
                found.append(type(request).__name__.removesuffix("Request"))
        return found

    def batch(self, request):
        return parse_batch_header(bytes(request.topic_data[0].partition_data[0].records))


def metadata(request, _version):
    one = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=1)
    topics = [MetadataResponseTopic(name=t.name, topic_id=b"o" * 16, partitions=[one]) for t in request.topics]
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)], topics=topics)


def coordinators(request, _version):
    found = [Coordinator(key=key, node_id=1, host="one", port=9092) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found)


def added(request, code):
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def offsets_taken(request, code):
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_first_transaction_protocol_adds_partitions_and_groups_before_their_first_use():
    world = World().ready()
    world.transactions.begin()
    sent = world.send()
    offsets = world.transactions.send_offsets({ORDERS: OffsetAndMetadata(7)}, GROUP)
    world.commit()

    assert world.request_names() == [
        "InitProducerId",
        "AddPartitionsToTxn",
        "produce 0/0",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "commit",
    ]
    assert record_metadata(*sent).offset == 0
    offsets.result()
    (request,) = world.node.requests(ProduceRequest)
    assert request.transactional_id == "t"
    assert world.batch(request).is_transactional
    (commit,) = world.node.requests(TxnOffsetCommitRequest)
    assert (commit.generation_id, commit.member_id, commit.group_instance_id) == (3, "member-1", None)


def test_next_transaction_keeps_producer_epoch_and_sequence():
    world = World().ready()
    for _ in range(2):
        world.transactions.begin()
        world.send()
        world.commit()

    assert world.request_names()[1:] == [
        "AddPartitionsToTxn",
        "produce 0/0",
        "commit",
        "AddPartitionsToTxn",
        "produce 0/1",
        "commit",
    ]


def test_empty_transaction_sends_no_request():
    world = World().ready()
    for end in (world.commit, world.abort):
        world.transactions.begin()
        end()

    assert world.request_names() == ["InitProducerId"]


def test_transaction_abort_sends_no_more_batches_and_fails_waiting_records():
    world = World(linger_ms=10_000).ready()
    world.transactions.begin()
    waiting = world.send()
    world.abort()

    with pytest.raises(TransactionFailed, match="was aborted"):
        record_metadata(*waiting)
    assert world.request_names() == ["InitProducerId"]
    assert world.machine.accumulator.buffered_bytes == 0


def test_transaction_abort_waits_for_requests_in_flight():
    world = World().ready()
    world.transactions.begin()
    world.loop.settle()
    sent = world.send()
    world.codes[ProduceRequest] = [SILENCE]
    world.loop.run_until(lambda: "produce 0/0" in world.request_names(), 10_000)
    world.abort()

    assert world.request_names()[-2:] == ["abort", "InitProducerId"], "a batch with unknown outcome needs a new epoch"
    with pytest.raises(TransactionFailed):
        record_metadata(*sent)
    world.transactions.begin()
    world.send()
    world.commit()
    assert world.request_names()[-2:] == ["produce 1/0", "commit"]


def test_rejected_batch_requires_abort_and_new_producer_epoch():
    world = World().ready()
    world.transactions.begin()
    world.codes[ProduceRequest] = [ErrorCode.INVALID_RECORD]
    lost = world.send()
    with pytest.raises(TransactionFailed, match="INVALID_RECORD"):
        world.commit()
    with pytest.raises(ApiError, match="INVALID_RECORD"):
        record_metadata(*lost)
    with pytest.raises(TransactionFailed):
        world.send()
    with pytest.raises(TransactionFailed):
        world.machine.commit_transaction()

    world.abort()
    world.transactions.begin()
    world.send()
    world.commit()
    assert world.request_names()[3:] == ["abort", "InitProducerId", "AddPartitionsToTxn", "produce 1/0", "commit"]
    (_, again) = world.node.requests(InitProducerIdRequest)
    assert (again.producer_id, again.producer_epoch) == (500, 0), (
        "InitProducerId has the previous producer id and epoch (KIP-360)"
    )


def test_waiting_records_fail_when_their_transaction_fails():
    world = World().ready()
    world.transactions.begin()
    world.codes[AddPartitionsToTxnRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    sent = world.send()
    world.loop.run_until(lambda: sent[0].done, 10_000)

    with pytest.raises(TransactionFailed, match=r"orders-0"):
        record_metadata(*sent)
    world.abort()
    assert world.request_names() == ["InitProducerId", "AddPartitionsToTxn"], (
        "a transaction without partitions needs no EndTxn"
    )


@pytest.mark.parametrize("request_class", [InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        HANG_UP,
    ],
)
def test_transaction_requests_are_retried_after_retriable_errors(request_class, code):
    world = World()
    world.codes[request_class] = [code, code]
    world.ready()
    world.transactions.begin()
    sent = world.send()
    world.commit()

    assert record_metadata(*sent).offset == 0
    assert len(world.node.requests(request_class)) == 3
    assert world.request_names()[-1] == "commit"
    is_lookup_repeated = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, HANG_UP)
    assert (len(world.node.requests(FindCoordinatorRequest)) > 1) == is_lookup_repeated


@pytest.mark.parametrize("request_class", [AddOffsetsToTxnRequest, TxnOffsetCommitRequest])
def test_txn_offset_commit_is_retried_before_transaction_commit(request_class):
    world = World().ready()
    world.codes[request_class] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    world.transactions.begin()
    offsets = world.transactions.send_offsets({ORDERS: OffsetAndMetadata(7)}, GROUP)
    world.commit()

    offsets.result()
    assert world.request_names()[-2:] == ["TxnOffsetCommit", "commit"]
    assert len(world.node.requests(request_class)) == 3


@pytest.mark.parametrize(
    "code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID]
)
def test_offsets_of_fenced_group_member_require_abort(code):
    world = World().ready()
    world.codes[TxnOffsetCommitRequest] = [code]
    world.transactions.begin()
    world.send()
    offsets = world.settle(world.transactions.send_offsets({ORDERS: OffsetAndMetadata(7)}, GROUP))

    with pytest.raises(TransactionFailed, match=code.name):
        offsets.result()
    world.abort()
    assert world.request_names()[-1] == "abort"
    world.transactions.begin()
    world.commit()


@pytest.mark.parametrize(
    "request_class", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest]
)
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_fenced_producer_sends_no_more_requests(request_class, code):
    world = World().ready()
    world.codes[request_class] = [code]
    world.transactions.begin()
    world.send()
    world.transactions.send_offsets({ORDERS: OffsetAndMetadata(7)}, GROUP)

    with pytest.raises(ProducerFenced, match=r"transactional\.id 't'"):
        world.commit()
    for call in (world.transactions.begin, world.transactions.commit, world.transactions.abort, world.send):
        with pytest.raises(ProducerFenced):
            call()


def test_transaction_abort_of_fenced_producer_raises_producer_fenced():
    world = World().ready()
    world.codes = {ProduceRequest: [ErrorCode.INVALID_PRODUCER_EPOCH], EndTxnRequest: [ErrorCode.PRODUCER_FENCED]}
    world.transactions.begin()
    world.send()

    with pytest.raises(TransactionFailed):
        world.commit()
    with pytest.raises(ProducerFenced):
        world.abort()


def test_unknown_producer_id_at_end_of_transaction_gets_new_producer_id():
    world = World().ready()
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.codes = {AddPartitionsToTxnRequest: [ErrorCode.NONE], EndTxnRequest: [mapping, mapping]}
    world.transactions.begin()
    world.send()

    with pytest.raises(TransactionFailed, match=mapping.name):
        world.commit()
    world.abort()
    world.transactions.begin()
    world.send()
    world.commit()
    ids = [(r.producer_id, r.producer_epoch) for r in world.node.requests(InitProducerIdRequest)]
    assert ids == [(-1, -1), (-1, -1)]
    assert world.request_names()[-2:] == ["produce 1/0", "commit"]


def test_transaction_with_unanswered_add_partitions_request_is_aborted_by_new_epoch():
    world = World().ready()
    world.codes[AddPartitionsToTxnRequest] = [HANG_UP] * 100
    world.transactions.begin()
    world.send()
    world.loop.run_until(lambda: "AddPartitionsToTxn" in world.request_names(), 10_000)
    world.abort()

    assert world.request_names()[-1] == "InitProducerId"
    assert "abort" not in world.request_names()


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.INVALID_TRANSACTION_TIMEOUT]
)
def test_permanent_init_producer_id_error_stops_producer(code):
    world = World()
    world.codes[InitProducerIdRequest] = [code]

    with pytest.raises(ApiError, match=code.name):
        world.ready()
    with pytest.raises(ApiError, match=code.name):
        world.transactions.begin()


def test_transaction_call_in_wrong_state_names_required_call():
    world = World()
    with pytest.raises(UsageError, match=r"init_transactions\(\) first"):
        world.transactions.begin()
    with pytest.raises(UsageError, match=r"init_transactions\(\) first"):
        world.send()
    world.ready()
    with pytest.raises(UsageError, match="was called before"):
        world.transactions.init()
    for call in (world.send, world.transactions.commit, world.transactions.abort):
        with pytest.raises(UsageError, match=r"begin_transaction\(\) first"):
            call()
    world.transactions.begin()
    with pytest.raises(UsageError, match="commit or abort it first"):
        world.transactions.begin()
    world.codes[EndTxnRequest] = [SILENCE]
    world.send()
    ending = world.machine.commit_transaction()
    with pytest.raises(UsageError, match=r"commit_transaction\(\) again"):
        world.transactions.abort()
    assert world.machine.commit_transaction() is ending, "a repeated call returns the promise of the same commit"
    world.settle(ending).result()


def test_transaction_commit_whose_response_was_lost_is_repeated():
    world = World().ready()
    world.transactions.begin()
    world.send()
    world.codes[EndTxnRequest] = [SILENCE]
    world.commit()

    assert world.request_names()[-2:] == ["commit", "commit"]


def test_producer_without_transactional_id_rejects_transaction_calls():
    config = ProducerConfig(bootstrap_servers=["one:9092"])
    with pytest.raises(UsageError, match=r"transactional\.id"):
        ProducerMachine(config, random.Random(1)).transactional()


# The second transaction protocol (KIP-890)


def test_transaction_of_second_protocol_begins_with_first_batch_and_ends_with_new_epoch():
    world = World(second=True).ready()
    for _ in range(2):
        world.transactions.begin()
        world.send()
        world.transactions.send_offsets({ORDERS: OffsetAndMetadata(7)}, GROUP)
        world.commit()

    assert world.request_names() == [
        "InitProducerId",
        "produce 0/0",
        "TxnOffsetCommit",
        "commit",
        "produce 1/0",
        "TxnOffsetCommit",
        "commit",
    ]
    versions = {type(s.request): s.header.api_version for s in world.node.received}
    assert versions[ProduceRequest] >= 12
    assert (versions[EndTxnRequest], versions[TxnOffsetCommitRequest]) == (5, 6)


def test_second_transaction_protocol_returns_new_epoch_for_abort_after_rejected_batch():
    world = World(second=True).ready()
    world.transactions.begin()
    world.codes[ProduceRequest] = [ErrorCode.TRANSACTION_ABORTABLE]
    world.send()
    with pytest.raises(TransactionFailed, match="TRANSACTION_ABORTABLE"):
        world.commit()
    world.abort()
    world.transactions.begin()
    world.send()
    world.commit()

    assert world.request_names() == ["InitProducerId", "produce 0/0", "abort", "produce 1/0", "commit"]


def test_second_transaction_protocol_retries_first_batch():
    world = World(second=True).ready()
    world.transactions.begin()
    world.codes[ProduceRequest] = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR]
    sent = world.send()
    world.commit()

    assert record_metadata(*sent).offset == 0
    assert world.request_names()[-2:] == ["produce 0/0", "commit"]


def test_commit_whose_response_was_lost_is_repeated_in_transaction_version_2():
    world = World(second=True).ready()
    world.transactions.begin()
    world.send()
    world.codes[EndTxnRequest] = [HANG_UP, SILENCE]
    world.commit()

    assert world.request_names()[-3:] == ["commit"] * 3
    assert world.transactions.producer.id_and_epoch.epoch == 1


# TxnOffsetCommit by topic id (KIP-1319)

READ = TopicPartition("read", 3)
"""Partition from which the transaction's offsets come; the producer does not write to it."""


def committed(world: World, offsets: dict[TopicPartition, OffsetAndMetadata]) -> list[tuple[int, list[bytes]]]:
    world.transactions.begin()
    world.settle(world.transactions.send_offsets(offsets, GROUP)).result()
    world.commit()
    commits = [received for received in world.node.received if isinstance(received.request, TxnOffsetCommitRequest)]
    return [
        (received.header.api_version, [topic.topic_id for topic in received.request.topics]) for received in commits
    ]


def test_txn_offset_commit_uses_topic_ids_from_metadata():
    world = World(second=True).ready()

    assert committed(world, {READ: OffsetAndMetadata(7)}) == [(6, [b"o" * 16])]

    assert "read" in [topic.name for topic in world.node.requests(MetadataRequest)[-1].topics]


def test_txn_offset_commit_uses_topic_names_on_old_broker():
    world = World(second=True)
    world.node.ranges[TxnOffsetCommitRequest.API_KEY] = (0, 5)

    assert committed(world.ready(), {READ: OffsetAndMetadata(7)}) == [(5, [NO_UUID])]


@pytest.mark.parametrize(
    "topic",
    [
        MetadataResponseTopic(name="read"),
        MetadataResponseTopic(name="read", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
    ids=["a cluster without ids", "a topic that cannot be had"],
)
def test_txn_offset_commit_uses_topic_names_if_a_topic_has_no_id(topic):
    world = World(second=True)
    world.node.on(MetadataRequest, lambda *arguments: with_topic(metadata(*arguments), topic))
    world.ready()

    ((version, _),) = committed(world, {READ: OffsetAndMetadata(7), ORDERS: OffsetAndMetadata(8)})

    assert version == 5


def with_topic(answer: MetadataResponse, instead: MetadataResponseTopic) -> MetadataResponse:
    topics = [instead if topic.name == instead.name else topic for topic in answer.topics]
    return MetadataResponse(brokers=answer.brokers, topics=topics)


def test_txn_offset_commit_without_metadata_does_not_wait_for_topic_ids():
    world = World(second=True).ready()
    world.node.on(MetadataRequest, lambda *_: HANG_UP)

    ((version, _),) = committed(world, {READ: OffsetAndMetadata(7)})

    assert version == 5


def test_txn_offset_commit_of_recreated_topic_is_repeated_with_new_topic_id():
    world = World(second=True).ready()
    world.codes[TxnOffsetCommitRequest] = [ErrorCode.UNKNOWN_TOPIC_ID]
    ids = iter([b"1" * 16, b"2" * 16])
    world.node.on(MetadataRequest, lambda *arguments: with_ids(metadata(*arguments), next(ids)))

    assert committed(world, {READ: OffsetAndMetadata(7)}) == [(6, [b"1" * 16]), (6, [b"2" * 16])]


def with_ids(answer: MetadataResponse, topic_id: bytes) -> MetadataResponse:
    topics = [MetadataResponseTopic(name=t.name, topic_id=topic_id, partitions=t.partitions) for t in answer.topics]
    return MetadataResponse(brokers=answer.brokers, topics=topics)


def test_txn_offset_commit_error_for_topic_id_names_topic():
    world = World(second=True).ready()
    world.codes[TxnOffsetCommitRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    with pytest.raises(TransactionFailed, match="read"):
        committed(world, {READ: OffsetAndMetadata(7)})


def test_txn_offset_commit_in_first_transaction_protocol_sends_topic_names():
    world = World().ready()

    assert committed(world, {READ: OffsetAndMetadata(7)}) == [(4, [NO_UUID])]
