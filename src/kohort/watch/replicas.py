"""Where the replicas of partitions are: their nodes, and the racks of these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.insight.what_if.losing import OFFSETS_TOPIC, ClusterPlaces, PartitionPlace
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin


def racks_of(admin: Admin, topics: Iterable[str], *, timeout_ms: int) -> dict[TopicPartition, frozenset[str]]:
    """Return the racks that hold a replica of each partition; nothing where brokers of the cluster have no racks."""
    racks = {node.node_id: node.rack for node in admin.describe_cluster(timeout_ms=timeout_ms).nodes if node.rack}
    wanted = sorted(topics)
    if not racks or not wanted:
        return {}
    told = admin.describe_topics(wanted, timeout_ms=timeout_ms)
    return {
        TopicPartition(name, p.partition): frozenset(racks[node] for node in p.replicas if node in racks)
        for name in told
        if name not in told.errors
        for p in told[name].partitions
    }


def places_of(admin: Admin, topics: Iterable[str], *, timeout_ms: int) -> ClusterPlaces:
    """Return where the partitions of these topics are, and those of groups; of topics that are there."""
    hosts = {node.node_id: node.host for node in admin.describe_cluster(timeout_ms=timeout_ms).nodes}
    told = admin.describe_topics(sorted({*topics, OFFSETS_TOPIC}), timeout_ms=timeout_ms)
    known = [told[name] for name in told if name not in told.errors]
    places = {
        TopicPartition(topic.name, p.partition): PartitionPlace(p.leader_id, p.replicas, p.isr)
        for topic in known
        for p in topic.partitions
    }
    return ClusterPlaces(places, hosts, sum(tp.topic == OFFSETS_TOPIC for tp in places))
