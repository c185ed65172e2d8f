"""A look at all brokers of this process, taken on their loop a moment at a time, with others served in between.

Whoever wants a page asks from another thread (``OwnState.look``); what it gets are values that nobody changes any more.
A moment is half a millisecond, by the clock.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.aio.serving.cluster_server import ClusterServer
from kohort.aio.serving.loop_lag import LoopLag
from kohort.aio.serving.server import Server, address_of
from kohort.broker.cluster.cluster import Cluster
from kohort.broker.cluster.placement import NO_LEADER, Placement
from kohort.coordinator.journal import JournalEntry
from kohort.insight.snapshot import GroupSnapshot
from kohort.log.partition import PartitionLog
from kohort.metrics.broker_copy import BrokerCopy, ProcessCopy, copy_of
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.metrics.own_groups import AT_ONCE, OwnGroups
from kohort.steps import Steps

MOMENT_NS: Final = 500_000


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found."""

    cluster: ClusterSnapshot
    brokers: Sequence[BrokerCopy]
    process: ProcessCopy
    entries: Sequence[JournalEntry]
    """Of the journal, since the look before."""


class OwnState:
    """The brokers of a process, for whoever looks again and again."""

    def __init__(self, server: Server | ClusterServer, now_ms: Callable[[], int]) -> None:
        """Begin to keep journal entries, and to measure the loop. Called on the loop."""
        self._server = server
        self._now_ms = now_ms
        self._groups: dict[int, tuple[Server, OwnGroups]] = {}
        self._lag = LoopLag(asyncio.get_running_loop())
        self._live()

    def end(self) -> None:
        """Measure and keep nothing any more."""
        self._lag.end()
        for server in self._live():
            server.broker.state.counters.wants_entries = False

    def _live(self) -> list[Server]:
        """Return the nodes that are up; their journals' entries are kept from now on."""
        live = list(self._server.servers.values()) if isinstance(self._server, ClusterServer) else [self._server]
        for server in live:
            server.broker.state.counters.wants_entries = True
        return live

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
            await asyncio.sleep(0)

    def _steps(self) -> Steps[Looked]:
        began_ns, at_ms = time.perf_counter_ns(), self._now_ms()
        live = self._live()
        server = self._server
        cluster = server.cluster if isinstance(server, ClusterServer) else server.broker.state.cluster
        process = ProcessCopy(cluster.topics.counters, flushes=self._server.flushes, loop_lag=self._lag.lag.copy())
        topics = yield from self._topics(cluster, process)
        groups: list[GroupSnapshot] = []
        copies: list[BrokerCopy] = []
        entries: list[JournalEntry] = []
        for server in live:
            state = server.broker.state
            entries += state.counters.take_entries()
            copy = copy_of(server.broker, server.failed_handshakes)
            copies.append(copy)
            yield
            for found in self._groups_of(server).look(at_ms):
                if found is not None:
                    groups.append(found)
                    copy.groups[found.protocol, found.state] += 1
                    copy.offsets += sum(1 for one in found.partitions if one.committed is not None)
                yield
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
        return Looked(snapshot, copies, process, entries)

    def _topics(self, cluster: Cluster, process: ProcessCopy) -> Steps[list[TopicState]]:
        """Return the topics, and count their logs."""
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
