"""A cluster at one moment, and its rows by the names, labels and meaning of kafka_exporter (danielqsj/kafka_exporter,
``offset.show-all``).

Of a topic of which a group has committed anything kafka_exporter shows all partitions: those without a commit with -1,
as offset and as lag. The sum of offsets has these -1 in it, the sum of lags has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from kohort.insight.snapshot import GroupSnapshot, PartitionSnapshot
from kohort.metrics.page import Page


class BrokerPlace(msgspec.Struct, frozen=True):
    """A broker, and where it is."""

    node_id: int
    address: str
    """``host:port``."""


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a topic; unknown is None."""

    partition: int
    leader: int | None = None
    replicas: int | None = None
    in_sync: int | None = None
    first_replica: int | None = None
    log_start: int | None = None
    log_end: int | None = None


class TopicState(msgspec.Struct, frozen=True):
    """A topic."""

    name: str
    partitions: tuple[PartitionState, ...]


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that is asked of a cluster at once."""

    at_ms: int
    cluster_id: str = ""
    brokers: tuple[BrokerPlace, ...] = ()
    topics: tuple[TopicState, ...] = ()
    groups: tuple[GroupSnapshot, ...] = ()
    took_ms: float = 0.0


NONE = -1


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
    """Return how many partitions each topic has."""
    return {topic.name: len(topic.partitions) for topic in cluster.topics}


def add_committed(page: Page, group: GroupSnapshot, counts: Mapping[str, int], most: int) -> None:
    left = most
    for topic, committed in sorted(_by_topic(group, counts).items()):
        for partition in range(min(left, counts[topic])):
            this = committed.get(partition)
            place = (group.group, topic, partition)
            page.add("kafka_consumergroup_current_offset", _committed(this), *place)
            page.add("kafka_consumergroup_lag", _lag(this), *place)
            left -= 1


def add_topic_partitions(page: Page, topic: TopicState) -> None:
    for this in topic.partitions:
        place = (topic.name, this.partition)
        page.add("kafka_topic_partition_leader", this.leader, *place)
        page.add("kafka_topic_partition_current_offset", this.log_end, *place)
        page.add("kafka_topic_partition_oldest_offset", this.log_start, *place)
        page.add("kafka_topic_partition_replicas", this.replicas, *place)
        page.add("kafka_topic_partition_in_sync_replica", this.in_sync, *place)
        page.add("kafka_topic_partition_leader_is_preferred", int(_is_preferred(this)), *place)
        page.add("kafka_topic_partition_under_replicated_partition", int(_is_under_replicated(this)), *place)


def _by_topic(group: GroupSnapshot, counts: Mapping[str, int]) -> Mapping[str, Mapping[int, PartitionSnapshot]]:
    found: dict[str, dict[int, PartitionSnapshot]] = {}
    for one in group.partitions:
        if one.partition.topic in counts:
            found.setdefault(one.partition.topic, {})[one.partition.partition] = one
    return {topic: of for topic, of in found.items() if any(one.committed is not None for one in of.values())}


def _committed(this: PartitionSnapshot | None) -> int:
    return NONE if this is None or this.committed is None else this.committed


def _lag(this: PartitionSnapshot | None) -> int | None:
    """Return a lag, -1 where nothing is committed, None where the end of the log is not known."""
    if this is None or this.committed is None:
        return NONE
    return None if this.log_end is None else this.log_end - this.committed


def _is_preferred(this: PartitionState) -> bool:
    return this.leader is not None and this.leader == this.first_replica


def _is_under_replicated(this: PartitionState) -> bool:
    return this.replicas is not None and this.in_sync is not None and this.in_sync < this.replicas
