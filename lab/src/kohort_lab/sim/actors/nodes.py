"""Cluster actor: the nodes of one process on one disk, with moving leaders.

The actor replaces ``aio/serving/cluster_server.py``: it gives a turn to each node with new events, stops removed nodes
and starts added ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kohort.broker.broker import Broker
from kohort.broker.cluster.cluster import Cluster, ClusterNode
from kohort.broker.cluster.nodes import node_of
from kohort.broker.io import Tick
from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.config.broker import BrokerConfig
from kohort.errors import ApiError, StorageError
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort_lab.sim.actors.broker_host import BrokerHost
from kohort_lab.sim.checks.group_invariants import check_decision
from kohort_lab.sim.disk import FaultyDisk, ProcessDied
from kohort_lab.sim.run_context import RunContext

RESTART_MS = (50, 4000)


class ClusterActor:
    """Process with several nodes; ``configs``: one per node, the first also has the cluster's options.

    ``checked``: check coordinator invariants after every event; slow for large groups.
    """

    def __init__(self, context: RunContext, configs: Sequence[BrokerConfig], *, checked: bool = True) -> None:
        self._check = check_decision if checked else None
        self.disk = FaultyDisk(context.world.fork_rng())
        self.cluster: Cluster | None = None
        """Cluster of the running process; None while the process is down."""
        self.frozen_until_ms = 0
        self.clock_ahead_ms = 0
        self._world = context.world
        self._history = context.history
        self._watcher = context.checks
        self._rng = context.world.fork_rng()
        self._configs = {config.node_id: config for config in configs}
        self._hosts = {
            number: BrokerHost(self, f"node {number}", (config.listen_host, config.listen_port), context)
            for number, config in self._configs.items()
        }
        self._starting: set[int] = set()
        self._will_look = False

    @property
    def brokers(self) -> list[Broker]:
        """Machines of the running nodes."""
        return [host.broker for host in self._hosts.values() if host.broker is not None]

    @property
    def topics(self) -> Topics | None:
        """Topics of the running nodes; None while their process is down."""
        return self.cluster.topics if self.cluster is not None else None

    @property
    def now_ms(self) -> int:
        return self._world.now_ms + self.clock_ahead_ms

    @property
    def is_frozen(self) -> bool:
        return self._world.now_ms < self.frozen_until_ms

    @property
    def is_whole(self) -> bool:
        """True if every node is up, without pending events, and able to work."""
        everyone = len(self.brokers) == len(self._configs)
        return self.cluster is not None and everyone and not self.cluster.has_messages and not self.is_frozen

    def start(self) -> None:
        """Start the process with all nodes; retry later if the disk fails."""
        if self.cluster is not None:
            return
        configs = self._configs
        try:
            nodes = [node_of(config, number) for number, config in configs.items()]
            first = next(iter(configs.values()))
            cluster = Cluster(first, self.disk, self._world.fork_rng(), self.now_ms, nodes)
            cluster.nodes_are_up(configs)
            brokers = {number: self._broker(cluster, number) for number in configs}
        except (StorageError, ApiError, ProcessDied) as error:
            self._history.add("cluster", "start failed", str(error) or "died while starting")
            self._world.after(self._rng.randint(*RESTART_MS), self.start)
            return
        self.cluster = cluster
        self._history.add("cluster", "started")
        for number, broker in brokers.items():
            self._hosts[number].begin(broker)
        self._watcher.broker_started(self)

    def _broker(self, cluster: Cluster, number: int) -> Broker:
        rng = self._world.fork_rng()
        return Broker(self._configs[number], ClusterNode(cluster, number), rng, self.now_ms, check=self._check)

    def kill(self, why: str, *, restart_in_ms: int | None = None, writing: bool = False) -> None:
        """Kill the process, and with it all nodes."""
        if self.cluster is None:
            return
        self._watcher.broker_dies(self, writing=writing)
        self._history.add("cluster", "killed", why)
        self.cluster = None
        self.frozen_until_ms = 0
        self._starting.clear()
        for host in self._hosts.values():
            if host.broker is not None:
                host.end()
        self._world.after(self._rng.randint(*RESTART_MS) if restart_in_ms is None else restart_in_ms, self.start)

    def dies(self) -> None:
        self.kill("died in the middle of a write", writing=True)

    def freeze(self, for_ms: int) -> None:
        """Freeze the process for a time."""
        if self.cluster is not None:
            self._history.add("cluster", "frozen", f"{for_ms} ms")
            self.frozen_until_ms = self._world.now_ms + for_ms
            self._world.after(for_ms, self._thaw)

    def _thaw(self) -> None:
        for host in self._hosts.values():
            if not self.is_frozen:
                host.thaw()

    def jump(self, ahead_ms: int) -> None:
        """Move the process clock forward."""
        self._history.add("cluster", "clock put forward", f"{ahead_ms} ms")
        self.clock_ahead_ms += ahead_ms
        for host in self._hosts.values():
            host.handle(Tick())

    def lead(self, partition: TopicPartition, number: int) -> None:
        """Make a node the leader of a partition, unless the node is down."""
        self._administer(f"node {number} leads {partition}", lambda cluster: self._lead(cluster, partition, number))

    def _lead(self, cluster: Cluster, partition: TopicPartition, number: int) -> None:
        topic = cluster.topics.get(partition.topic)
        if topic is not None and number in cluster.live:
            cluster.lead(topic, partition.partition, number)

    def stop_node(self, number: int) -> None:
        """Stop a node, unless it is the last running one."""
        self._administer(f"node {number} stops", lambda cluster: self._want(cluster, number, up=False))

    def start_node(self, number: int) -> None:
        """Start a stopped node; a frozen process does so after its freeze."""
        if self.is_frozen:
            self._world.after(self.frozen_until_ms - self._world.now_ms, lambda: self.start_node(number))
            return
        self._administer(f"node {number} shall be up", lambda cluster: self._want(cluster, number, up=True))

    def _want(self, cluster: Cluster, number: int, *, up: bool) -> None:
        if up or cluster.wanted != {number}:
            cluster.want(number, up=up)

    def _administer(self, what: str, act: Callable[[Cluster], None]) -> None:
        cluster = self.cluster
        if cluster is None or self.is_frozen:
            return
        try:
            act(cluster)
        except ProcessDied:
            self.dies()
            return
        except ApiError as error:
            what += f": refused: {error}"
        self._history.add("cluster", what)
        self._start_and_end_nodes()

    @property
    def partitions(self) -> list[TopicPartition]:
        """All partitions, including internal topics."""
        topics = self.cluster.topics if self.cluster is not None else ()
        return [TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))]

    def leader_of(self, partition: TopicPartition) -> Broker | None:
        """Return the machine that leads a partition, or None."""
        cluster = self.cluster
        topic = cluster.topics.get(partition.topic) if cluster is not None else None
        if cluster is None or topic is None or not cluster.has_place(topic, partition.partition):
            return None
        number = cluster.leader_of(topic, partition.partition)
        host = self._hosts.get(number)
        if host is None or host.broker is None or cluster.inbox(number):
            return None
        return host.broker

    def after_event(self) -> None:
        """Schedule a turn for nodes with new cluster events."""
        if self.cluster is not None and not self._will_look and self._has_work(self.cluster):
            self._will_look = True
            self._world.after(0, self._start_and_end_nodes)

    def _up(self) -> set[int]:
        return {number for number, host in self._hosts.items() if host.broker is not None}

    def _has_work(self, cluster: Cluster) -> bool:
        return cluster.has_messages or cluster.wanted != self._up()

    def _start_and_end_nodes(self) -> None:
        self._will_look = False
        if self.cluster is None:
            return
        for number in sorted(self._up() - self.cluster.wanted):
            self._end_node(number)
        for number in sorted(self.cluster.wanted - self._up() - self._starting):
            self._starting.add(number)
            self._start_later(self.cluster, number)
        for host in self._hosts.values():
            host.arm()
        self._watcher.leaders_moved()

    def _end_node(self, number: int) -> None:
        host = self._hosts[number]
        assert host.broker is not None
        self._history.add(f"node {number}", "stopped")
        try:
            host.broker.close(self.now_ms)
        except ProcessDied:
            self.dies()
            return
        host.end()

    def _start_later(self, cluster: Cluster, number: int) -> None:
        self._world.after(self._rng.randint(*RESTART_MS), lambda: self._start_node(cluster, number))

    def _start_node(self, cluster: Cluster, number: int) -> None:
        """Start a node in the order of ``aio``: machine, listener, registration."""
        if self.cluster is not cluster:
            return
        if number not in cluster.wanted:
            self._starting.discard(number)
            return
        try:
            broker = self._broker(cluster, number)
            self._hosts[number].begin(broker)
            cluster.nodes_are_up([number])
        except ProcessDied:
            self.dies()
            return
        self._starting.discard(number)
        self._history.add(f"node {number}", "serves again")
        self._start_and_end_nodes()

    def committed(self, group_id: str, partition: int) -> dict[TopicPartition, int]:
        """Return the group's committed offsets in its coordinator; ``partition``: of ``__consumer_offsets``."""
        leader = self.leader_of(TopicPartition(OFFSETS_TOPIC, partition))
        offsets = leader.state.coordinator.committed(group_id) if leader is not None else None
        return {TopicPartition(t, p): value.offset for t, p, value in offsets or ()}
