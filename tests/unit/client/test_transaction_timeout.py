"""Transactional producer whose transaction the broker aborts after its timeout (KIP-588)."""

from __future__ import annotations

import random

import pytest

from kohort.client.producer import ProducerMachine
from kohort.config.client import ProducerConfig
from kohort.errors import TransactionFailed
from kohort.wire.record_batch import NewRecord
from support.machines.consumer_stage import SERVERS, ConsumerStage

TIMEOUT_MS = 5_000


class Producing:
    def __init__(self) -> None:
        self.stage = ConsumerStage()
        self.stage.topic("orders", 1)
        config = ProducerConfig(
            bootstrap_servers=[SERVERS], transactional_id="t", transaction_timeout_ms=TIMEOUT_MS, linger_ms=0
        )
        self.machine = ProducerMachine(config, random.Random(5))
        self.transactions = self.machine.transactional()
        self.stage.loop.add(self.machine.engine)
        self.machine.metadata.track(["orders"])
        self.stage.settled(self.transactions.init())

    def send(self, value: bytes) -> None:
        now_ms = self.stage.now_ms
        self.machine.check_may_send()
        batch, _, _ = self.machine.add("orders", 0, NewRecord(None, value, (), now_ms), now_ms)
        self.stage.loop.run_until(lambda: batch.done)

    def committed(self) -> list[bytes | None]:
        user = self.stage.user("orders", group_id="g", isolation_level="read_committed")
        self.stage.polls(2_000)
        return user.values()


def test_producer_aborts_its_timed_out_transaction_and_commits_the_next():
    producing = Producing()
    producing.transactions.begin()
    producing.send(b"slow")
    producing.stage.loop.run(TIMEOUT_MS + 1_000)
    producing.send(b"late")

    with pytest.raises(TransactionFailed, match="INVALID_PRODUCER_EPOCH"):
        producing.stage.settled(producing.machine.commit_transaction())
    producing.stage.settled(producing.transactions.abort())

    producing.transactions.begin()
    producing.send(b"next")
    producing.stage.settled(producing.machine.commit_transaction())
    assert producing.committed() == [b"next"]
