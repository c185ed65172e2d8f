"""``kohort topics``: create, list, describe and delete topics."""

from __future__ import annotations

import click

from kohort.cli.terminal.cluster import (
    ClusterAccess,
    cluster_options,
    cluster_options_without_config,
    complete_topics,
    pairs,
)
from kohort.cli.terminal.options import ADMIN_MS, confirm, yes_option
from kohort.cli.terminal.output import output_of, print_result, raise_last, report, report_lines
from kohort.cli.terminal.show import print_table
from kohort.errors import ApiError, ErrorCode
from kohort.insight.names import count
from kohort.model import uuid_to_text
from kohort.notes import printable
from kohort.results.cluster import CreatedTopicRow, TopicsCreated, TopicsDeleted, TopicsDescribed, TopicsListed
from kohort.verbs.cluster import describe_topic, listed_topics


@click.group(short_help="Create, list, describe and delete topics.")
def topics() -> None:
    """Create, list, describe and delete topics."""


CREATE_HELP = """Create topics.

\b
Examples:
  kohort topics create orders
  kohort topics create orders payments --partitions 6
  kohort topics create audit --config cleanup.policy=compact
"""


@topics.command(help=CREATE_HELP, short_help="Create topics.")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Number of partitions of each topic [num.partitions of the broker].",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Number of replicas of each partition [default of the broker].",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="Topic option of Kafka; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Skip topics that exist already.")
@cluster_options_without_config
@output_of(TopicsCreated)
def create(
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    cluster: ClusterAccess,
    output: str,
) -> None:
    from kohort.client.admin.model import NewTopic

    options = pairs(configs, "--config")
    new = [NewTopic(name, partitions or -1, replication_factor or -1, options) for name in dict.fromkeys(names)]
    with cluster.admin() as admin:
        results = admin.create_topics(new, check=False, timeout_ms=ADMIN_MS)
    created = [results[name] for name in results if name not in results.errors]
    rows = [CreatedTopicRow(name=t.name, topic_id=uuid_to_text(t.topic_id), partitions=t.partitions) for t in created]
    report_lines(output, TopicsCreated(created=rows), [f"created {t.name}{_counted(t.partitions)}" for t in created])
    errors = []
    for name, error in results.errors.items():
        if if_not_exists and isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            click.echo(printable(f"{name} exists already"), err=True)
        else:
            errors.append(error)
    raise_last(errors, "kohort topics")


@topics.command("list", short_help="List topics.")
@click.option("--internal", is_flag=True, help="Also list internal topics such as __consumer_offsets.")
@cluster_options
@output_of(TopicsListed)
def list_topics(internal: bool, cluster: ClusterAccess, output: str) -> None:
    """List topics and their partition counts, in order of the topic names.

    \b
    Examples:
      kohort topics list
      kohort topics list --internal --output json | jq -r '.topics[].name'
    """
    with cluster.admin() as admin:
        found = listed_topics(admin, internal=internal)
    report(output, found, {"TOPIC": "name", "PARTITIONS": "partitions"}, none="no topics")


@topics.command(short_help="Show partitions, offsets and options of topics.")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@cluster_options
@output_of(TopicsDescribed)
def describe(names: tuple[str, ...], cluster: ClusterAccess, output: str) -> None:
    """Show the partitions of topics with their offsets, and the topic options that differ from the defaults.

    \b
    Examples:
      kohort topics describe orders
      kohort topics describe orders --output json | jq '.topics[].partitions'
    """
    with cluster.admin() as admin:
        results = admin.describe_topics(dict.fromkeys(names), timeout_ms=ADMIN_MS)
        raise_last([*results.errors.values()], "kohort topics")
        about = [describe_topic(admin, results[name]) for name in results]
    if output != "table":
        print_result(TopicsDescribed(topics=about), output)
        return
    for i, topic in enumerate(about):
        if i:
            click.echo()
        click.echo(printable(f"{topic.name}  id {topic.topic_id}"))
        for name, value in topic.configs.items():
            click.echo(printable(f"  {name}={value}"))
        columns = ("PARTITION", "LEADER", "REPLICAS", "ISR", "LOG-START-OFFSET", "LOG-END-OFFSET", "RECORDS")
        rows = [
            (p.partition, p.leader, p.replicas, p.isr, p.log_start_offset, p.log_end_offset, p.records)
            for p in topic.partitions
        ]
        print_table(columns, rows)


@topics.command(short_help="Delete topics and all their records.")
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@yes_option
@cluster_options
@output_of(TopicsDeleted)
def delete(names: tuple[str, ...], yes: bool, cluster: ClusterAccess, output: str) -> None:
    """Delete topics and all their records, after a confirmation. Scripts need --yes.

    \b
    Examples:
      kohort topics delete orders
      kohort topics delete orders payments --yes
    """
    unique = list(dict.fromkeys(names))
    confirm(f"Delete {', '.join(unique)} and all records in {'it' if len(unique) == 1 else 'them'}?", yes=yes)
    with cluster.admin() as admin:
        results = admin.delete_topics(unique, check=False, timeout_ms=ADMIN_MS)
    deleted = [name for name in results if name not in results.errors]
    report_lines(output, TopicsDeleted(deleted=deleted), [f"deleted {name}" for name in deleted])
    raise_last([*results.errors.values()], "kohort topics")


def _counted(partitions: int) -> str:
    return f" with {count(partitions, 'partition')}" if partitions > 0 else ""
