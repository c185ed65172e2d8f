"""The sender against a scripted broker: order, sequence numbers, retries, results."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kohort.client.producer import ProducerMachine, record_metadata, resolve
from kohort.clock import ManualClock
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ApiTimeout, ErrorCode, ProtocolError
from kohort.model import TopicPartition
from kohort.wire.headers import build_response
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.record_batch import NewRecord, parse_batch_header, read_batch
from kohort_lab.machines.loop import Loop
from kohort_lab.machines.scripted import HANG_UP, SILENCE, ScriptedBroker

ONE, TWO = ("one", 9092), ("two", 9092)
ORDERS = TopicPartition("orders", 0)


class World:
    def __init__(self, partitions: int = 1, **options: object) -> None:
        self.clock = ManualClock()
        self.loop = Loop(self.clock)
        self.one, self.two = ScriptedBroker(), ScriptedBroker()
        self.loop.serve(ONE, self.one)
        self.loop.serve(TWO, self.two)
        self.leader = 1
        self.leader_epoch = 1
        self.partitions = partitions
        self.ids = iter(range(500, 600))
        for broker in (self.one, self.two):
            broker.on(MetadataRequest, self.metadata)
            broker.on(InitProducerIdRequest, lambda *_: InitProducerIdResponse(producer_id=next(self.ids)))
        self.codes: list[ErrorCode] = []
        self.offsets: dict[int, int] = {}
        for broker in (self.one, self.two):
            broker.on(ProduceRequest, self.produce)
        config = ProducerConfig(bootstrap_servers=["one:9092"], linger_ms=options.pop("linger_ms", 0), **options)
        self.machine = ProducerMachine(config, random.Random(5))
        self.loop.add(self.machine.engine)
        self.machine.metadata.track(["orders"])
        self.loop.settle()

    def metadata(self, request, _version):
        partitions = [
            MetadataResponsePartition(partition_index=n, leader_id=self.leader, leader_epoch=self.leader_epoch)
            for n in range(self.partitions)
        ]
        topics = [MetadataResponseTopic(name=t.name, topic_id=b"o" * 16, partitions=partitions) for t in request.topics]
        brokers = [
            MetadataResponseBroker(node_id=1, host="one", port=9092),
            MetadataResponseBroker(node_id=2, host="two", port=9092),
        ]
        return MetadataResponse(brokers=brokers, topics=topics)

    def move_leader(self):
        self.leader, self.leader_epoch = 2, 2
        self.machine.metadata.update_leader(ORDERS, 2, 2, [])

    def produce(self, request, _version):
        return answer(request, self.partition_answer)

    def partition_answer(self, partition, header):
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code:
            return PartitionProduceResponse(index=partition, error_code=code)
        base = self.offsets.get(partition, 0)
        self.offsets[partition] = base + header.record_count
        return PartitionProduceResponse(index=partition, base_offset=base)

    def send(self, value: bytes, partition: int = 0):
        now_ms = self.clock.now_ms()
        batch, index, _ = self.machine.add("orders", partition, NewRecord(None, value, (), now_ms), now_ms)
        return batch, index

    def send_alone(self, value: bytes, partition: int = 0):
        sent = self.send(value, partition)
        self.loop.settle()
        return sent

    def wait(self, *sent, limit_ms: int = 200_000):
        self.loop.run_until(lambda: all(batch.done for batch, _ in sent), limit_ms)

    def wait_for_parts(self, *sent, limit_ms: int = 200_000):
        self.loop.run_until(lambda: all(resolve(*one)[0].done for one in sent), limit_ms)

    def sequences(self, broker: ScriptedBroker | None = None):
        return [
            (h.producer_epoch, h.base_sequence, [r.value for r in read_batch(data)])
            for request in (broker or self.one).requests(ProduceRequest)
            for data in batches_of(request)
            for h in [parse_batch_header(data)]
        ]


def batches_of(request):
    return [bytes(p.records) for t in request.topic_data for p in t.partition_data]


def answer(request, of_partition):
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    of_partition(p.index, parse_batch_header(bytes(p.records))) for p in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def test_sent_records_get_offsets_in_order():
    world = World(linger_ms=5)
    sent = [world.send(b"a"), world.send(b"b"), world.send(b"c")]

    world.wait(*sent)

    assert [record_metadata(*one).offset for one in sent] == [0, 1, 2]
    assert world.sequences() == [(0, 0, [b"a", b"b", b"c"])]
    assert world.machine.accumulator.buffered_bytes == 0


def test_batch_is_sent_after_linger():
    world = World(linger_ms=20)
    start = world.clock.now_ms()
    sent = world.send(b"a")

    world.wait(sent)

    assert world.clock.now_ms() - start == 20


def test_full_batch_is_sent_at_once():
    world = World(linger_ms=10_000, batch_size=100)
    start = world.clock.now_ms()
    sent = world.send(b"x" * 100)

    world.wait(sent)

    assert world.clock.now_ms() == start


def test_flush_sends_all_batches():
    world = World(linger_ms=10_000)
    sent = world.send(b"a")
    world.machine.accumulator.flush()

    world.wait(sent, limit_ms=10)

    assert world.machine.sender.idle


def test_sequence_numbers_continue_across_batches():
    world = World()

    for value in (b"a", b"b", b"c"):
        world.wait(world.send_alone(value))

    assert [(epoch, sequence) for epoch, sequence, _ in world.sequences()] == [(0, 0), (0, 1), (0, 2)]
    assert len(world.one.requests(InitProducerIdRequest)) == 1


def test_at_most_five_requests_are_in_flight_and_later_records_share_a_batch():
    world = World()
    world.wait(world.send_alone(b"first"))
    world.loop.holding_answers = True
    sent = [world.send_alone(b"%d" % n) for n in range(12)]

    assert len(world.sequences()) == 1 + 5
    world.loop.release_answers()
    world.wait(*sent)

    assert [values for _, _, values in world.sequences()][6:] == [[b"%d" % n for n in range(5, 12)]]
    assert [record_metadata(*one).offset for one in sent] == list(range(1, 13))


def test_first_batch_of_partition_is_in_flight_alone():
    world = World(partitions=2)
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    for value in (b"a", b"b"):
        world.send_alone(value, partition=0)
    world.send_alone(b"c", partition=1)

    assert [values for _, _, values in world.sequences()] == [[b"a"], [b"c"]]


def test_batch_after_sequence_gap_is_sent_with_next_producer_epoch():
    world = World()
    world.wait(world.send_alone(b"first"))
    world.loop.holding_answers = True
    world.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    sent = [world.send_alone(b"a"), world.send_alone(b"b")]

    world.loop.release_answers()
    world.wait(*sent)

    assert [batch.error for batch, _ in sent] == [None, None]
    assert world.sequences()[-1] == (1, 0, [b"a"])


def test_batch_written_by_former_leader_is_not_repeated_at_next_leader():
    world = World(request_timeout_ms=3_000)
    world.wait(world.send_alone(b"first"))
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    lost = world.send_alone(b"a")
    world.move_leader()
    world.wait(world.send_alone(b"b"))
    world.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    world.wait(lost)

    assert world.sequences(world.two) == [(0, 2, [b"b"]), (0, 1, [b"a"])]
    assert record_metadata(*lost).offset == -1, "the record is in the log at an unknown offset"


def test_batches_written_by_former_leader_are_not_repeated_at_next_leader():
    world = World(request_timeout_ms=3_000)
    world.wait(world.send_alone(b"first"))
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    lost = [world.send_alone(value) for value in (b"a", b"b", b"c")]
    world.move_leader()
    world.wait(*[world.send_alone(value) for value in (b"d", b"e")])
    world.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * len(lost)
    world.wait(*lost)

    assert [(epoch, sequence) for epoch, sequence, _ in world.sequences(world.two)] == [(0, n) for n in (4, 5, 1, 2, 3)]
    assert [record_metadata(*one).offset for one in lost] == [-1] * len(lost)
    after = world.send_alone(b"f")
    world.wait(after)
    assert world.sequences(world.two)[-1] == (0, 6, [b"f"]), "the next batch continues the sequence"


def test_record_order_survives_failure_of_one_of_several_requests():
    world = World()
    world.wait(world.send_alone(b"first"))
    world.loop.holding_answers = True
    world.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    sent = [world.send_alone(b"%d" % n) for n in range(4)]
    world.loop.release_answers()

    world.wait(*sent)

    assert [record_metadata(*one).offset for one in sent] == [1, 2, 3, 4]
    assert [(epoch, sequence) for epoch, sequence, _ in world.sequences()] == [
        *[(0, n) for n in range(5)],
        *[(0, n) for n in range(1, 5)],
    ]


def test_unanswered_batch_is_repeated_with_same_sequence_numbers():
    world = World()
    world.wait(world.send_alone(b"first"))
    world.one.on(ProduceRequest, lambda *_: HANG_UP)
    sent = world.send_alone(b"again")
    world.one.on(ProduceRequest, world.produce)

    world.wait(sent)

    assert [entry for entry in world.sequences() if entry[2] == [b"again"]] == [(0, 1, [b"again"])] * 2


def test_duplicate_sequence_number_counts_as_delivered():
    world = World()
    world.codes = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert record_metadata(*sent).partition == 0


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_lost_producer_state_restarts_sequence_in_next_epoch(code):
    world = World()
    world.wait(world.send_alone(b"a"))
    world.codes = [code]
    sent = world.send_alone(b"b")

    world.wait(sent)
    world.wait(world.send_alone(b"c"))

    assert [(epoch, sequence) for epoch, sequence, _ in world.sequences()] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(world.one.requests(InitProducerIdRequest)) == 1


def test_sequence_restarts_after_permanently_failed_batch():
    world = World()
    world.codes = [ErrorCode.INVALID_RECORD]
    bad = world.send_alone(b"bad")
    world.wait(bad)
    good = world.send_alone(b"good")
    world.wait(good)

    with pytest.raises(ApiError, match="INVALID_RECORD: orders-0"):
        record_metadata(*bad)
    assert record_metadata(*good).offset == 0
    assert [(epoch, sequence) for epoch, sequence, _ in world.sequences()] == [(0, 0), (1, 0)]


def test_batch_is_sent_to_moved_leader():
    world = World()
    world.wait(world.send_alone(b"a"))
    world.leader, world.leader_epoch = 2, 2
    world.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    sent = world.send_alone(b"b")

    world.wait(sent)

    assert world.sequences(world.two) == [(0, 1, [b"b"])]


@pytest.mark.parametrize("idempotence", [True, False])
def test_record_order_with_one_request_in_flight_survives_leader_move(idempotence):
    world = World(enable_idempotence=idempotence, max_in_flight_requests_per_connection=1, request_timeout_ms=3_000)
    world.wait(world.send_alone(b"0"))
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    first = world.send_alone(b"1")
    world.move_leader()
    second = world.send_alone(b"2")

    assert world.sequences(world.two) == [], "the second batch waits for the outcome of the first"

    world.wait(first, second)
    assert [values for _, _, values in world.sequences(world.two)] == [[b"1"], [b"2"]]


def test_batch_is_sent_to_leader_hint_in_produce_response_without_metadata_request():
    world = World()
    world.wait(world.send_alone(b"a"))
    request_count = len(world.one.requests(MetadataRequest))

    def moved(request, _version):
        response = answer(
            request,
            lambda index, _header: PartitionProduceResponse(
                index=index,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
            ),
        )
        endpoints = [NodeEndpoint(node_id=2, host="two", port=9092)]
        return ProduceResponse(responses=response.responses, node_endpoints=endpoints)

    world.one.on(ProduceRequest, moved)
    start = world.clock.now_ms()
    sent = world.send_alone(b"b")
    world.wait(sent)

    assert world.clock.now_ms() == start
    assert len(world.one.requests(MetadataRequest)) == request_count
    assert world.sequences(world.two) == [(0, 1, [b"b"])]


def test_send_retries_end_at_delivery_timeout_with_last_error():
    world = World(delivery_timeout_ms=3000, request_timeout_ms=1000)
    world.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    start = world.clock.now_ms()
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert world.clock.now_ms() - start == 3000
    error = sent[0].error
    assert isinstance(error, ApiTimeout)
    assert "orders-0: not delivered within delivery.timeout.ms=3000" in str(error)
    assert "NOT_ENOUGH_REPLICAS" in str(error)


def test_unanswered_produce_request_ends_at_delivery_timeout():
    world = World(delivery_timeout_ms=3000, request_timeout_ms=2000)
    world.wait(world.send_alone(b"first"))
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    start = world.clock.now_ms()
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert world.clock.now_ms() - start == 3000
    world.one.on(ProduceRequest, world.produce)
    later = world.send_alone(b"b")
    world.wait(later)
    assert later[0].error is None
    assert world.sequences()[-1][:2] == (1, 0), "the sequence restarts in a new epoch"


def expired_before_others():
    world = World(delivery_timeout_ms=2000, request_timeout_ms=1900)
    world.wait(world.send_alone(b"first"))
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    lost = world.send_alone(b"a")
    world.loop.run(900)
    others = [world.send_alone(b"b"), world.send_alone(b"c")]
    world.wait(lost)
    assert isinstance(lost[0].error, ApiTimeout)
    world.one.on(ProduceRequest, world.produce)
    return world, others


def test_batch_with_unknown_outcome_keeps_sequence_number_after_failure_of_earlier_batch():
    world, others = expired_before_others()
    world.codes = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER] * 2

    world.wait(*others)
    world.wait(world.send_alone(b"d"))

    assert [other[0].error for other in others] == [None, None]
    assert world.sequences()[-3:] == [(0, 2, [b"b"]), (0, 3, [b"c"]), (1, 0, [b"d"])]


def test_order_of_unwritten_batches_survives_sequence_restart_in_next_epoch():
    world, others = expired_before_others()
    world.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.NOT_ENOUGH_REPLICAS]

    world.wait(*others)

    assert [other[0].error for other in others] == [None, None]
    assert world.sequences()[-4:] == [(0, 2, [b"b"]), (1, 0, [b"b"]), (1, 0, [b"b"]), (1, 1, [b"c"])]


def test_retries_option_limits_send_attempts():
    world = World(retries=2)
    world.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 10
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert len(world.sequences()) == 3
    assert isinstance(sent[0].error, ApiError)


def test_too_large_batch_is_split_in_halves():
    world = World(linger_ms=5)
    world.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    sent = [world.send(b"%d" % n) for n in range(5)]

    world.wait(*sent)
    world.loop.run(1000)

    assert [record_metadata(*one).offset for one in sent] == [0, 1, 2, 3, 4]
    assert world.sequences()[1:] == [(0, 0, [b"0", b"1"]), (0, 2, [b"2", b"3", b"4"])]
    assert world.machine.accumulator.buffered_bytes == 0


def cut(frame: bytes) -> bytes:
    return (len(frame) - 4 - 9).to_bytes(4, "big") + frame[4:-9]


def of_another_request(frame: bytes) -> bytes:
    return frame[:4] + b"\x7f\xff\xff\xff" + frame[8:]


def of_impossible_length(frame: bytes) -> bytes:
    return b"\xff\xff\xff\xf0" + frame[4:]


def garble_first_answer(world: World, garble) -> None:
    def answer_garbled(request, version):
        world.one.on(ProduceRequest, world.produce)
        response = world.produce(request, version)
        return garble(
            b"".join(map(bytes, build_response(world.one.received[-1].header.correlation_id, response, version)))
        )

    world.one.on(ProduceRequest, answer_garbled)


@pytest.mark.parametrize("garble", [cut, of_another_request, of_impossible_length])
def test_idempotent_batch_is_repeated_after_invalid_response(garble):
    world = World()
    garble_first_answer(world, garble)

    sent = world.send_alone(b"a")
    world.wait(sent)

    assert sent[0].error is None
    assert world.sequences() == [(0, 0, [b"a"])] * 2


def test_batch_without_sequence_number_fails_after_invalid_response():
    world = World(enable_idempotence=False)
    garble_first_answer(world, cut)

    sent = world.send_alone(b"a")
    world.wait(sent)

    assert isinstance(sent[0].error, ProtocolError)
    assert len(world.sequences()) == 1


SMALL = 1_100
"""Maximum batch size that the broker accepts for the topic, in bytes."""


class SmallTopic(World):
    refused = 0

    def partition_answer(self, partition, header):
        if header.size > SMALL:
            self.refused += 1
            return PartitionProduceResponse(index=partition, error_code=ErrorCode.MESSAGE_TOO_LARGE)
        return super().partition_answer(partition, header)


@pytest.mark.parametrize("acks", ["all", "1"])
def test_batch_size_limit_of_topic_is_learned_without_lost_records(acks: str):
    world = SmallTopic(linger_ms=5, acks=acks)
    sent = [world.send(b"%600d" % n) for n in range(400)]

    world.wait_for_parts(*sent, limit_ms=2_000)

    assert sorted(record_metadata(*one).offset for one in sent) == list(range(400))
    assert world.refused <= 15
    refused = world.refused
    world.wait_for_parts(*[world.send(b"%600d" % n) for n in range(100)])
    assert world.refused == refused
    assert world.machine.accumulator.buffered_bytes == 0


def test_batch_split_does_not_lengthen_back_off():
    world = World(linger_ms=5)
    world.codes = [ErrorCode.MESSAGE_TOO_LARGE] * 3 + [ErrorCode.NOT_ENOUGH_REPLICAS]
    began_ms = world.clock.now_ms()
    sent = [world.send(b"%d" % n) for n in range(16)]

    world.wait_for_parts(*sent)

    assert world.clock.now_ms() - began_ms <= 5 + 120
    assert [record_metadata(*one).offset for one in sent] == list(range(16))


def test_rejected_records_and_other_records_of_batch_get_different_errors():
    world = World(linger_ms=5)
    named = [
        BatchIndexAndErrorMessage(batch_index=n, batch_index_error_message=why) for n, why in ((0, "bad"), (2, None))
    ]
    first = PartitionProduceResponse(error_code=ErrorCode.INVALID_RECORD, record_errors=named, error_message="two")
    world.partition_answer = lambda _partition, _header: first
    sent = [world.send(b"%d" % n) for n in range(3)]

    world.wait(*sent)

    errors = [str(resolve(batch, index)[0].error_of(index)) for batch, index in sent]
    assert errors == [
        "INVALID_RECORD: orders-0: bad",
        "INVALID_RECORD: orders-0: rejected with other records of its batch: two",
        "INVALID_RECORD: orders-0: two",
    ]


def test_too_large_single_record_fails():
    world = World()
    world.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert isinstance(sent[0].error, ApiError)
    assert sent[0].error.code is ErrorCode.MESSAGE_TOO_LARGE


def test_record_with_acks_0_completes_when_request_is_written():
    world = World(acks="0")
    world.one.on(ProduceRequest, lambda *_: SILENCE)
    sent = world.send_alone(b"a")

    world.wait(sent, limit_ms=10)

    assert record_metadata(*sent).offset == -1
    assert world.sequences() == [(-1, -1, [b"a"])]


def test_partitions_of_one_node_share_a_produce_request():
    world = World(partitions=3, linger_ms=5)
    sent = [world.send(b"%d" % n, partition=n) for n in range(3)]

    world.wait(*sent)

    (request,) = world.one.requests(ProduceRequest)
    assert [p.index for t in request.topic_data for p in t.partition_data] == [0, 1, 2]


def test_broker_without_topic_ids_gets_topic_names():
    world = World()
    world.one.ranges[0] = (0, 9)
    world.loop.cut()
    sent = world.send_alone(b"a")

    world.wait(sent)

    assert world.one.requests(ProduceRequest)[-1].topic_data[0].name == "orders"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_as_configured(codec):
    world = World(linger_ms=5, compression_type=codec)
    sent = [world.send(b"value " * 50) for _ in range(20)]

    world.wait(*sent)

    (data,) = batches_of(world.one.requests(ProduceRequest)[0])
    assert parse_batch_header(data).codec.name.lower() == codec
    assert [r.value for r in read_batch(data)] == [b"value " * 50] * 20
    assert (len(data) < 6000) is (codec != "none")


def test_records_of_leaderless_partition_wait_for_a_leader():
    world = World()
    world.leader = -1
    world.machine.metadata.request_refresh()
    world.loop.run(500)
    sent = world.send_alone(b"a")
    world.loop.run(2000)
    assert not sent[0].done

    world.leader, world.leader_epoch = 1, 2
    world.wait(sent)

    assert record_metadata(*sent).offset == 0


def test_producer_abort_fails_records_in_flight_and_waiting_records():
    world = World(linger_ms=1000)
    world.loop.holding_answers = True
    under_way = world.send(b"a")
    world.machine.accumulator.flush()
    world.loop.settle()
    waiting = world.send(b"b")

    world.machine.sender.abort(ApiTimeout("closed"))

    assert under_way[0].done
    assert waiting[0].done
    assert world.machine.accumulator.buffered_bytes == 0


def test_delivered_records_are_in_log_once_in_order_under_faults():
    rng = random.Random(11)
    log: list[bytes] = []
    state: dict[str, Any] = {"epoch": -1, "next": 0, "seen": {}}
    world = World(batch_size=1, delivery_timeout_ms=120_000, request_timeout_ms=2000)

    def broker(request, _version):
        if rng.random() < 0.1:
            return HANG_UP
        response = answer(request, lambda index, header: write(request, index, header))
        return HANG_UP if rng.random() < 0.1 else response

    def write(request, index, header):
        if rng.random() < 0.1:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)
        first_offset = state["seen"].get((header.producer_epoch, header.base_sequence))
        if first_offset is not None:
            return PartitionProduceResponse(index=index, base_offset=first_offset)
        if header.producer_epoch > state["epoch"]:
            state["epoch"], state["next"] = header.producer_epoch, 0
        if header.base_sequence != state["next"]:
            return PartitionProduceResponse(index=index, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        base = len(log)
        log.extend(r.value for r in read_batch(batches_of(request)[0]))
        state["next"] += header.record_count
        state["seen"][header.producer_epoch, header.base_sequence] = base
        return PartitionProduceResponse(index=index, base_offset=base)

    world.one.on(ProduceRequest, broker)
    sent = []
    for n in range(120):
        sent.append(world.send(b"%d" % n))
        world.loop.run(rng.randrange(1, 40))
    world.wait(*sent)

    assert log == [b"%d" % n for n in range(120)]
    assert [record_metadata(*one).offset for one in sent] == list(range(120))


def test_flush_timeout_names_last_error():
    world = World()
    world.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    world.send_alone(b"a")
    world.loop.run(500)

    assert "orders-0: attempt" in str(world.machine.not_delivered_error(0.5))
    assert "NOT_ENOUGH_REPLICAS" in str(world.machine.not_delivered_error(0.5))


# Log lines


def test_produce_outage_is_logged():
    world = World()
    world.codes = [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    world.wait(world.send(b"v"))

    first, last = [note.text for note in world.machine.notes.take()]
    assert first == "writing to orders-0: KAFKA_STORAGE_ERROR; retrying"
    assert last.startswith("orders-0 can be written again, after ")


def test_leaderless_partition_of_sent_records_is_logged():
    world = World()
    world.leader = -1
    world.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.send(b"v")
    world.loop.run(5000)

    assert next(world.machine.notes.take()).text.startswith("orders-0 has no leader; retrying")


def test_denied_topic_is_requested_again_by_next_call():
    world = World()
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def denied_metadata(request, _version):
        topics = [MetadataResponseTopic(name=t.name, error_code=code) for t in request.topics if t.name == "secret"]
        answer = world.metadata(request, _version)
        answer.topics = [t for t in answer.topics if t.name != "secret" or code is ErrorCode.NONE]
        return MetadataResponse(brokers=answer.brokers, topics=[*answer.topics, *(topics if code else [])])

    world.one.on(MetadataRequest, denied_metadata)
    world.two.on(MetadataRequest, denied_metadata)
    assert world.machine.partitions("secret") is None
    world.loop.settle()
    with pytest.raises(ApiError, match="TOPIC_AUTHORIZATION_FAILED"):
        world.machine.partitions("secret")

    code = ErrorCode.NONE
    world.loop.run_until(lambda: world.machine.metadata.partition_count("secret") is not None, 5_000)

    assert world.machine.partitions("secret") == 1
