"""Queries use existing metrics: in the shipped dashboards and alerts, and in dashboards of other exporters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from kohort.metrics.broker_families import SESSION_PARTITIONS, SESSIONS, copy_counters
from kohort.metrics.catalogue import CATALOGUE
from support.machines.broker_stage import BrokerStage

FOLDER = Path(__file__).parents[3] / "dashboards"
BOARD: dict[str, Any] = json.loads((FOLDER / "kohort-groups.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((FOLDER / "alerts.yml").read_text())
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to each scraped sample."""
SET_OPERATORS = {"and", "unless"}
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
OTHERS = (
    # queries of kafka_exporter's dashboard (Grafana 7589), with values in place of its variables
    'sum(rate(kafka_topic_partition_current_offset{instance=~".*",topic=~".*"}[1m])) by (topic)',
    'sum(kafka_consumergroup_lag{instance=~".*",topic=~".*"}) by (consumergroup, topic)',
    'sum(delta(kafka_topic_partition_current_offset{instance=~".*",topic=~".*"}[5m])/5) by (topic)',
    'sum(delta(kafka_consumergroup_current_offset{instance=~".*",topic=~".*"}[5m])/5) by (consumergroup, topic)',
    'sum by (topic) (kafka_topic_partitions{instance=~".*",topic=~".*"})',
    # queries of Strimzi's dashboard
    'count(kafka_topic_partitions{topic=~".*"})',
    'sum(kafka_topic_partition_replicas{topic=~".*"})',
    'sum(kafka_topic_partition_in_sync_replica{topic=~".*"})',
    'sum(kafka_topic_partition_under_replicated_partition{topic=~".*"})',
    'sum(kafka_topic_partition_leader_is_preferred{topic=~".*"} < bool 1)',
    'sum(delta(kafka_consumergroup_current_offset{consumergroup=~".*",topic=~".*"}[1m])/60) by (consumergroup, topic)',
    'sum(kafka_consumergroup_current_offset{consumergroup=~".*"}) by (consumergroup,partition,topic)',
    'sum(kafka_consumergroup_lag{consumergroup=~".*",topic=~".*"}) by (consumergroup,partition,topic)',
    'sum(kafka_topic_partition_current_offset{topic=~".*"}) by (partition,topic)',
    'sum(kafka_topic_partition_oldest_offset{topic=~".*"}) by (partition,topic)',
    # queries of Strimzi's alerts
    "kafka_topic_partition_under_replicated_partition > 0",
    'sum by(consumergroup) (kafka_consumergroup_lag{consumergroup!~".*-billing"}) > 1000',
    # queries of the AWS MSK collector
    "kafka_consumergroup_lag_sum",
    "kafka_consumergroup_members",
    "kafka_brokers",
)


def targets() -> Iterator[tuple[str, str]]:
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$group", ".*")


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def selected(query: str) -> Iterator[tuple[str, set[str]]]:
    grouped_labels: set[str] = set()
    names: list[tuple[str, set[str]]] = []
    asides: dict[str, set[str]] = {}

    def see(node: Any) -> bool:
        joined = node.modifier.matching if isinstance(node, promql_parser.BinaryExpr) and node.modifier else None
        if joined is not None and str(node.op) in SET_OPERATORS:
            for name, labels in selected(node.rhs.prettify()):
                asides[name] = labels | set(
                    joined.labels
                )  # a joined metric needs only the labels on which the query joins
        if isinstance(node, promql_parser.VectorSelector):
            names.append((node.name, {matcher.name for matcher in node.matchers.matchers}))
        elif isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            grouped_labels.update(node.modifier.labels)
        return True

    promql_parser.walk(promql_parser.parse(query), see)
    for name, labels in names:
        yield name, asides.get(name, labels | grouped_labels)


def labels_of(name: str) -> set[str]:
    if name in PROCESS:
        return OF_PROMETHEUS
    for end, more in (("", ()), ("_bucket", ("le",)), ("_sum", ()), ("_count", ())):
        metric = CATALOGUE.get(name.removesuffix(end))
        if name.endswith(end) and metric is not None and (not end or metric.kind == "histogram"):
            return {*metric.labels, *more, *OF_PROMETHEUS}
    raise KeyError(name)


@pytest.mark.parametrize(("title", "query"), list(targets()))
def test_dashboard_panels_query_existing_metrics(title, query):
    selectors = list(selected(query))

    assert selectors, title
    for name, labels in selectors:
        assert labels <= labels_of(name), f"{title}: {name}"


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_alerts_query_existing_metrics_and_have_descriptions(rule):
    for name, labels in selected(rule["expr"]):
        assert labels <= labels_of(name), name
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert rule["annotations"]["summary"]


def test_alerts_fire_on_the_first_sample_of_a_new_counter_series():
    counting = [rule["expr"] for rule in rules() if "increase(kohort_group" in rule["expr"]]

    assert len(counting) == 2
    for query in counting:
        (name,) = set(re.findall(r"increase\((\w+)", query))
        assert re.search(rf"{name}(\{{.*\}})? unless {name}(\{{.*\}})? offset 15m", query)


def test_budget_alert_does_not_fire_for_full_caches():
    (query,) = [rule["expr"] for rule in rules() if rule["alert"] == "BrokerBudgetNearlyUsed"]
    (omitted,) = re.findall(r'budget!~"(.*?)"', query)

    budgets = copy_counters(BrokerStage().broker, failed_handshakes=0).budgets
    assert {name for name in budgets if re.fullmatch(omitted, name)} == {SESSIONS, SESSION_PARTITIONS}


@pytest.mark.parametrize("query", OTHERS)
def test_dashboards_of_other_exporters_query_existing_metrics(query):
    for name, labels in selected(query):
        assert labels <= labels_of(name), name


def test_dashboard_panels_do_not_overlap_and_have_unique_ids():
    panels = BOARD["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len(set(numbers)) == len(numbers)

    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_alert_names_are_unique_in_all_rule_files():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) > 10


def test_query_parser_of_these_tests_reports_unknown_metrics():
    with pytest.raises(KeyError, match="kafka_consumergroup_lagg"):
        [labels_of(name) for name, _ in selected("sum(kafka_consumergroup_lagg)")]
    ((name, labels),) = selected('sum by (group) (kafka_consumergroup_lag{consumergroup="a"})')
    assert not labels <= labels_of(name)
