"""``kohort nodes``: list, stop and start the nodes of a cluster; move leaders and coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import ADMIN_MS, partition_in
from kohort.cli.terminal.output import output_of, report
from kohort.errors import ApiError, ErrorCode, UsageError
from kohort.model import TopicPartition
from kohort.notes import printable
from kohort.results.cluster import NodesListed
from kohort.verbs.cluster import OFFSETS_TOPIC, STOPPED, all_topics, node_rows, stopped_nodes
from kohort.verbs.refusals import NothingThere, RefusedByState

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import TopicDescription


@click.group(short_help="List, stop and start the nodes of a cluster; move leaders.")
def nodes() -> None:
    """List, stop and start the nodes of a cluster; move leaders and coordinators.

    list and move work with any Kafka cluster. stop and start work only with kohort serve --nodes N.
    """


@nodes.command("list", short_help="List the nodes and the partitions that they lead.")
@cluster_options
@output_of(NodesListed)
def list_nodes(cluster: ClusterAccess, output: str) -> None:
    """List each node with its address, its state, and the number of partitions that it leads."""
    with cluster.admin() as admin:
        found, without = node_rows(admin)
    fields = ("node", "address", "state", "leads", "group_partitions", "load_max_ms", "late_ms")
    report(output, NodesListed(nodes=found), {field.replace("_", " "): field for field in fields})
    if without and output == "table":
        click.echo(f"{without} partitions have no leader, since all their replicas are down", err=True)


@nodes.command(short_help="Stop a node; other nodes lead its partitions.")
@click.argument("node", type=int)
@cluster_options
def stop(node: int, cluster: ClusterAccess) -> None:
    """Stop NODE. Its connections are closed, and its partitions get leaders on other nodes.

    A partition whose only replica is on NODE has no leader until NODE is started again.
    """
    with cluster.admin() as admin:
        now = _stopped_here(admin)
        if node in now:
            raise RefusedByState(f"node {node} is already stopped")
        _set_stopped(admin, [*now, node])
    click.echo(f"stopped node {node}")


@nodes.command(short_help="Start a stopped node.")
@click.argument("node", type=int)
@cluster_options
def start(node: int, cluster: ClusterAccess) -> None:
    """Start NODE. It leads no partitions until kohort nodes move makes it the leader of one."""
    with cluster.admin() as admin:
        now = _stopped_here(admin)
        if node not in now:
            raise RefusedByState(f"node {node} is not stopped; stopped nodes: {', '.join(map(str, now)) or 'none'}")
        _set_stopped(admin, [n for n in now if n != node])
    click.echo(f"started node {node}")


MOVE_HELP = """Make NODE the leader of a partition, or the coordinator of a group.

NODE becomes the preferred replica, and is elected as leader. If NODE of an Apache Kafka cluster has no replica, it
first copies the data: run the command again after that.

\b
Examples:
  kohort nodes move 2 --partition orders:0
  kohort nodes move 3 --group my-group
"""


@nodes.command(help=MOVE_HELP, short_help="Make a node the leader of a partition, or the coordinator of a group.")
@click.argument("node", type=int)
@click.option(
    "--partition",
    "partitions",
    metavar="TOPIC:NUMBER",
    multiple=True,
    help="Partition that NODE shall lead; repeatable.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    help="Group that NODE shall coordinate; repeatable.",
    shell_complete=complete_groups,
)
@cluster_options
def move(node: int, partitions: tuple[str, ...], groups: tuple[str, ...], cluster: ClusterAccess) -> None:
    if not partitions and not groups:
        raise click.UsageError("expected --partition TOPIC:NUMBER or --group GROUP")
    moved = [partition_in(text, given_as="--partition") for text in partitions]
    with cluster.admin() as admin:
        topics = {topic.name: topic for topic in all_topics(admin)}
        moved += [_partition_of_group(topics, group) for group in groups]
        targets = {}
        for tp in moved:
            now = _replicas(topics, tp)
            # if NODE has no replica of this partition, it replaces the first one: the replica count stays the same
            kept = now if node in now else now[1:]
            targets[tp] = [node, *(replica for replica in kept if replica != node)]
        admin.reassign_partitions(targets, timeout_ms=ADMIN_MS)
        results = admin.elect_leaders(moved, check=False, timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        if not (isinstance(error, ApiError) and error.code is ErrorCode.ELECTION_NOT_NEEDED):
            raise error
    for tp in moved:
        click.echo(printable(f"node {node} leads {tp}"))


def _stopped_here(admin: Admin) -> list[int]:
    found = stopped_nodes(admin)
    if found is None:
        raise UsageError("nodes of this cluster cannot be stopped: only kohort serve --nodes N supports it")
    return found


def _set_stopped(admin: Admin, node_ids: list[int]) -> None:
    from kohort.client.admin.model import ConfigResource

    change = {STOPPED: ",".join(map(str, node_ids))}
    admin.alter_configs({ConfigResource("broker", ""): change}, timeout_ms=ADMIN_MS)


def _partition_of_group(topics: dict[str, TopicDescription], group: str) -> TopicPartition:
    from kohort.coordinator.records import partition_of

    if OFFSETS_TOPIC not in topics:
        raise NothingThere("the cluster has no topic __consumer_offsets, so it never had a group")
    return TopicPartition(OFFSETS_TOPIC, partition_of(group, len(topics[OFFSETS_TOPIC].partitions)))


def _replicas(topics: dict[str, TopicDescription], tp: TopicPartition) -> tuple[int, ...]:
    topic = topics.get(tp.topic)
    if topic is None or tp.partition >= len(topic.partitions):
        raise NothingThere(f"partition {tp.topic}:{tp.partition} does not exist")
    return topic.partitions[tp.partition].replicas
