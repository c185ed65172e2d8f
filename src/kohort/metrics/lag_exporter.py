"""The metrics of kafka-lag-exporter, by its names and labels (seglo/kafka-lag-exporter). ``cluster_name`` is the
cluster's id. Its lag in seconds is interpolated; ours is the age of the first record that is yet to be read."""

from __future__ import annotations

from collections import Counter

from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.metrics.cluster import TopicState
from kohort.metrics.group_families import first_partitions, lag_of
from kohort.metrics.page import Page
from kohort.model import TopicPartition

GROUP = "kafka_consumergroup_group_"


def add_group(page: Page, cluster: str, group: GroupSnapshot) -> None:
    """Add what is of a group, and of each topic that it reads."""
    lags = [(one.partition.topic, lag_of(one, group.at_ms)) for one in group.partitions]
    known = [(topic, lag.records) for topic, lag in lags if lag.records is not None]
    if known:
        page.add(f"{GROUP}max_lag", max(records for _, records in known), cluster, group.group)
        page.add(f"{GROUP}sum_lag", sum(records for _, records in known), cluster, group.group)
    seconds = [lag.seconds for _, lag in lags if lag.seconds is not None]
    page.add(f"{GROUP}max_lag_seconds", max(seconds, default=None), cluster, group.group)
    sums: Counter[str] = Counter()
    for topic, records in known:
        sums[topic] += records
    for topic in sorted(sums):
        page.add(f"{GROUP}topic_sum_lag", sums[topic], cluster, group.group, topic)


def add_group_partitions(page: Page, cluster: str, group: GroupSnapshot, most: int) -> None:
    """Add the offsets and lags of a group's partitions, of ``most`` of them, with who has each."""
    owners: dict[TopicPartition, MemberSnapshot] = {p: member for member in group.members for p in member.assignment}
    for one in first_partitions(group, most):
        owner = owners.get(one.partition)
        who = ("", "", "") if owner is None else (owner.host, owner.member_id, owner.client_id)
        place = (cluster, group.group, one.partition.topic, one.partition.partition, *who)
        lag = lag_of(one, group.at_ms)
        page.add(f"{GROUP}offset", one.committed, *place)
        page.add(f"{GROUP}lag", lag.records, *place)
        page.add(f"{GROUP}lag_seconds", lag.seconds, *place)


def add_topic_partitions(page: Page, cluster: str, topic: TopicState) -> None:
    """Add where the logs of a topic begin and end."""
    for this in topic.partitions:
        page.add("kafka_partition_latest_offset", this.log_end, cluster, topic.name, this.partition)
        page.add("kafka_partition_earliest_offset", this.log_start, cluster, topic.name, this.partition)
