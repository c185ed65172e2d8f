import random

import pytest

from kohort.telemetry.instances import CHARS_OF_VALUE, ClientInstances
from kohort.telemetry.report import ClientReport, MetricValue
from kohort.telemetry.subscriptions import ClientFacts, MetricsSubscriptions

ROOM = 100


@pytest.fixture
def instances():
    return ClientInstances(MetricsSubscriptions({}, None), random.Random(1), 1_000, ROOM)


def push(instances, number, *values):
    client = instances.push(number.to_bytes(16, "big"), number, ClientFacts("c", "h", None, None, None), 1)
    report = ClientReport(
        at_ms=1, client_instance_id=client.text, client_id="c", host="h", node_id=1, interval_ms=1, values=values
    )
    instances.take(client, report)


def kept(instances):
    return [len(report.values) for report in instances.reports(1)]


def test_metric_value_with_short_labels_counts_once_for_the_limit(instances):
    for number in range(2, 7):
        push(instances, number, *[MetricValue("m", 1.0, {"topic": "orders"})] * 40)

    assert kept(instances) == [40, 40]


def test_metric_value_with_long_labels_counts_as_several_values_for_the_limit(instances):
    wordy = MetricValue("m", 1.0, {"label": "x" * CHARS_OF_VALUE * 9})
    for number in range(2, 7):
        push(instances, number, *[wordy] * 4)

    assert kept(instances) == [4, 4]


def test_replaced_client_report_frees_its_values(instances):
    for _ in range(5):
        push(instances, 2, *[MetricValue("m", 1.0)] * 60)
    push(instances, 3, *[MetricValue("m", 1.0)] * 40)

    assert kept(instances) == [60, 40]
