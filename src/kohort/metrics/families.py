"""Build a metrics page. Partitions come last: they have the most samples, and a full page drops further samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.errors import ConfigError
from kohort.metrics import broker_families, group_families
from kohort.metrics.broker_families import BrokerCopy, ProcessCopy
from kohort.metrics.catalogue import OTHER_EXPORTERS, MetricSet
from kohort.metrics.cluster import ClusterSnapshot, add_cluster, add_committed, add_topic_partitions, partition_counts
from kohort.metrics.group_families import GroupView
from kohort.metrics.page import SERIES_MOST, Page
from kohort.metrics.rebalance_counts import RebalanceCounts

PARTITIONS_MOST: Final = 1_000


@dataclass(frozen=True, slots=True)
class PageOptions:
    sets: tuple[MetricSet, ...] = OTHER_EXPORTERS
    most_partitions: int = PARTITIONS_MOST
    most_series: int = SERIES_MOST


def parse_metric_sets(text: str, option: str) -> tuple[MetricSet, ...]:
    """Parse a comma-separated list of metric sets. Raises ConfigError for an unknown set."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    if strange := [name for name in named if name not in OTHER_EXPORTERS]:
        raise ConfigError(f"{option}: unknown metric set {strange[0]!r}; known sets: {', '.join(OTHER_EXPORTERS)}")
    return tuple(one for one in OTHER_EXPORTERS if one in named)


def build_page(
    cluster: ClusterSnapshot,
    views: Sequence[GroupView],
    options: PageOptions,
    *,
    rebalances: RebalanceCounts | None = None,
    brokers: tuple[BrokerCopy, ...] = (),
    process: ProcessCopy | None = None,
) -> Iterator[Page]:
    """Build a metrics page in steps; yield the unfinished page after each step, and the complete page last."""
    page = Page(options.most_series)
    for _ in _add_all(page, cluster, views, options, rebalances, brokers, process):
        yield page
    page.finish()
    yield page


def _add_all(
    page: Page,
    cluster: ClusterSnapshot,
    views: Sequence[GroupView],
    options: PageOptions,
    rebalances: RebalanceCounts | None,
    brokers: tuple[BrokerCopy, ...],
    process: ProcessCopy | None,
) -> Iterator[None]:
    page.add("kohort_metrics_snapshot_timestamp_seconds", cluster.at_ms / 1000)
    page.add("kohort_metrics_snapshot_duration_seconds", cluster.took_ms / 1000)
    if process is not None:
        broker_families.add_process(page, process)
    broker_families.add_brokers(page, brokers, cluster.cluster_id)
    if "jmx" in options.sets:
        broker_families.add_jmx(page, brokers)
    yield
    as_exporter = "kafka_exporter" in options.sets
    if as_exporter:
        yield from add_cluster(page, cluster)
    for view in views:
        group_families.add_group(page, view)
        yield
    if rebalances is not None:
        yield from rebalances.add_to(page)
    yield from broker_families.add_fenced(page, brokers)
    counts = partition_counts(cluster)
    for view in views:
        group_families.add_group_partitions(page, view, options.most_partitions)
        if as_exporter:
            add_committed(page, view.now, counts, options.most_partitions)
        yield
    if rebalances is not None:
        yield from rebalances.add_durations(page)
    for topic in cluster.topics if as_exporter else ():
        add_topic_partitions(page, topic)
        yield
    yield from broker_families.add_clients(page, brokers)
