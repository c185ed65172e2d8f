"""A look at a whole cluster of anybody's: its brokers, its topics with their ends, its groups."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.model import TopicPartition
from kohort.watch.sampling import READABLE, SamplingLimits, heard_groups, sample_groups

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import LogEnds, TopicDescription
    from kohort.client.admin.operations import Results

NO_NODE = -1


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """What was found, and what could not be asked about."""

    cluster: ClusterSnapshot
    errors: dict[str, KohortError] = field(default_factory=dict)
    """Of groups, by name; of brokers that did not tell their groups, as ``broker 3``."""


def look_at_cluster(admin: Admin, limits: SamplingLimits) -> ClusterLook:
    """Ask a cluster for everything that a page of metrics has.

    Groups and topics that must not be described are left out; groups with why. Raises what an admin client raises where
    no broker answers.
    """
    began = time.monotonic()
    about = admin.describe_cluster(timeout_ms=limits.timeout_ms)
    names = [topic.name for topic in admin.list_topics(internal=True, timeout_ms=limits.timeout_ms)]
    described = admin.describe_topics(names, timeout_ms=limits.timeout_ms)
    topics = [described[name] for name in sorted(names) if name not in described.errors]
    places = [
        TopicPartition(topic.name, one.partition) for topic in topics for one in topic.partitions if one.leader_id >= 0
    ]
    ends = admin.list_ends(places, timeout_ms=limits.timeout_ms)
    listed = heard_groups(admin, limits.timeout_ms)
    sample = sample_groups(admin, [one.group_id for one in listed.groups if one.group_type in READABLE], limits)
    unheard = {f"broker {node_id}": error for node_id, error in listed.errors.items()}
    snapshot = ClusterSnapshot(
        at_ms=time.time_ns() // 1_000_000,
        cluster_id=about.cluster_id,
        brokers=tuple(BrokerPlace(node.node_id, f"{node.host}:{node.port}") for node in about.nodes),
        topics=tuple(_topic(topic, ends) for topic in topics),
        groups=tuple(sample.groups),
        took_ms=(time.monotonic() - began) * 1000,
    )
    return ClusterLook(snapshot, unheard | sample.errors)


def _topic(topic: TopicDescription, ends: Results[TopicPartition, LogEnds]) -> TopicState:
    parts = []
    for one in topic.partitions:
        place = TopicPartition(topic.name, one.partition)
        known = None if place in ends.errors or one.leader_id == NO_NODE else ends[place]
        parts.append(
            PartitionState(
                partition=one.partition,
                leader=None if one.leader_id == NO_NODE else one.leader_id,
                replicas=len(one.replicas),
                in_sync=len(one.isr),
                first_replica=one.replicas[0] if one.replicas else None,
                log_start=None if known is None else known.log_start,
                log_end=None if known is None else known.log_end,
            )
        )
    return TopicState(topic.name, tuple(parts))
