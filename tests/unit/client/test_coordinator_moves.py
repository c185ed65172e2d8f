"""Coordinator move while fetches are in flight to all other nodes."""

import random

import pytest

from kohort.broker.broker import Broker
from kohort.broker.cluster.cluster import Cluster, ClusterNode
from kohort.broker.cluster.nodes import AdvertisedNode
from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import DEFAULT_LISTENER
from kohort.log.storage import MemoryStorage
from kohort.model import Node
from support.machines.consumer_stage import PollingStage

WAIT_MS = 5_000
SESSION_MS = 6_000


class Nodes(PollingStage):
    def __init__(self) -> None:
        super().__init__()
        options = {
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
            "group.consumer.min.session.timeout.ms": 1_000,
            "group.consumer.session.timeout.ms": SESSION_MS,
            "group.consumer.min.heartbeat.interval.ms": 100,
            "group.consumer.heartbeat.interval.ms": 2_000,
        }
        self.config = parse_config(BrokerConfig, options)
        at = [AdvertisedNode(n, {DEFAULT_LISTENER: Node(n, f"n{n}", 9092)}) for n in (1, 2, 3)]
        self.cluster = Cluster(self.config, MemoryStorage(), random.Random(3), self.now_ms, at)
        self.brokers = {}
        for n in (1, 2, 3):
            self.brokers[n] = Broker(self.config, ClusterNode(self.cluster, n), random.Random(n), self.now_ms)
            self.loop.serve((f"n{n}", 9092), self.brokers[n])
        self.cluster.nodes_are_up([1, 2, 3])
        self.loop.settle()

    def coordinator(self) -> int:
        return next(n for n, broker in self.brokers.items() if broker.state.coordinator.coordinates(0))

    def stop(self, n: int) -> None:
        self.loop.stop((f"n{n}", 9092))
        self.brokers.pop(n).close(self.now_ms)
        self.cluster.node_is_down(n)
        self.loop.settle()


@pytest.mark.parametrize("extra_ms", [0, 4_000])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_survives_coordinator_move_during_long_fetches(protocol, extra_ms):
    stage = Nodes()
    next(iter(stage.brokers.values())).state.topics.create("t", 3, {}, stage.now_ms)
    classic = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 2_000} if protocol == "classic" else {}
    user = stage.user(
        "t",
        bootstrap_servers="n1:9092,n2:9092,n3:9092",
        group_id="g",
        group_protocol=protocol,
        fetch_max_wait_ms=WAIT_MS,
        **classic,
    )
    stage.until(lambda: user.owned == "t-0 t-1 t-2")
    stage.polls(2 * WAIT_MS + 300)
    stage.polls(extra_ms)
    callbacks = list(user.callbacks)

    stage.stop(stage.coordinator())
    moved_ms = stage.now_ms
    stage.until(lambda: user.machine.group.lookup.node_id in stage.brokers)
    assert stage.now_ms - moved_ms <= 2_000, "the coordinator lookup does not wait for a fetch"
    stage.polls(3 * SESSION_MS)

    assert user.callbacks == callbacks, "the member keeps its partitions"
