"""Responses that wait for the log flushes of ``flush.messages``."""

import pytest

from kohort.broker.io import Tick
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, produce_request

KAFKA_STORAGE_ERROR = 56
NOT_COORDINATOR = 16
"""Error code that members get after a storage error, so that they request the coordinator again."""


class SlowFile(MemoryFile):
    """A file whose flushes end when the test ends them."""

    def __init__(self, data, disk):
        super().__init__(data)
        self._disk = disk
        self._on_disk = 0
        self._going = None

    @property
    def flushed(self):
        return self._on_disk

    @property
    def is_flushing(self):
        return self._going is not None

    def start_flush(self):
        self._going = self.size
        self._disk.under_way.append(self)

    def end(self, *, well):
        if well:
            self._on_disk = max(self._on_disk, self._going)
        self._going = None


class SlowDisk(MemoryStorage):
    def __init__(self):
        super().__init__()
        self.under_way = []
        self.flushes = 0

    def open(self, name):
        folder, file = self._place(name)
        return SlowFile(folder.setdefault(file, bytearray()), self)

    def end_flushes(self, *, well=True):
        ended, self.under_way = self.under_way, []
        for file in ended:
            file.end(well=well)
        self.flushes += len(ended)


@pytest.fixture
def disk():
    return SlowDisk()


@pytest.fixture
def stage(disk):
    stage = BrokerStage(disk)
    stage.connect().create("orders", 2, **{"flush.messages": "1"})
    return stage


def send(peer, value, *, partition=0, producer=None):
    record = NewRecord(None, value, (), peer.stage.now_ms)
    ids = {} if producer is None else {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    peer.send(produce_request("orders", build_batch([record], **ids), partition=partition), 9)


def produce_result(peer):
    answer = peer.take()
    if answer is None:
        return None
    (partition,) = answer.responses[0].partition_responses
    return partition.base_offset, partition.error_code


def test_produce_response_waits_for_its_flush(stage, disk):
    ann = stage.connect()

    send(ann, b"a")
    stage.advance(50)
    assert produce_result(ann) is None

    disk.end_flushes()
    stage.advance(1)
    assert produce_result(ann) == (0, 0)
    assert stage.broker.state.flushes.wake_at_ms is None


def test_appends_during_a_flush_share_the_next_flush(stage, disk):
    peers = [stage.connect() for _ in range(5)]

    for n, peer in enumerate(peers):
        send(peer, b"%d" % n)
    disk.end_flushes()
    stage.advance(1)
    assert [produce_result(peer) for peer in peers] == [(0, 0), None, None, None, None]

    disk.end_flushes()
    stage.advance(1)
    assert [produce_result(peer) for peer in peers[1:]] == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert disk.flushes == 2


def test_responses_of_one_connection_keep_their_order_during_flushes(stage, disk):
    ann = stage.connect()

    for n in range(3):
        send(ann, b"%d" % n)
    for expected in range(3):
        assert produce_result(ann) is None
        disk.end_flushes()
        stage.advance(1)
        assert produce_result(ann) == (expected, 0)


def test_flush_waits_are_independent_between_partitions(stage, disk):
    ann, ben = stage.connect(), stage.connect()

    send(ann, b"a", partition=0)
    (slow,) = disk.under_way
    send(ben, b"b", partition=1)
    disk.under_way.remove(slow)
    disk.end_flushes()
    stage.advance(1)

    assert (produce_result(ann), produce_result(ben)) == (None, (0, 0))


def test_each_produce_request_that_waits_for_a_failed_flush_gets_an_error(stage, disk):
    ann, ben = stage.connect(), stage.connect()

    send(ann, b"a", producer=7)
    disk.end_flushes(well=False)
    stage.advance(1)
    assert produce_result(ann) == (-1, KAFKA_STORAGE_ERROR)

    send(ann, b"a", producer=7)
    send(ben, b"b")
    disk.end_flushes()
    stage.advance(1)
    disk.end_flushes()
    stage.advance(1)
    assert (produce_result(ann), produce_result(ben)) == ((0, 0), (1, 0))


def test_produce_with_acks_0_does_not_wait_for_a_flush(stage, disk):
    ann = stage.connect()

    batch = build_batch([NewRecord(None, b"a", (), stage.now_ms)])
    ann.send(produce_request("orders", batch, acks=0), 9, answered=False)

    assert len(stage.broker.state.flushes) == 0
    assert len(disk.under_way) == 1


@pytest.mark.parametrize(("well", "code"), [(True, 0), (False, NOT_COORDINATOR)])
def test_offset_commit_waits_for_a_flush_of_the_offsets_topic(disk, well, code):
    stage = BrokerStage(disk, log_flush_interval_messages=1)
    ann = stage.connect()
    ann.create("orders", 1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)

    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    ann.send(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
    stage.advance(50)
    assert ann.take() is None

    disk.end_flushes(well=well)
    stage.advance(1)
    assert ann.take().topics[0].partitions[0].error_code == code


def test_response_to_a_closed_connection_is_dropped_after_the_flush(stage, disk):
    ann = stage.connect()

    send(ann, b"a")
    ann.leave()
    disk.end_flushes()
    stage.advance(1)

    assert len(stage.broker.state.flushes) == 0


@pytest.mark.parametrize("well", [True, False])
def test_split_offset_commit_waits_for_its_last_flush(well):
    disk = SlowDisk()
    stage = BrokerStage(disk)
    peer = stage.connect()
    peer.create("wide", 30)
    stage.broker.state.offsets_topic.ensure(stage.now_ms)
    stage.broker.state.topics.alter_config("__consumer_offsets", {"flush.messages": "1", "cleanup.policy": "compact"})
    request_partitions = [
        OffsetCommitRequestPartition(partition_index=i % 30, committed_offset=i) for i in range(1_000)
    ]

    peer.send(
        OffsetCommitRequest(
            group_id="g", topics=[OffsetCommitRequestTopic(name="wide", partitions=request_partitions)]
        ),
        8,
    )
    while stage.broker.long_work:
        stage.give(Tick())
    assert peer.take() is None
    for _ in range(10):
        disk.end_flushes(well=well)
        stage.advance(2)

    codes = [p.error_code for p in peer.take().topics[0].partitions]
    assert codes == [0 if well else NOT_COORDINATOR] * 1_000
