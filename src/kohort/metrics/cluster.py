"""Snapshot of a cluster, and metrics of the cluster that match danielqsj/kafka_exporter.

Names, labels and meaning are those of kafka_exporter with its option ``offset.show-all``: if a group has a commit in a
topic, all partitions of the topic have metrics. A partition without a commit has offset -1 and lag -1. The sum of
offsets includes these -1; the sum of lags does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kohort.insight.snapshot import GroupSnapshot, PartitionSnapshot
from kohort.metrics.page import Page


class BrokerPlace(msgspec.Struct, frozen=True):
    node_id: int
    address: str


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """State of one partition of a topic. Unknown values are None."""

    partition: int
    leader: int | None = None
    replicas: int | None = None
    in_sync: int | None = None
    first_replica: int | None = None
    log_start: int | None = None
    log_end: int | None = None


class TopicState(msgspec.Struct, frozen=True):
    name: str
    partitions: tuple[PartitionState, ...]


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Brokers, topics and groups of a cluster at one moment."""

    at_ms: int
    cluster_id: str = ""
    brokers: tuple[BrokerPlace, ...] = ()
    topics: tuple[TopicState, ...] = ()
    groups: tuple[GroupSnapshot, ...] = ()
    took_ms: float = 0.0


NONE = -1
"""Offset and lag of a partition without a commit, as in kafka_exporter."""


def add_cluster(page: Page, cluster: ClusterSnapshot) -> Iterator[None]:
    page.add("kafka_brokers", len(cluster.brokers))
    for broker in cluster.brokers:
        page.add("kafka_broker_info", 1, broker.node_id, broker.address)
    counts = partition_counts(cluster)
    for topic in cluster.topics:
        page.add("kafka_topic_partitions", len(topic.partitions), topic.name)
    for group in cluster.groups:
        page.add("kafka_consumergroup_members", len(group.members), group.group)
        for name, committed in _by_topic(group, counts).items():
            offsets = [_committed(committed.get(p)) for p in range(counts[name])]
            lags = [_lag(one) for one in committed.values() if one.committed is not None]
            page.add("kafka_consumergroup_current_offset_sum", sum(offsets), group.group, name)
            page.add("kafka_consumergroup_lag_sum", sum(lag for lag in lags if lag is not None), group.group, name)
        yield


def partition_counts(cluster: ClusterSnapshot) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in cluster.topics}


def add_committed(page: Page, group: GroupSnapshot, counts: Mapping[str, int], most: int) -> None:
    left = most
    for topic, committed in sorted(_by_topic(group, counts).items()):
        for number in range(min(left, counts[topic])):
            partition = committed.get(number)
            place = (group.group, topic, number)
            page.add("kafka_consumergroup_current_offset", _committed(partition), *place)
            page.add("kafka_consumergroup_lag", _lag(partition), *place)
            left -= 1


def add_topic_partitions(page: Page, topic: TopicState) -> None:
    for partition in topic.partitions:
        place = (topic.name, partition.partition)
        page.add("kafka_topic_partition_leader", partition.leader, *place)
        page.add("kafka_topic_partition_current_offset", partition.log_end, *place)
        page.add("kafka_topic_partition_oldest_offset", partition.log_start, *place)
        page.add("kafka_topic_partition_replicas", partition.replicas, *place)
        page.add("kafka_topic_partition_in_sync_replica", partition.in_sync, *place)
        is_preferred = partition.leader is not None and partition.leader == partition.first_replica
        page.add("kafka_topic_partition_leader_is_preferred", int(is_preferred), *place)
        replicas, in_sync = partition.replicas, partition.in_sync
        is_under_replicated = replicas is not None and in_sync is not None and in_sync < replicas
        page.add("kafka_topic_partition_under_replicated_partition", int(is_under_replicated), *place)


def _by_topic(group: GroupSnapshot, counts: Mapping[str, int]) -> Mapping[str, Mapping[int, PartitionSnapshot]]:
    found: dict[str, dict[int, PartitionSnapshot]] = {}
    for one in group.partitions:
        if one.partition.topic in counts:
            found.setdefault(one.partition.topic, {})[one.partition.partition] = one
    return {topic: of for topic, of in found.items() if any(one.committed is not None for one in of.values())}


def _committed(partition: PartitionSnapshot | None) -> int:
    return NONE if partition is None or partition.committed is None else partition.committed


def _lag(partition: PartitionSnapshot | None) -> int | None:
    """Return the lag of a partition: -1 without a commit, None if the log end is unknown."""
    if partition is None or partition.committed is None:
        return NONE
    return None if partition.log_end is None else partition.log_end - partition.committed
