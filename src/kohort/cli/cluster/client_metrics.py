"""``kohort client-metrics``: metrics that clients push to brokers, and subscriptions to them (KIP-714)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.options import ADMIN_MS, DURATION, Duration, confirm, yes_option
from kohort.cli.terminal.output import output_of, report_lines, report_rows
from kohort.cli.terminal.show import print_table
from kohort.results.cluster import (
    ClientsShown,
    PushedValue,
    PushingClient,
    SubscriptionRemoved,
    SubscriptionRow,
    SubscriptionSet,
    SubscriptionsListed,
)
from kohort.verbs.client_reports import read_reports, software_of
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.telemetry.report import ClientReport

KIND: Final = "client_metrics"
OPTIONS: Final = ("interval.ms", "metrics", "match")
CONSUMER: Final = "org.apache.kafka.consumer."
VITALS: Final = (
    ("POLL-IDLE", f"{CONSUMER}poll.idle.ratio.avg"),
    ("LAST-POLL-S", f"{CONSUMER}last.poll.seconds.ago"),
    ("POLL-MAX-MS", f"{CONSUMER}time.between.poll.max"),
    ("COMMIT-MS", f"{CONSUMER}coordinator.commit.latency.avg"),
    ("REBALANCE-MS", f"{CONSUMER}coordinator.rebalance.latency.max"),
)
"""Column headings of the table of consumers, each with the name of the client metric in that column."""
HEADINGS: Final = ("PUSHED-S-AGO", *(heading for heading, _ in VITALS))
SUBSCRIPTION: Final = ("NAME", "INTERVAL-MS", "METRICS", "MATCH")


@click.group("client-metrics", short_help="Manage and show metrics that clients push.")
def client_metrics() -> None:
    """Manage subscriptions to client metrics, and show pushed metrics (KIP-714).

    A subscription selects the metrics that clients push. Java clients, librdkafka (confluent-kafka) and franz-go can
    push metrics. If no subscription applies to a client, a kohort broker still requests its metrics of delays and idle
    time.
    """


LIST_HELP = """List the subscriptions to client metrics.

\b
Examples:
  kohort client-metrics list
  kohort client-metrics list --output json | jq '.subscriptions[].name'
"""


@client_metrics.command("list", help=LIST_HELP, short_help="List subscriptions.")
@cluster_options
@output_of(SubscriptionsListed)
def list_subscriptions(cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        names = [found.name for found in admin.list_config_resources([KIND], timeout_ms=ADMIN_MS)]
        rows = [_subscription(admin, name) for name in names]
    cells = [_cells(row) for row in rows]
    report_rows(output, SubscriptionsListed(subscriptions=rows), SUBSCRIPTION, cells, none="no subscriptions")


def _subscription(admin: Admin, name: str) -> SubscriptionRow:
    from kohort.client.admin.model import ConfigResource

    resource = ConfigResource(KIND, name)
    configs = admin.describe_configs([resource], timeout_ms=ADMIN_MS)[resource]
    interval, *lists = (configs[name].value if name in configs else None for name in OPTIONS)
    metrics, match = ([part for part in (text or "").split(",") if part] for text in lists)
    return SubscriptionRow(name=name, interval_ms=int(interval or 0), metrics=metrics, match=match)


def _cells(row: SubscriptionRow) -> tuple[object, ...]:
    return (row.name, row.interval_ms, row.metrics, row.match or "every client")


SET_HELP = """Create a subscription, or change the given options of an existing subscription.

PREFIX selects metrics by the start of their names, such as org.apache.kafka.consumer.coordinator.; * selects all
metrics. The subscription applies to clients that match every --match. PROPERTY is client_id, client_instance_id,
client_software_name, client_software_version, client_source_address or client_source_port; PATTERN is a regular
expression.

\b
Examples:
  kohort client-metrics set all --metric '*' --interval 30s
  kohort client-metrics set java --metric org.apache.kafka.consumer. \\
      --match client_software_name=apache-kafka-java
