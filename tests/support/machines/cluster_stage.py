"""Several nodes without a network over one storage, with one manual clock."""

from __future__ import annotations

import random
from collections.abc import Iterable

from kohort.broker.broker import Broker
from kohort.broker.cluster.cluster import Cluster, ClusterNode
from kohort.broker.cluster.nodes import AdvertisedNode
from kohort.broker.io import Close, Connected, Disconnected, Pause, Resume, Send, Tick
from kohort.clock import ManualClock
from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import DEFAULT_LISTENER, advertised_of
from kohort.log.storage import MemoryStorage, Storage
from kohort.model import Node
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort_lab.sim.checks.group_invariants import check_all, check_decision
from support.machines.broker_stage import Peer
from support.raw.group_member import RawMember

APPEND, SUBTRACT = 2, 3
OFFSETS = "__consumer_offsets"


class NodeStage:
    """One node and its connections."""

    def __init__(self, stage: ClusterStage, node_id: int) -> None:
        self.stage = stage
        self.node_id = node_id
        self.peers: dict[int, Peer] = {}
        self.broker = stage.make_broker(node_id)

    @property
    def now_ms(self) -> int:
        return self.stage.now_ms

    def connect(self, listener: str = DEFAULT_LISTENER) -> Peer:
        number = self.stage.next_number()
        peer = self.peers[number] = Peer(self, number)
        self.give(Connected(number, "127.0.0.1", listener))
        return peer

    def give(self, event) -> None:
        if self.stage.nodes.get(self.node_id) is not self:
            return  # stopped node
        self.handle(event)
        self.stage.settle()

    def handle(self, event) -> None:
        for output in self.broker.handle(event, self.now_ms):
            peer = self.peers.get(output.connection)
            if peer is None:
                continue
            match output:
                case Send(buffers=buffers):
                    peer.received(list(buffers))
                case Close(reason=reason):
                    peer.closed = reason
                case Pause():
                    peer.paused = True
                case Resume():
                    peer.paused = False
        check_all(self.broker.state.coordinator, self.now_ms)

    def stop(self) -> None:
        for number, peer in self.peers.items():
            peer.closed = "the node was stopped"
            self.broker.handle(Disconnected(number), self.now_ms)
        self.broker.close(self.now_ms)


def _is_due(wake_at_ms: int | None, now_ms: int) -> bool:
    return wake_at_ms is not None and wake_at_ms <= now_ms


