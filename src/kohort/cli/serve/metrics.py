"""``kohort metrics``: print or serve Prometheus metrics about the groups and topics of any cluster."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kohort.cli.groups.journal import journal_of, store_option
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.options import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.metrics.families import PageOptions
    from kohort.watch.journal_source import JournalSource

HELP = """Show the groups and topics of any cluster as metrics for Prometheus.

Without --listen the command prints the metrics once. With --listen it serves them at /metrics, and samples the cluster
for each scrape. Rebalances are counted from the journal of a kohort broker or of kohort watch: with --listen since the
start of the command, without it from the whole journal.

\b
Examples:
  kohort metrics | grep kafka_consumergroup_lag_sum
  kohort metrics --bootstrap kafka:9092 --listen 127.0.0.1:9308
"""


@click.command(help=HELP, short_help="Show groups and topics as metrics, for Prometheus.")
@click.option("--listen", metavar="HOST:PORT", help="Listen address of /metrics, such as 127.0.0.1:9308.")
@click.option(
    "--metrics-compat",
    "compat",
    metavar="NAMES",
    default="kafka_exporter",
    help="Set of metric names to add to kohort's names [kafka_exporter].",
)
@click.option(
    "--metrics-allow-anyone", "allow_anyone", is_flag=True, help="Serve /metrics to all computers, under any host name."
)
@click.option(
    "--max-partitions",
    type=click.IntRange(0),
    default=1_000,
    help="Maximum number of partitions with metrics for each group [1000].",
)
@click.option(
    "--max-series",
    type=click.IntRange(1_000),
    default=200_000,
    help="Maximum number of time series on the page [200000].",
)
@store_option
@cluster_options
def metrics(
    listen: str | None,
    compat: str,
    allow_anyone: bool,
    max_partitions: int,
    max_series: int,
    store: Path | None,
    cluster: ClusterAccess,
) -> None:
    from kohort.metrics.exposition import PLAIN, check_extra
    from kohort.metrics.families import PageOptions, parse_metric_sets

    options = PageOptions(parse_metric_sets(compat, "--metrics-compat"), max_partitions, max_series)
    check_extra()
    with cluster.admin() as admin, ExitStack() as stack:
        since_ms = 0 if listen is None else None
        journal = partial(journal_of, cluster, admin, None, since_ms, store)
        sampler = MetricsSampler(admin, options, lambda: stack.enter_context(journal()))
        if listen is None:
            click.echo(sampler.make(PLAIN)[0], nl=False)
        else:
            _serve(sampler, cluster, listen, allow_anyone=allow_anyone)


def _serve(sampler: MetricsSampler, cluster: ClusterAccess, listen: str, *, allow_anyone: bool) -> None:
    from kohort.metrics.serving import Pages, parse_page_address, serving

    address = parse_page_address(listen, "--listen", allow_anyone=allow_anyone)
    sampler.is_served = True
    sampler.admin.describe_cluster(timeout_ms=ADMIN_MS)  # fail before the server starts if no broker answers
    with serving(Pages(sampler.make), address, any_host=allow_anyone) as url:
        click.echo(f"metrics of {cluster.address} on {url}")
        sys.stdout.flush()
        threading.Event().wait()


class MetricsSampler:
    """Samples the groups of a cluster for each scrape.

    While it has no open journal, each scrape calls ``begin``, which returns an open journal or None.
    """

    def __init__(self, admin: Admin, options: PageOptions, begin: Callable[[], JournalSource | None]) -> None:
        from kohort.metrics.group_families import GroupViews
        from kohort.metrics.rebalance_counts import RebalanceCounts

        self.admin = admin
        self._options = options
        self._counts = RebalanceCounts()
        self._views = GroupViews(self._counts.times)
        self._begin = begin
        self._journal: JournalSource | None = None
        self.is_served = False
        """True if ``--listen`` serves the metrics. A rebalance that is still in flight is then not counted yet."""

    def make(self, form: str) -> tuple[bytes, str]:
        from kohort.aio.system import wall_ms
        from kohort.metrics.exposition import render_page
        from kohort.metrics.families import build_page
        from kohort.metrics.rebalance_counts import END_OF_TIME
        from kohort.watch.sampling import SamplingLimits, sample_cluster

        if self._journal is None:
            self._journal = self._begin()
        if self._journal is not None:
            until_ms = wall_ms() if self.is_served else END_OF_TIME
            self._counts.add(self._journal.read())
            for _ in self._counts.settle(until_ms):
                pass
        found = sample_cluster(self.admin, SamplingLimits(timeout_ms=ADMIN_MS))
        for error in found.errors.values():
            click.echo(f"kohort metrics: {error}", err=True)
        views = list(self._views.update(found.cluster.groups))
        rebalances = None if self._journal is None else self._counts
        *_, page = build_page(found.cluster, views, self._options, rebalances=rebalances)
        return render_page(page, form)