"""


@client_metrics.command("set", help=SET_HELP, short_help="Create or change a subscription.")
@click.argument("name")
@click.option("--metric", "metrics", metavar="PREFIX", multiple=True, help="Prefix of metric names; repeatable.")
@click.option("--interval", "interval_ms", type=Duration(), help="Time between two pushes, at least 100ms.")
@click.option("--match", metavar="PROPERTY=PATTERN", multiple=True, help="Client property to match; repeatable.")
@cluster_options
@output_of(SubscriptionSet)
def set_subscription(
    name: str,
    metrics: tuple[str, ...],
    interval_ms: int | None,
    match: tuple[str, ...],
    cluster: ClusterAccess,
    output: str,
) -> None:
    from kohort.client.admin.model import ConfigResource

    given = {"metrics": ",".join(metrics), "match": ",".join(match), "interval.ms": str(interval_ms or "")}
    changes: dict[str, str | None] = {option: text for option, text in given.items() if text}
    if not changes:
        raise click.UsageError("expected --metric, --interval or --match")
    with cluster.admin() as admin:
        admin.alter_configs({ConfigResource(KIND, name): changes}, timeout_ms=ADMIN_MS)
        row = _subscription(admin, name)
    report_rows(output, SubscriptionSet(subscription=row), SUBSCRIPTION, [_cells(row)])


@client_metrics.command(short_help="Remove a subscription.")
@click.argument("name")
@yes_option
@cluster_options
@output_of(SubscriptionRemoved)
def remove(name: str, yes: bool, cluster: ClusterAccess, output: str) -> None:
    """Remove a subscription to client metrics."""
    from kohort.client.admin.model import ConfigResource

    resource = ConfigResource(KIND, name)
    with cluster.admin() as admin:
        if resource not in admin.list_config_resources([KIND], timeout_ms=ADMIN_MS):
            raise NothingThere(f"subscription {name!r} does not exist (kohort client-metrics list shows all)")
        confirm(f"Remove subscription {name!r}?", yes=yes)
        admin.alter_configs({resource: dict.fromkeys(OPTIONS)}, timeout_ms=ADMIN_MS)
    report_lines(output, SubscriptionRemoved(removed=name), [f"removed {name}"])


SHOW_HELP = """Show the last pushed metrics: a line for each client, or all values of CLIENT (client id or instance id).

POLL-IDLE is the share of time that a consumer waits for records. LAST-POLL-S is the time since its last poll,
POLL-MAX-MS the longest time between two polls, COMMIT-MS the mean time of a commit, REBALANCE-MS the longest rebalance.

\b
Examples:
  kohort client-metrics show --group orders
  kohort client-metrics show my-consumer --metric org.apache.kafka.consumer.
  kohort client-metrics show --output json | jq '.clients[].software'
"""


@client_metrics.command(help=SHOW_HELP, short_help="Show the last metrics that clients pushed.")
@click.argument("client", required=False)
@click.option("--group", metavar="GROUP", help="Show only clients of this group.")
@click.option("--metric", metavar="PREFIX", default="", help="Prefix of metric names to show.")
@click.option("--since", "back_ms", type=DURATION, default="15m", help="Maximum age of the pushes to show [15m].")
@cluster_options
@output_of(ClientsShown)
def show(client: str | None, group: str | None, metric: str, back_ms: int, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        found = read_reports(cluster.consumer, admin, back_ms)
    if found is None:
        raise NothingThere(
            f"{cluster.address} has no pushed metrics: the cluster does not store them, or no client has pushed metrics"
        )
    chosen = [report for report in found if group is None or report.group == group]
    if client is not None:
        chosen = [report for report in chosen if client in (report.client_id, report.client_instance_id)]
    if not chosen and (client is not None or group is not None):
        pusher = f"client {client!r}" if client is not None else f"member of {group!r}"
        raise NothingThere(f"no {pusher} pushed metrics in this time span (kohort client-metrics show lists all)")
    if output == "table" and (client is not None or metric):
        _print_values(chosen, metric)
        return
    now_ms = time.time_ns() // 1_000_000
    rows = [(r.client_id, r.host, software_of(r), r.group, *vitals_of(r, now_ms)) for r in chosen]
    columns = ("CLIENT-ID", "HOST", "SOFTWARE", "GROUP", *HEADINGS)
    result = ClientsShown(clients=[_client(report, metric) for report in chosen])
    report_rows(output, result, columns, rows, none="no client pushed metrics in this time span")


def _print_values(reports: list[ClientReport], metric: str) -> None:
    rows = [
        (report.client_id, one.name, [f"{k}={v}" for k, v in sorted(one.labels.items())], rounded(one.value))
        for report in reports
        for one in sorted(report.values, key=lambda one: (one.name, sorted(one.labels.items())))
        if one.name.startswith(metric)
    ]
    print_table(("CLIENT-ID", "METRIC", "LABELS", "VALUE"), rows, none="no metrics match")


def _client(report: ClientReport, metric: str) -> PushingClient:
    return PushingClient(
        client_instance_id=report.client_instance_id,
        client_id=report.client_id,
        host=report.host,
        software=software_of(report),
        principal=report.principal or None,
        node_id=report.node_id,
        group=report.group,
        member_id=report.member_id,
        pushed_at_ms=report.at_ms,
        interval_ms=report.interval_ms,
        is_last=report.terminating,
        is_cut=report.is_cut,
        labels=report.labels,
        values=[
            PushedValue(metric=one.name, labels=one.labels, value=one.value)
            for one in report.values
            if one.name.startswith(metric)
        ],
    )


def vitals_of(report: ClientReport, now_ms: int) -> list[float | int | None]:
    values = {one.name: one.value for one in report.values if not one.labels}
    vitals = [None if name not in values else rounded(values[name]) for _, name in VITALS]
    return [max(now_ms - report.at_ms, 0) // 1000, *vitals]


def rounded(value: float) -> float | int:
    return int(value) if value == int(value) else round(value, 3)
