"""What groups would do without a node: the nodes and the groups are looked at, and nothing is executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.results.groups import NodeWhatIf
from kohort.verbs.refusals import NothingThere
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.insight.snapshot import GroupSnapshot


def check_node(admin: Admin, node: int) -> None:
    """Raise NothingThere, naming those that are there, for a node that is not."""
    nodes = [one.node_id for one in admin.describe_cluster(timeout_ms=ADMIN_MS).nodes]
    if node not in nodes:
        raise NothingThere(f"there is no node {node}; there are: {', '.join(map(str, sorted(nodes)))}")


def without_node(admin: Admin, node: int, snapshots: Sequence[GroupSnapshot]) -> NodeWhatIf:
    """Return what the groups that were looked at would do without a node."""
    from kohort.insight.what_if.losing import lose_node
    from kohort.watch.sampling import places_of

    topics = {p.partition.topic for snapshot in snapshots for p in snapshot.partitions}
    return NodeWhatIf(loss=lose_node(node, snapshots, places_of(admin, topics, timeout_ms=ADMIN_MS)))
