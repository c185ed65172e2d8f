from __future__ import annotations

import threading

import pytest

from kohort import Consumer, Producer, Wakeup
from kohort.testing import StagedBroker
from support.waiting import eventually

BEAT_MS = 1000


class Callbacks:
    def __init__(self):
        self.counts = []
        self.changed = threading.Condition()

    def on_partitions_revoked(self, partitions):
        pass

    def on_partitions_lost(self, partitions):
        pass

    def on_partitions_assigned(self, partitions):
        with self.changed:
            self.counts.append(len(partitions))
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: count in self.counts, 60), self.counts


class Member:
    def __init__(self, broker, name):
        options = {
            "heartbeat_interval_ms": BEAT_MS,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 600_000,
        }
        self.callbacks = Callbacks()
        self.consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id="g", client_id=name, **options)
        self.consumer.subscribe(["t"], self.callbacks)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while True:
                self.consumer.poll(60_000)
        except Wakeup:
            self.consumer.close()

    def end(self):
        self.consumer.wakeup()
        self.thread.join(60)


@pytest.mark.slow
def test_rejoining_member_commits_and_joins_before_its_next_heartbeat():
    with StagedBroker({"group.initial.rebalance.delay.ms": 0, "num.partitions": 4}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("t", b"one").result(30_000)
        first = Member(broker, "first")
        try:
            first.callbacks.wait_for(4)
            with broker.hold("Fetch") as hold:  # no fetch response wakes the client from now on
                eventually(lambda: hold.waiting, "no fetch is held")
                second = Member(broker, "second")
                try:
                    second.callbacks.wait_for(2)
                finally:
                    second.end()
            requests = [(r.client_id, r.api) for r in broker.requests()]
        finally:
            first.end()

    joins = [i for i, a in enumerate(requests) if a == ("second", "JoinGroup")]
    after = [api for client, api in requests[joins[-1] :] if client == "first"]
    assert after[: after.index("JoinGroup") + 1].count("Heartbeat") == 1
    assert "OffsetCommit" in after[: after.index("JoinGroup")]
