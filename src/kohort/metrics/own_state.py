"""A look at all brokers of this process, taken on their loop a moment at a time, with others served in between.

Whoever wants a page asks from another thread (``OwnState.look``); what it gets are values that nobody changes any more.
A moment is half a millisecond, by the clock.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.pulse import LoopLag
from kohort.aio.serving.server import Server, address_of
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.placement import NO_LEADER, Placement
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.records import moved_entry
from kohort.insight.snapshot import GroupSnapshot
from kohort.log.partition import PartitionLog
from kohort.metrics.broker_families import BrokerCopy, ProcessCopy, copy_of
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.metrics.exposition import YOUNGEST
from kohort.metrics.own_groups import AT_ONCE, OwnGroups
from kohort.steps import Steps

MOMENT_NS: Final = 500_000


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found."""

    cluster: ClusterSnapshot
    brokers: Sequence[BrokerCopy]
    process: ProcessCopy


class OwnState:
    """The brokers of a process, for whoever looks again and again."""

    def __init__(self, server: Server | ClusterServer, now_ms: Callable[[], int]) -> None:
        """Begin to keep journal entries, and to measure the loop. Called on the loop."""
        self._server = server
        self._now_ms = now_ms
        self._groups: dict[int, tuple[Server, OwnGroups]] = {}
        self._collected: deque[tuple[int, list[JournalEntry]]] = deque()
        """Journal entries of each look, and by how much their times are to be moved."""
        self._heard: list[Server] = []
        """Nodes whose entries are kept: those that are up, and those that were when somebody looked last."""
        self._lag = LoopLag(asyncio.get_running_loop())
        for live in self._live():
            self._hear(live)
        if isinstance(server, ClusterServer):
            server.on_node = self._hear

    def end(self) -> None:
        """Measure and keep nothing any more."""
        self._lag.end()
        if isinstance(self._server, ClusterServer):
            self._server.on_node = None
        for server in self._heard:
            server.broker.state.counters.wants_entries = False

    def take_entries(self) -> Iterator[JournalEntry]:
        """Yield the journal's entries up to the last look, whatever became of it, in order, each once.

        Called on another thread than the loop: to move the times of 20,000 entries takes a fifth of a second.
        """
        while self._collected:
            ahead_ms, entries = self._collected.popleft()
            entries.sort(key=lambda entry: entry.at_ms)  # a group may have moved from one node to another
            for entry in entries:
                yield moved_entry(entry, ahead_ms)

    def _hear(self, server: Server) -> None:
        server.broker.state.counters.wants_entries = True
        self._heard.append(server)

    def _live(self) -> list[Server]:
        return list(self._server.servers.values()) if isinstance(self._server, ClusterServer) else [self._server]

    def _collect(self, live: Collection[Server], ahead_ms: int) -> None:
        """Take what all nodes have told since; of those that are down it is the last."""
        taken = [entry for server in self._heard for entry in server.broker.state.counters.take_entries()]
        self._collected.append((ahead_ms, taken))
        self._heard = [server for server in self._heard if server in live]

    async def look(self) -> Looked:
        """Look at everything, with others served in between. Called on the loop of the brokers."""
        steps = self._steps()
        while True:
            until = time.perf_counter_ns() + MOMENT_NS
            try:
                while time.perf_counter_ns() < until:
                    next(steps)
            except StopIteration as end:
                looked: Looked = end.value
                return looked
            gc.collect(YOUNGEST)
            await asyncio.sleep(0)

    def _steps(self) -> Steps[Looked]:
        began_ns, at_ms = time.perf_counter_ns(), self._now_ms()
        live = self._live()
        server = self._server
        cluster = server.cluster if isinstance(server, ClusterServer) else server.broker.state.cluster
        process = ProcessCopy(
            cluster.topics.counters.copy(),
            flushes=None if self._server.flushes is None else self._server.flushes.copy(),
            loop_lag=self._lag.lag.copy(),
        )
        topics = yield from self._topics(cluster, process)
        groups: list[GroupSnapshot] = []
        copies: list[BrokerCopy] = []
        self._collect(live, cluster.wall.ahead_ms)
        for server in live:
            copy = copy_of(server.broker, server.failed_handshakes)
            copies.append(copy)
            yield
            for found in self._groups_of(server).look(at_ms):
                if found is not None:
                    groups.append(found)
                    copy.groups[found.protocol, found.state] += 1
                    copy.offsets += sum(1 for one in found.partitions if one.committed is not None)
                yield
        there = {one.group for one in groups}
        for server, copy in zip(live, copies, strict=True):
            yield from _copy_fenced(server, copy, there)
            if server.broker.state.config.metrics_clients:
                yield from _copy_reports(server, copy, at_ms - cluster.wall.ahead_ms)
        took_ms = (time.perf_counter_ns() - began_ns) / 1e6
        nodes = [cluster.nodes[node_id] for node_id in sorted(cluster.live)]
        snapshot = ClusterSnapshot(
            at_ms=at_ms,
            cluster_id=cluster.topics.cluster_id,
            brokers=tuple(BrokerPlace(node.node_id, address_of(node.first)) for node in nodes),
            topics=tuple(topics),
            groups=tuple(groups),
            took_ms=took_ms,
        )
        return Looked(snapshot, copies, process)

    def _topics(self, cluster: Cluster, process: ProcessCopy) -> Steps[list[TopicState]]:
        made: list[TopicState] = []
        for topic in list(cluster.topics):
            process.topics += 1
            places = cluster.placements(topic)
            partitions: list[PartitionState] = []
            for log, place in zip(list(topic.partitions), list(places), strict=False):
                partitions.append(_partition(log, place, cluster.live))
                process.partitions += 1
                process.segments += len(log.segments)
                process.size_bytes += log.size_bytes
                if len(partitions) % AT_ONCE == 0:
                    yield
            made.append(TopicState(topic.name, tuple(partitions)))
            yield
        return made

    def _groups_of(self, server: Server) -> OwnGroups:
        """Return what looks at the groups of a node; one that was started anew is another."""
        node = server.broker.node.node_id
        known = self._groups.get(node)
        if known is None or known[0] is not server:
            known = self._groups[node] = server, OwnGroups(server.broker.state)
        return known[1]


def _partition(log: PartitionLog, place: Placement, live: Collection[int]) -> PartitionState:
    return PartitionState(
        partition=log.tp.partition,
        leader=None if place.leader == NO_LEADER else place.leader,
        replicas=len(place.replicas),
        in_sync=len(place.in_sync(live)),
        first_replica=place.replicas[0] if place.replicas else None,
        log_start=log.log_start_offset,
        log_end=log.high_watermark,
    )


def _copy_reports(server: Server, copy: BrokerCopy, now_ms: int) -> Iterator[None]:
    """Copy what clients pushed last; some may come and go meanwhile."""
    instances = server.broker.state.client_metrics.instances
    for many, report in enumerate(list(instances.reports(now_ms))):
        copy.reports.append(report)
        if many % AT_ONCE == AT_ONCE - 1:
            yield


def _copy_fenced(server: Server, copy: BrokerCopy, groups: Container[str]) -> Iterator[None]:
    """Copy which requests were refused, of groups that are there yet; of others it is forgotten."""
    counted = server.broker.state.coordinator.fenced
    counted.keep(groups)
    yield
    for many, (name, kinds) in enumerate(list(counted.by_group.items())):
        copy.fenced_in[name] = dict(kinds)
        if many % AT_ONCE == AT_ONCE - 1:
            yield
