"""Random transactions of several producers, restarts and a disk that refuses, against what they add up to by hand."""

import random
from dataclasses import dataclass, field
from itertools import chain

import pytest

from kohort.broker.cluster.log_items import slices_of
from kohort.coordinator.replay import Skipped
from kohort.errors import ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort_lab.sim.checks.group_invariants import check_log
from support.machines.broker_stage import BrokerStage
from support.raw.transactional import Transactional, committed_offset, committed_values, latest

TOPICS, GROUPS, STEPS = ("a", "b"), ("g", "h"), 120
TIMEOUT_MS = 900_000
RETRY_MS = 1_000


class Moody(MemoryStorage):
    """Now and then it refuses to open the file in which a partition keeps what was aborted."""

    refuses = False

    def open(self, name):
        if self.refuses and name.endswith(".txnindex"):
            raise StorageError("refused")
        return super().open(name)


@dataclass(eq=False)
class Written:
    """A transaction of the model; ``outcome`` is None while it is open."""

    outcome: bool | None = None


@dataclass
class Model:
    """Appended records in order, with their transaction; None outside of transactions."""

    records: dict[str, list[tuple[Written, bytes]]] = field(default_factory=lambda: {t: [] for t in TOPICS})
    offsets: dict[str, list[tuple[Written | None, int]]] = field(default_factory=lambda: {g: [] for g in GROUPS})

    def committed(self, topic):
        found = []
        for transaction, value in self.records[topic]:
            if transaction.outcome is None:
                break
            found += [value] if transaction.outcome else []
        return found

    def offset(self, group):
        counts = [offset for of, offset in self.offsets[group] if of is None or of.outcome]
        return counts[-1] if counts else -1

    def is_stable(self, group):
        return all(of is None or of.outcome is not None for of, _ in self.offsets[group])


class RandomRun:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.storage = Moody()
        self.stage = BrokerStage(self.storage, connections_max_idle_ms=-1, offsets_topic_segment_bytes=4096)
        self.peer = self.stage.connect()
        for topic in TOPICS:
            self.peer.create(topic, segment_bytes="2048")
        for group in GROUPS:
            self.peer.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
        self.model = Model()
        self.producers = [Transactional(self.peer, f"p{n}", new=n % 2 == 1, timeout_ms=TIMEOUT_MS) for n in range(4)]
        self.open: dict[Transactional, Written] = {}
        self.count = 0
        for producer in self.producers:
            self.begin(producer)

    def begin(self, producer):
        """A process of this name begins; what the one before left open is aborted."""
        unfinished = self.open.pop(producer, None)
        for _ in range(5):
            code = producer.init()
            if not code:
                break
            assert code == ErrorCode.CONCURRENT_TRANSACTIONS
            self.calm()
        assert code == 0
        if unfinished is not None:
            unfinished.outcome = False

    def calm(self):
        """End the disk faults, and complete delayed work."""
        if self.storage.refuses:
            self.storage.refuses = False
            self.stage.advance(RETRY_MS)

    def step(self):
        producer = self.rng.choice(self.producers)
        rare = ["plain", "begin", "restart", "moody", "wait"]
        act = self.rng.choice(["send"] * 5 + ["offsets"] * 3 + ["end"] * 4 + rare)
        getattr(self, act)(producer)

    def transaction_of(self, producer):
        return self.open.setdefault(producer, Written())

    def settled(self, ask):
        """Retry an end that was delayed by a disk fault."""
        code = ask()
        if code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS):
            self.calm()
            code = ask()
        return code

    def send(self, producer):
        topic = self.rng.choice(TOPICS)
        if not producer.new:
            assert self.settled(lambda: producer.add(topic, 0)) == 0
        self.count += 1
        value = f"{self.count}".encode().ljust(self.rng.choice([8, 200]))
        assert self.settled(lambda: producer.write(topic, value, key=b"k").error_code) == 0
        self.model.records[topic].append((self.transaction_of(producer), value))

    def offsets(self, producer):
        group = self.rng.choice(GROUPS)
        self.count += 1
        assert self.settled(lambda: producer.commit_offsets(group, "a", self.count)) == 0
        self.model.offsets[group].append((self.transaction_of(producer), self.count))

    def plain(self, _producer):
        group = self.rng.choice(GROUPS)
        self.count += 1
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.count, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="a", partitions=[part])]
        answer = self.peer.ask(OffsetCommitRequest(group_id=group, topics=topics), 8)
        assert answer.topics[0].partitions[0].error_code == 0
        self.model.offsets[group].append((None, self.count))

    def end(self, producer):
        if producer not in self.open:
            return
        commit = self.rng.random() < 0.6
        assert self.settled(lambda: producer.end(commit=commit)) == 0
        self.open.pop(producer).outcome = commit

    def restart(self, _producer):
        self.calm()
        self.stage.restart(cleanly=self.rng.random() < 0.5)
        self.peer = self.stage.connect()
        for producer in self.producers:
            producer.peer = self.peer

    def moody(self, _producer):
        if self.storage.refuses:
            self.calm()
        else:
            self.storage.refuses = True

    def wait(self, _producer):
        """Exceed the transaction timeout: producers with an open transaction are fenced."""
        self.calm()
        self.stage.advance(TIMEOUT_MS)
        for producer, transaction in list(self.open.items()):
            refusal = ErrorCode.INVALID_TXN_STATE if producer.new else ErrorCode.PRODUCER_FENCED
            assert producer.end(commit=True) == refusal
            transaction.outcome = False
            del self.open[producer]
            self.begin(producer)

    def check(self):
        if self.storage.refuses:
            return  # an abort can be delayed
        state = self.stage.broker.state
        topic = state.topics.get("__consumer_offsets")
        for partition, log in enumerate(topic.partitions if topic is not None else ()):
            check_log(state.coordinator, partition, chain.from_iterable(slices_of(log, Skipped())))
        for name in TOPICS:
            assert [v.strip() for v in committed_values(self.peer, name)] == [
                v.strip() for v in self.model.committed(name)
            ]
        for group in GROUPS:
            stable = self.model.is_stable(group)
            assert committed_offset(self.peer, group, "a") == (0, self.model.offset(group))
            code = 0 if stable else ErrorCode.UNSTABLE_OFFSET_COMMIT
            assert committed_offset(self.peer, group, "a", stable=True)[0] == code


@pytest.mark.parametrize("seed", range(12))
def test_what_readers_and_groups_see_is_what_was_committed(seed):
    run = RandomRun(seed)
    for _ in range(STEPS):
        run.step()
        run.check()
    run.calm()
    run.stage.advance(TIMEOUT_MS)
    for transaction in run.open.values():
        transaction.outcome = False
    run.check()
    for topic in TOPICS:
        assert latest(run.peer, topic) == latest(run.peer, topic, isolation=0), "nothing hangs"
