"""``kohort nodes``: the brokers of a cluster, who leads what, and moves between them."""

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
    """List, stop and start the nodes of a cluster; move leaders.

    Listing and moving work with any Kafka cluster; nodes are stopped and started in a kohort of several
    (kohort serve --nodes 3).
    """


@nodes.command("list", short_help="List the nodes and what they lead.")
@cluster_options
@output_of(NodesListed)
def list_nodes(cluster: ClusterAccess, output: str) -> None:
    """List the nodes with their address, and the partitions that they lead."""
    with cluster.admin() as admin:
        found, without = node_rows(admin)
    fields = ("node", "address", "state", "leads", "group_partitions", "load_max_ms", "late_ms")
    report(output, NodesListed(nodes=found), {field.replace("_", " "): field for field in fields})
    if without and output == "table":
        click.echo(f"{without} partitions have no leader: none of their replicas is up", err=True)


@nodes.command(short_help="Stop a node; others lead what it led.")
@click.argument("node", type=int)
@cluster_options
def stop(node: int, cluster: ClusterAccess) -> None:
    """Stop NODE: its connections end, and the next replica leads what it led.

    A partition whose only replica it is has no leader until the node is started again.
    """
    with cluster.admin() as admin:
        now = _stopped_here(admin)
        if node in now:
            raise RefusedByState(f"node {node} is stopped already")
        _set_stopped(admin, [*now, node])
    click.echo(f"stopped node {node}")


@nodes.command(short_help="Start a node that was stopped.")
@click.argument("node", type=int)
@cluster_options
def start(node: int, cluster: ClusterAccess) -> None:
    """Start NODE. It does not get its leaders back: see kohort nodes move."""
    with cluster.admin() as admin:
        now = _stopped_here(admin)
        if node not in now:
            raise RefusedByState(f"node {node} is not stopped; stopped are: {', '.join(map(str, now)) or 'none'}")
        _set_stopped(admin, [n for n in now if n != node])
    click.echo(f"started node {node}")


MOVE_HELP = """Let NODE lead a partition, or coordinate a group.

The node becomes the preferred replica and is elected. On Apache Kafka a node that holds no replica yet has to copy the
data first; run the command again when it has.

\b
Examples:
  kohort nodes move 2 --partition orders:0
  kohort nodes move 3 --group my-group
"""


@nodes.command(help=MOVE_HELP, short_help="Let a node lead a partition, or coordinate a group.")
@click.argument("node", type=int)
@click.option("--partition", "partitions", metavar="TOPIC:NUMBER", multiple=True, help="Partition to lead.")
@click.option("--group", "groups", multiple=True, help="Group to coordinate.", shell_complete=complete_groups)
@cluster_options
def move(node: int, partitions: tuple[str, ...], groups: tuple[str, ...], cluster: ClusterAccess) -> None:
    if not partitions and not groups:
        raise click.UsageError("say what to move: --partition TOPIC:NUMBER or --group GROUP")
    wanted = [partition_in(text, given_as="--partition") for text in partitions]
    with cluster.admin() as admin:
        topics = {topic.name: topic for topic in all_topics(admin)}
        wanted += [_partition_of_group(topics, group) for group in groups]
        targets = {}
        for tp in wanted:
            now = _replicas(topics, tp)
            targets[tp] = [node, *(replica for replica in now if replica != node)]
            if node not in now:  # as many replicas as before
                targets[tp] = [node, *(replica for replica in now[1:] if replica != node)]
        admin.reassign_partitions(targets, timeout_ms=ADMIN_MS)
        results = admin.elect_leaders(wanted, check=False, timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        if not (isinstance(error, ApiError) and error.code is ErrorCode.ELECTION_NOT_NEEDED):
            raise error
    for tp in wanted:
        click.echo(printable(f"node {node} leads {tp}"))


def _stopped_here(admin: Admin) -> list[int]:
    found = stopped_nodes(admin)
    if found is None:
        raise UsageError("this cluster's nodes cannot be stopped from here: that needs kohort serve --nodes N")
    return found


def _set_stopped(admin: Admin, node_ids: list[int]) -> None:
    from kohort.client.admin.model import ConfigResource

    change = {STOPPED: ",".join(map(str, node_ids))}
    admin.alter_configs({ConfigResource("broker", ""): change}, timeout_ms=ADMIN_MS)


def _partition_of_group(topics: dict[str, TopicDescription], group: str) -> TopicPartition:
    from kohort.coordinator.records import partition_of

    if OFFSETS_TOPIC not in topics:
        raise NothingThere("no group has been coordinated yet: there is no __consumer_offsets")
    return TopicPartition(OFFSETS_TOPIC, partition_of(group, len(topics[OFFSETS_TOPIC].partitions)))


def _replicas(topics: dict[str, TopicDescription], tp: TopicPartition) -> tuple[int, ...]:
    topic = topics.get(tp.topic)
    if topic is None or tp.partition >= len(topic.partitions):
        raise NothingThere(f"there is no partition {tp.topic}:{tp.partition}")
    return topic.partitions[tp.partition].replicas
