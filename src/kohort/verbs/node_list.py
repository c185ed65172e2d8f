"""The nodes of a cluster, and what each leads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kohort.results.cluster import NodeRow
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import TopicDescription

OFFSETS_TOPIC: Final = "__consumer_offsets"
STOPPED: Final = "kohort.stopped.nodes"
NOBODY: Final = -1


def nodes_of(admin: Admin) -> tuple[list[NodeRow], int]:
    """Return the nodes, those that are stopped too, and how many partitions have no leader."""
    described = admin.describe_cluster(timeout_ms=ADMIN_MS)
    topics = all_topics(admin)
    stopped = stopped_nodes(admin) or []
    leads = Counter(p.leader_id for topic in topics for p in topic.partitions)
    groups = Counter(p.leader_id for topic in topics if topic.name == OFFSETS_TOPIC for p in topic.partitions)
    found = [
        NodeRow(
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
        NodeRow(node=n, address=None, state="stopped", leads=0, group_partitions=0, controller=False) for n in stopped
    ]
    return found, leads[NOBODY]


def all_topics(admin: Admin) -> list[TopicDescription]:
    """Return all topics, those of the brokers themselves too."""
    names = [topic.name for topic in admin.list_topics(internal=True, timeout_ms=ADMIN_MS)]
    described = admin.describe_topics(names, timeout_ms=ADMIN_MS) if names else {}
    return [described[name] for name in names]


def stopped_nodes(admin: Admin) -> list[int] | None:
    """Return the nodes that are stopped; None where the cluster has no such option."""
    from kohort.client.admin.model import ConfigResource

    everyone = ConfigResource("broker", "")
    entries = admin.describe_configs([everyone], timeout_ms=ADMIN_MS)
    if everyone in entries.errors or STOPPED not in entries[everyone]:
        return None
    return [int(text) for text in (entries[everyone][STOPPED].value or "").split(",") if text]