class ClusterStage:
    """Nodes 1 to ``count``, all up."""

    def __init__(self, count: int = 3, storage: Storage | None = None, **options: object) -> None:
        settings = {"offsets_topic_num_partitions": 6, "group_initial_rebalance_delay_ms": 0, **options}
        self.config: BrokerConfig = parse_config(BrokerConfig, settings)
        self.storage = storage if storage is not None else MemoryStorage()
        self.clock = ManualClock()
        self.rng = random.Random(7)
        self._last = 0
        self._start(count)

    def _start(self, count: int) -> None:
        nodes = [self._node(n) for n in range(1, count + 1)]
        self.cluster = Cluster(self.config, self.storage, self.rng, self.now_ms, nodes)
        self.cluster.nodes_are_up(self.cluster.nodes)
        self.nodes = {node.node_id: NodeStage(self, node.node_id) for node in nodes}
        self.settle()

    def _node(self, number: int) -> AdvertisedNode:
        """Node 1 listens on 9091 and, where there are several listeners, on 9191, 9291, ..."""
        names = [listener.name for listener in advertised_of(self.config)]
        at = {name: Node(number, "127.0.0.1", 9090 + 100 * i + number) for i, name in enumerate(names)}
        return AdvertisedNode(number, at)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def make_broker(self, node_id: int) -> Broker:
        return Broker(self.config, ClusterNode(self.cluster, node_id), self.rng, self.now_ms, check=check_decision)

    def restart(self, count: int = 3, *, cleanly: bool = True) -> None:
        """Stop the process, cleanly or not, and start it again on the same storage."""
        if cleanly:
            for node in self.nodes.values():
                node.stop()
            assert self.cluster.close() == []
        self._start(count)

    def settle(self) -> None:
        """Deliver the messages between nodes, and check that the expected nodes are up."""
        while True:
            for node_id in [n for n in self.nodes if n not in self.cluster.wanted]:
                self.nodes.pop(node_id).stop()
            for node_id in sorted(self.cluster.wanted - set(self.nodes)):
                self.nodes[node_id] = NodeStage(self, node_id)
                self.cluster.nodes_are_up([node_id])
            busy = [node for node in self.nodes.values() if _is_due(node.broker.wake_at_ms, self.now_ms)]
            if not busy:
                return
            for node in busy:
                node.handle(Tick())

    def advance(self, delta_ms: int) -> None:
        end_ms = self.now_ms + delta_ms
        while True:
            wakes = [node.broker.wake_at_ms for node in self.nodes.values() if node.broker.wake_at_ms]
            wake_at_ms = min(wakes, default=None)
            if wake_at_ms is None or wake_at_ms > end_ms:
                break
            self.clock.advance(max(wake_at_ms - self.now_ms, 0))
            for node in list(self.nodes.values()):
                node.handle(Tick())
            self.settle()
        self.clock.advance(end_ms - self.now_ms)

    # ------------------------------------------------------------ common requests

    def peer(self, node_id: int | None = None) -> Peer:
        """Open a connection to a node (default: any)."""
        return self.nodes[min(self.nodes) if node_id is None else node_id].connect()

    def leader(self, topic: str, partition: int = 0) -> int:
        answer = self.peer().ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        return answer.topics[0].partitions[partition].leader_id

    def coordinator(self, group: str) -> int:
        return self.peer().ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].node_id

    def coordinator_partition(self, group: str) -> int:
        return next(iter(self.nodes.values())).broker.state.coordinator.partition_of(group)

    def alter_stopped(self, operation: int, node_id: int) -> int:
        """Stop (APPEND) or start (SUBTRACT) a node by an admin call to another; return the error code."""
        change = AlterableConfig(name="kohort.stopped.nodes", config_operation=operation, value=str(node_id))
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
        answer = self.peer().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        return answer.responses[0].error_code

    def stop_node(self, node_id: int) -> None:
        assert self.alter_stopped(APPEND, node_id) == 0

    def start_node(self, node_id: int) -> None:
        assert self.alter_stopped(SUBTRACT, node_id) == 0

    def reassign(self, topic: str, partition: int, replicas: Iterable[int] | None) -> int:
        request_partition = ReassignablePartition(
            partition_index=partition, replicas=None if replicas is None else list(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=topic, partitions=[request_partition])]
        )
        return self.peer().ask(request, 1).responses[0].partitions[0].error_code

    def elect(self, topic: str, partition: int, kind: int = 0) -> int:
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=[ElectLeadersTopic(topic=topic, partitions=[partition])]
        )
        return self.peer().ask(request, 2).replica_election_results[0].partition_result[0].error_code

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Make a running node the leader of a partition."""
        now = self.cluster.placement(self.cluster.topics.get(topic), partition).replicas
        assert self.reassign(topic, partition, [node_id, *(n for n in now if n != node_id)]) == 0
        assert self.elect(topic, partition) in {0, 84}
        assert self.leader(topic, partition) == node_id

    def move_coordinator(self, group: str, node_id: int) -> None:
        self.move(OFFSETS, self.coordinator_partition(group), node_id)

    def member(self, group: str, topics: list[str]) -> RawMember:
        """Return a member that is connected to the group's coordinator."""
        return RawMember(self.peer(self.coordinator(group)), group, topics)

    def follow(self, member: RawMember) -> None:
        """Connect a member to its group's current coordinator."""
        member.wire = self.peer(self.coordinator(member.group))
