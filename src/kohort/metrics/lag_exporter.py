"""The metrics of kafka-lag-exporter, by its names and labels (seglo/kafka-lag-exporter). ``cluster_name`` is the
cluster's id. Its lag in seconds is interpolated; ours is the age of the first record that is yet to be read."""

from __future__ import annotations

from kohort.metrics.cluster import TopicState
from kohort.metrics.group_families import first_lags
from kohort.metrics.group_views import GroupView
from kohort.metrics.page import Page

UNKNOWN = "unknown"
"""What it writes of a partition that nobody has."""
GROUP = "kafka_consumergroup_group_"


def add_group(page: Page, cluster: str, view: GroupView) -> None:
    """Add what is of a group, and of each topic that it reads."""
    total, name = view.lag.total, view.now.group
    records = [one.records for one in view.lag.partitions if one.records is not None and one.counts]
    page.add(f"{GROUP}max_lag", max(records, default=None), cluster, name)
    page.add(f"{GROUP}sum_lag", total.records, cluster, name)
    page.add(f"{GROUP}max_lag_seconds", None if total.time_ms is None else total.time_ms / 1000, cluster, name)
    for topic, sums in sorted(view.lag.topics.items()):
        page.add(f"{GROUP}topic_sum_lag", sums.records, cluster, name, topic)


def add_group_partitions(page: Page, cluster: str, view: GroupView, most: int) -> None:
    """Add the offsets and lags of a group's partitions, of ``most`` of them, with who has each."""
    for one in first_lags(view, most):
        owner = one.owner
        who = (UNKNOWN,) * 3 if owner is None else (owner.host, owner.member_id, owner.client_id)
        place = (cluster, view.now.group, one.partition.topic, one.partition.partition, *who)
        page.add(f"{GROUP}offset", one.at.committed, *place)
        page.add(f"{GROUP}lag", one.records, *place)
        page.add(f"{GROUP}lag_seconds", None if one.time_ms is None else one.time_ms / 1000, *place)


def add_topic_partitions(page: Page, cluster: str, topic: TopicState) -> None:
    """Add where the logs of a topic begin and end."""
    for this in topic.partitions:
        page.add("kafka_partition_latest_offset", this.log_end, cluster, topic.name, this.partition)
        page.add("kafka_partition_earliest_offset", this.log_start, cluster, topic.name, this.partition)
