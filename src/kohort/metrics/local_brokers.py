"""Snapshot of all brokers of this process. Their event loop copies the state in pieces of half a millisecond.

Between two pieces the event loop serves clients. Other threads read the finished snapshot, which never changes.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.loop_stalls import LoopLag
from kohort.aio.serving.server import Server, address_of
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.placement import NO_LEADER, Placement
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.records import moved_entry
from kohort.insight.snapshot import GroupSnapshot
from kohort.log.partition import PartitionLog
from kohort.metrics.broker_families import BrokerCopy, ProcessCopy, copy_counters
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.metrics.coordinated_groups import YIELD_EVERY, CoordinatedGroups
from kohort.metrics.exposition import YOUNGEST
from kohort.steps import Steps

MOMENT_NS: Final = 500_000


@dataclass(frozen=True, slots=True)
class BrokersSnapshot:
    cluster: ClusterSnapshot
    brokers: Sequence[BrokerCopy]
    process: ProcessCopy


class LocalBrokers:
    def __init__(self, server: Server | ClusterServer, now_ms: Callable[[], int]) -> None:
        """Start to collect journal entries and to measure the delay of the event loop. Call it on the event loop."""
        self._server = server
        self._now_ms = now_ms
        self._groups: dict[int, tuple[Server, CoordinatedGroups]] = {}
        self._collected: deque[tuple[int, list[JournalEntry]]] = deque()
        """For each snapshot: difference in ms from the entries' clock to wall-clock time, and journal entries."""
        self._collecting: list[Server] = []
        """Broker nodes that run now, or ran at the last snapshot. Their journal entries are collected."""
        self._lag = LoopLag(asyncio.get_running_loop())
        for live in self._live():
            self._collect_from(live)
        if isinstance(server, ClusterServer):
            server.on_node = self._collect_from

    def end(self) -> None:
        self._lag.end()
        if isinstance(self._server, ClusterServer):
            self._server.on_node = None
        for server in self._collecting:
            server.broker.state.counters.keeps_entries = False

    def take_entries(self) -> Iterator[JournalEntry]:
        """Yield the journal entries up to the last snapshot, each entry once. A failed snapshot loses no entry.

        Do not call it on the event loop: converting the times of 20,000 entries takes a fifth of a second.
        """
        while self._collected:
            ahead_ms, entries = self._collected.popleft()
            entries.sort(key=lambda entry: entry.at_ms)  # a group that moved to another node has entries on both nodes
            for entry in entries:
                yield moved_entry(entry, ahead_ms)

    def _collect_from(self, server: Server) -> None:
        server.broker.state.counters.keeps_entries = True
        self._collecting.append(server)

    def _live(self) -> list[Server]:
        return list(self._server.servers.values()) if isinstance(self._server, ClusterServer) else [self._server]

    def _collect(self, live: Collection[Server], ahead_ms: int) -> None:
        """Collect the new journal entries of all broker nodes. Nodes that are not in ``live`` are then forgotten."""
        taken = [entry for server in self._collecting for entry in server.broker.state.counters.take_entries()]
        self._collected.append((ahead_ms, taken))
        self._collecting = [server for server in self._collecting if server in live]

    async def snapshot(self) -> BrokersSnapshot:
        """Copy the state of all brokers in steps; clients are served between the steps. Call it on the event loop."""
        steps = self._steps()
        while True:
            until = time.perf_counter_ns() + MOMENT_NS
            try:
                while time.perf_counter_ns() < until:
                    next(steps)
            except StopIteration as end:
                snapshot: BrokersSnapshot = end.value
                return snapshot
            gc.collect(YOUNGEST)
            await asyncio.sleep(0)

    def _steps(self) -> Steps[BrokersSnapshot]:
        began_ns, at_ms = time.perf_counter_ns(), self._now_ms()
        live = self._live()
        server = self._server
        cluster = server.cluster if isinstance(server, ClusterServer) else server.broker.state.cluster
        process = ProcessCopy(
            replace(cluster.topics.counters),
            flushes=None if self._server.flushes is None else self._server.flushes.copy(),
            loop_lag=self._lag.lag.copy(),
        )
        topics = yield from self._topics(cluster, process)
        groups: list[GroupSnapshot] = []
        copies: list[BrokerCopy] = []
        self._collect(live, cluster.wall.ahead_ms)
        for server in live:
            copy = copy_counters(server.broker, server.failed_handshakes)
            copies.append(copy)
            yield
            for found in self._groups_of(server).snapshots(at_ms):
                if found is not None:
                    groups.append(found)
                    copy.groups[found.protocol, found.state] += 1
                    copy.offsets += sum(1 for one in found.partitions if one.committed is not None)
                yield
        names = {one.group for one in groups}
        for server, copy in zip(live, copies, strict=True):
            yield from _copy_fenced(server, copy, names)
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
        return BrokersSnapshot(snapshot, copies, process)

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
                if len(partitions) % YIELD_EVERY == 0:
                    yield
            made.append(TopicState(topic.name, tuple(partitions)))
            yield
        return made

    def _groups_of(self, server: Server) -> CoordinatedGroups:
        node = server.broker.node.node_id
        known = self._groups.get(node)
        if known is None or known[0] is not server:
            known = self._groups[node] = server, CoordinatedGroups(server.broker.state)
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
    instances = server.broker.state.client_metrics.instances
    for many, report in enumerate(list(instances.reports(now_ms))):
        copy.reports.append(report)
        if many % YIELD_EVERY == YIELD_EVERY - 1:
            yield


def _copy_fenced(server: Server, copy: BrokerCopy, groups: Container[str]) -> Iterator[None]:
    """Copy the counts of rejected requests of each group; delete the counts of deleted groups."""
    counted = server.broker.state.coordinator.fenced
    counted.keep(groups)
    yield
    for many, (name, kinds) in enumerate(list(counted.by_group.items())):
        copy.fenced_in[name] = dict(kinds)
        if many % YIELD_EVERY == YIELD_EVERY - 1:
            yield
