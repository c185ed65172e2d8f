"""Power losses: only flushed bytes of each file remain."""

import random

import pytest

from kohort.errors import ErrorCode
from kohort.log.storage import MemoryFile, MemoryStorage
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, produce_request, values_of
from support.raw.transactional import Transactional, committed_offset, committed_values


class CachedFile(MemoryFile):
    """A file whose appended bytes are volatile until a flush has ended."""

    def __init__(self, data, disk, name):
        super().__init__(data)
        self._disk, self._name = disk, name

    @property
    def flushed(self):
        return min(self._disk.safe.get(self._name, 0), self.size)

    @property
    def is_flushing(self):
        return any(name == self._name for name, _ in self._disk.under_way)

    def flush(self):
        self._disk.safe[self._name] = self.size

    def start_flush(self):
        self._disk.under_way.append((self._name, self.size))

    def truncate(self, size):
        super().truncate(size)
        self._disk.safe[self._name] = self.flushed


class CachingDisk(MemoryStorage):
    """A disk with a volatile cache; its flushes end when the test ends them."""

    def __init__(self):
        super().__init__()
        self.safe = {}
        self.under_way = []

    def open(self, name):
        folder, file = self._place(name)
        return CachedFile(folder.setdefault(file, bytearray()), self, name)

    def replace(self, name, content, *, durable=True, private=False):
        super().replace(name, content, durable=durable, private=private)
        self.safe[name] = len(content) if durable else 0

    def rename(self, name, new):
        super().rename(name, new)
        self.safe[new] = self.safe.pop(name, 0)

    def delete(self, name):
        super().delete(name)
        self.safe.pop(name, None)

    def end_flushes(self, count=1_000):
        for name, size in self.under_way[:count]:
            self.safe[name] = max(self.safe.get(name, 0), size)
        del self.under_way[:count]

    def lose_power(self):
        self.under_way.clear()
        for folder in ["", *self.folders()]:
            for file in self.files(folder):
                name = f"{folder}/{file}".removeprefix("/")
                safe_bytes = bytes(self.read(name) or b"")[: self.safe.get(name, 0)]
                self._place(name)[0].pop(file)
                if safe_bytes:
                    super().replace(name, safe_bytes)


def sent(peer, value, partition=0):
    batch = build_batch([NewRecord(None, value, (), peer.stage.now_ms)])
    peer.send(produce_request("orders", batch, partition=partition), 9)


def commit(peer, offset):
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    peer.send(OffsetCommitRequest(group_id="billing", topics=[topic]), 8)


def committed(peer):
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    answer = peer.ask(OffsetFetchRequest(group_id="billing", topics=[topic]), 7)
    return answer.topics[0].partitions[0].committed_offset


def on_log(peer, partition=0):
    found, end = {}, 0
    while True:
        answer = peer.fetch("orders", end, partition=partition)
        (read,) = answer.responses[0].partitions
        assert read.error_code == 0
        values = values_of(read.records or b"")
        if not values:
            return found
        found |= dict(enumerate(values, end))
        end += len(values)


@pytest.mark.parametrize("seed", range(20))
def test_acknowledged_records_with_flush_messages_1_survive_a_power_loss(seed):
    rng, disk = random.Random(seed), CachingDisk()
    stage = BrokerStage(disk, log_flush_interval_messages=1)
    stage.connect().create("orders", 2, **{"segment.bytes": "1024"})
    waiting, acknowledged, acknowledged_offset, offset_sent = {}, {}, -1, -1
    producers, committer, commits = [stage.connect() for _ in range(3)], stage.connect(), []

    for step in range(rng.randrange(20, 80)):
        for peer in producers:
            if peer not in waiting and rng.random() < 0.5:
                waiting[peer] = (rng.randrange(2), b"%d %s" % (step, b"x" * rng.randrange(300)))
                sent(peer, waiting[peer][1], waiting[peer][0])
        if not commits and rng.random() < 0.3:
            offset_sent += 1
            commits.append(offset_sent)
            commit(committer, offset_sent)
        disk.end_flushes(rng.randrange(4))
        stage.advance(1)
        for peer in [peer for peer in producers if peer in waiting]:
            if answer := peer.take():
                (partition_response,) = answer.responses[0].partition_responses
                assert partition_response.error_code == 0
                partition, value = waiting.pop(peer)
                acknowledged[partition, partition_response.base_offset] = value
        if answer := committer.take():
            assert answer.topics[0].partitions[0].error_code == 0
            acknowledged_offset = commits.pop()
    disk.lose_power()
    stage.restart(cleanly=False)

    reader = stage.connect()
    found = {(partition, offset): v for partition in range(2) for offset, v in on_log(reader, partition).items()}
    assert acknowledged
    assert {place: found.get(place) for place in acknowledged} == acknowledged
    assert committed(reader) >= acknowledged_offset


