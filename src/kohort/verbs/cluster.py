"""Nodes and topics of a cluster, for commands and the console."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition, uuid_to_text
from kohort.results.cluster import NodeRow, TopicAbout, TopicPartitionRow, TopicRow, TopicsListed
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import ConfigEntry, TopicDescription

OFFSETS_TOPIC: Final = "__consumer_offsets"
STOPPED: Final = "kohort.stopped.nodes"
NO_LEADER: Final = -1
STATISTICS: Final = {
    "loads": "kohort.node.group.loads",
    "load_avg_ms": "kohort.node.group.load.avg.ms",
    "load_max_ms": "kohort.node.group.load.max.ms",
    "late_ms": "kohort.node.late.ms",
    "late_max_ms": "kohort.node.late.max.ms",
}
"""Fields of ``NodeRow``, each with the dynamic broker option in which a kohort node reports its value."""


def node_rows(admin: Admin) -> tuple[list[NodeRow], int]:
    """Return a row for each node, running or stopped, and the number of partitions without a leader."""
    described = admin.describe_cluster(timeout_ms=ADMIN_MS)
    topics = all_topics(admin)
    stopped = stopped_nodes(admin) or []
    leads = Counter(p.leader_id for topic in topics for p in topic.partitions)
    groups = Counter(p.leader_id for topic in topics if topic.name == OFFSETS_TOPIC for p in topic.partitions)
    statistics = {node.node_id: _statistics(admin, node.node_id) for node in described.nodes}
    logs = log_statistics(admin)
    found = [
        NodeRow(
            **statistics[node.node_id],
            **logs.get(node.node_id, {"logs_unknown": "the node did not report them"}),
            node=node.node_id,
            address=f"{node.host}:{node.port}",
            state="up",
            leads=leads[node.node_id],
            group_partitions=groups[node.node_id],
            controller=node.node_id == described.controller_id,
        )
        for node in described.nodes
    ]
    found += [
        NodeRow(node=n, address=None, state="stopped", leads=0, group_partitions=0, controller=False, unknown="stopped")
        for n in stopped
    ]
    return found, leads[NO_LEADER]


def _statistics(admin: Admin, node_id: int) -> dict[str, Any]:
    from kohort.client.admin.model import ConfigResource

    node = ConfigResource("broker", str(node_id))
    try:
        options = admin.describe_configs([node], names=STATISTICS.values(), timeout_ms=ADMIN_MS)[node]
    except KohortError as error:
        return {"unknown": f"the node did not answer: {error}"}
    if not options.keys() & set(STATISTICS.values()):
        return {"unknown": "not a kohort broker, or an old one: Apache Kafka reports these statistics only by JMX"}
    return {field: _number(options[name].value) if name in options else None for field, name in STATISTICS.items()}


def log_statistics(admin: Admin) -> dict[int, dict[str, Any]]:
    """Return the fields of ``NodeRow`` about logs and disks, of each broker that answers."""
    try:
        brokers = admin.describe_log_dirs(timeout_ms=ADMIN_MS)
    except KohortError:
        return {}
    found: dict[int, dict[str, Any]] = {}
    for node_id in brokers:
        if node_id in brokers.errors:
            found[node_id] = {"logs_unknown": reason(brokers.errors[node_id])}
            continue
        folders = brokers[node_id]
        if any(folder.error is not None for folder in folders):
            found[node_id] = {"logs_unknown": "a log directory is offline"}
            continue
        found[node_id] = {
            "replicas": sum(len(folder.sizes) for folder in folders),
            "log_bytes": sum(size for folder in folders for size in folder.sizes.values()),
            "disk_bytes": total([folder.total_bytes for folder in folders]),
            "disk_free_bytes": total([folder.usable_bytes for folder in folders]),
        }
    return found


def total(values: Iterable[int | None]) -> int | None:
    """Return the sum of values, None if a value is unknown."""
    found = 0
    for value in values:
        if value is None:
            return None
        found += value
    return found


RIGHTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "DESCRIBE on the cluster",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "DESCRIBE_CONFIGS on the topic",
}


def reason(error: KohortError) -> str:
    """Return the short reason of a missing value: the missing right, or the error."""
    right = RIGHTS.get(error.code) if isinstance(error, ApiError) else None
    return str(error) if right is None else f"the user lacks {right}"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() else None


def listed_topics(admin: Admin, *, internal: bool) -> TopicsListed:
    rows = [
        TopicRow(name=t.name, topic_id=uuid_to_text(t.topic_id), partitions=t.partitions, internal=t.internal)
        for t in admin.list_topics(internal=internal, timeout_ms=ADMIN_MS)
    ]
    return TopicsListed(topics=rows)


def all_topics(admin: Admin) -> list[TopicDescription]:
    names = [topic.name for topic in admin.list_topics(internal=True, timeout_ms=ADMIN_MS)]
    described = admin.describe_topics(names, timeout_ms=ADMIN_MS) if names else {}
    return [described[name] for name in names]


def stopped_nodes(admin: Admin) -> list[int] | None:
    """Return the ids of stopped nodes; None if the brokers have no option ``kohort.stopped.nodes``."""
    from kohort.client.admin.model import ConfigResource

    all_brokers = ConfigResource("broker", "")
    entries = admin.describe_configs([all_brokers], timeout_ms=ADMIN_MS)
    if all_brokers in entries.errors or STOPPED not in entries[all_brokers]:
        return None
    return [int(text) for text in (entries[all_brokers][STOPPED].value or "").split(",") if text]


def describe_topic(admin: Admin, topic: TopicDescription) -> TopicAbout:
    from kohort.client.admin.model import ConfigResource

    partitions = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    starts = admin.list_offsets(dict.fromkeys(partitions, "earliest"), timeout_ms=ADMIN_MS).check()
    ends = admin.list_offsets(dict.fromkeys(partitions, "latest"), timeout_ms=ADMIN_MS).check()
    resource = ConfigResource("topic", topic.name)
    configs: dict[str, ConfigEntry] = admin.describe_configs([resource], timeout_ms=ADMIN_MS).check()[resource]
    return TopicAbout(
        name=topic.name,
        topic_id=uuid_to_text(topic.topic_id),
        internal=topic.internal,
        configs={name: c.value for name, c in sorted(configs.items()) if not c.is_default},
        partitions=[
            TopicPartitionRow(
                partition=p.partition,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=list(p.replicas),
                isr=list(p.isr),
                log_start_offset=starts[tp].offset,
                log_end_offset=ends[tp].offset,
            )
            for p, tp in zip(topic.partitions, partitions, strict=True)
        ],
    )
