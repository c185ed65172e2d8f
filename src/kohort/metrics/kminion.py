"""The metrics of groups that kminion has, by its names and labels (redpanda-data/kminion).

``kminion_kafka_consumer_group_offset_commits_total`` is left out: kminion counts records of ``__consumer_offsets``,
which a snapshot does not tell.
"""

from __future__ import annotations

from collections import Counter

from kohort.metrics.group_families import first_lags
from kohort.metrics.group_views import GroupView
from kohort.metrics.page import Page

GROUP = "kminion_kafka_consumer_group_"


def add_group(page: Page, view: GroupView) -> None:
    """Add what is of a group, and of each topic that it reads."""
    group, name = view.now, view.now.group
    coordinator = "" if group.coordinator_id is None else group.coordinator_id
    about = (group.assignor or "", group.protocol_type, group.state, coordinator)
    page.add(f"{GROUP}info", int(group.state == "Stable"), name, *about)
    page.add(f"{GROUP}members", len(group.members), name)
    page.add(f"{GROUP}empty_members", sum(1 for member in group.members if not member.assignment), name)
    assigned = Counter(place.topic for member in group.members for place in member.assignment)
    readers = Counter(topic for member in group.members for topic in {place.topic for place in member.assignment})
    for topic in sorted(assigned):
        page.add(f"{GROUP}topic_members", readers[topic], name, topic)
        page.add(f"{GROUP}topic_assigned_partitions", assigned[topic], name, topic)
    offsets, lags = Counter[str](), Counter[str]()
    for one in view.lag.partitions:
        if one.at.committed is not None and one.records is not None:
            offsets[one.partition.topic] += one.at.committed
            lags[one.partition.topic] += one.records
    for topic in sorted(offsets):
        page.add(f"{GROUP}topic_offset_sum", offsets[topic], name, topic)
        page.add(f"{GROUP}topic_lag", lags[topic], name, topic)


def add_group_partitions(page: Page, view: GroupView, most: int) -> None:
    """Add the lag of a group's partitions, of ``most`` of them."""
    for one in first_lags(view, most):
        place = (view.now.group, one.partition.topic, one.partition.partition)
        page.add(f"{GROUP}topic_partition_lag", one.records, *place)
