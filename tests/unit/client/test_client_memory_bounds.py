"""Bounds of a client's memory if every response contains new names."""

import random

import pytest

from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import MAX_LEARNT_NODES, Metadata
from kohort.client.requests.outages import MAX_OUTAGES, Notes, Outages
from kohort.client.requests.source import Poll, Unsent
from kohort.clock import ManualClock
from kohort.config.client import AdminConfig
from kohort.errors import ConnectionFailed
from kohort.model import Node
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort_lab.machines.loop import Loop


class Asker:
    def __init__(self):
        self.outbox = []
        self.failures = []

    def ask(self, node_id):
        self.outbox.append(Unsent(node_id, HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 30_000))

    def poll(self, _now_ms):
        unsent, self.outbox = self.outbox, []
        return Poll(unsent)

    def on_failure(self, _sent, error, _now_ms):
        self.failures.append(error)


def test_oldest_recorded_outage_is_dropped_above_limit():
    outages = Outages(Notes())

    for number in range(2 * MAX_OUTAGES):
        outages.report(("address", number), "it does not answer", number)

    assert len(outages._known) == MAX_OUTAGES
    assert ("address", 2 * MAX_OUTAGES - 1) in outages._known


@pytest.mark.heavy
def test_nodes_missing_in_metadata_are_dropped_when_another_node_is_added():
    clock, asker, rng = ManualClock(), Asker(), random.Random(1)
    config = AdminConfig(bootstrap_servers=["nobody:9092"])
    metadata = Metadata(config, rng)
    engine = Engine(config, [asker], metadata, rng)  # type: ignore[list-item]
    loop = Loop(clock)
    loop.add(engine)
    last = 2 * MAX_LEARNT_NODES - 1

    for number in range(last + 1):
        metadata.learn_node(Node(number, f"gone-{number}", 9092))
        asker.ask(number)
        loop.settle()

    assert len(asker.failures) == last + 1
    assert all(isinstance(error, ConnectionFailed) for error in asker.failures)
    assert (last, "data") in engine._channels
    assert len(engine._channels) <= MAX_LEARNT_NODES + 2
    assert len(engine._losses) <= MAX_LEARNT_NODES + 2