def test_acknowledged_records_without_flush_may_be_lost():
    disk = CachingDisk()
    stage = BrokerStage(disk)
    peer = stage.connect()
    peer.create("orders")
    sent(peer, b"a")
    assert peer.take().responses[0].partition_responses[0].error_code == 0
    disk.lose_power()
    stage.restart(cleanly=False)

    assert on_log(stage.connect()) == {}


def test_records_flushed_by_time_survive_a_power_loss():
    disk = CachingDisk()
    stage = BrokerStage(disk)
    peer = stage.connect()
    peer.create("orders", **{"flush.ms": "1000"})
    sent(peer, b"before")
    stage.advance(1_000)
    disk.end_flushes()
    sent(peer, b"after")
    disk.lose_power()
    stage.restart(cleanly=False)

    assert on_log(stage.connect()) == {0: b"before"}


class PowerCut(Exception):
    pass


class PatientPeer:
    """A client that ends a pending flush whenever its request waits; after ``flushes`` flushes the power fails."""

    def __init__(self, stage, flushes):
        self._stage, self._peer, self._remaining_flushes = stage, stage.connect(), flushes

    def ask(self, message, version):
        self._peer.send(message, version)
        while (answer := self._peer.take()) is None:
            if not self._remaining_flushes:
                raise PowerCut
            self._remaining_flushes -= 1
            self._stage.storage.end_flushes(1)
            self._stage.advance(1)
        return answer


def transactions_until_the_power_goes(producer):
    """Run transactions with records and offsets until the power fails; return the values of committed transactions."""
    acknowledged = []
    try:
        assert producer.init() == 0
        for number in range(100):
            value, commit = b"%d" % number, bool(number % 3)
            producer.send("orders", value)
            producer.send("payments", value)
            assert producer.commit_offsets("billing", "orders", number) == 0
            assert producer.end(commit=commit) == 0
            if commit:
                acknowledged.append(value)
    except PowerCut:
        pass
    return acknowledged


@pytest.mark.heavy
@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("flushes", [*range(50, 75), 200])
def test_committed_transaction_with_flush_messages_1_survives_a_power_loss(flushes, new):
    disk = CachingDisk()
    stage = BrokerStage(disk, log_flush_interval_messages=1)
    stage.connect().create("orders")
    stage.connect().create("payments")
    acknowledged = transactions_until_the_power_goes(Transactional(PatientPeer(stage, flushes), new=new))
    disk.lose_power()
    stage.restart(cleanly=False)
    stage.advance(120_000)  # the open transaction is aborted

    peer = stage.connect()
    orders, payments = committed_values(peer, "orders"), committed_values(peer, "payments")
    assert acknowledged
    assert orders[: len(acknowledged)] == payments[: len(acknowledged)] == acknowledged
    assert not [value for value in {*orders, *payments} if int(value) % 3 == 0]
    code, offset = committed_offset(peer, "billing", "orders")
    assert (code, offset >= int(acknowledged[-1])) == (0, True)


def test_transaction_with_a_failed_flush_is_not_reported_as_committed():
    disk = CachingDisk()
    stage = BrokerStage(disk, log_flush_interval_messages=1)
    stage.connect().create("orders")
    producer = Transactional(PatientPeer(stage, 1_000), new=True)
    assert producer.init() == 0
    producer.send("orders", b"a")
    disk.end_flushes = lambda _count: disk.under_way.clear()  # type: ignore[assignment]

    assert producer.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("new", [True, False])
def test_repeated_end_txn_waits_for_a_new_flush_after_a_failed_flush(new):
    disk = CachingDisk()
    stage = BrokerStage(disk, log_flush_interval_messages=1)
    stage.connect().create("orders")
    producer = Transactional(PatientPeer(stage, 1_000), new=new)
    assert producer.init() == 0
    producer.send("orders", b"a")
    disk.end_flushes = lambda _count: disk.under_way.clear()  # type: ignore[assignment]
    assert producer.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert producer.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE, "flushes still fail"
    del disk.end_flushes

    assert producer.end(commit=True) == 0

    disk.lose_power()
    stage.restart(cleanly=False)
    assert committed_values(stage.connect(), "orders") == [b"a"]
