"""Client metrics of polls, fetches, rebalances, errors and sent records."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kohort.client.metrics.counts import PollMetrics, RebalanceMetrics, SampleWindows
from kohort.client.metrics_report import consumer_metrics
from kohort.errors import UsageError
from support.machines.consumer_stage import ConsumerStage, User


def metrics_of(stage: ConsumerStage, user: User) -> Any:
    return consumer_metrics(user.machine, stage.now_ms)


def test_consumer_metrics_include_record_counts_and_lag():
    stage = ConsumerStage()
    stage.topic("t", 2)
    stage.produce("t", 0, b"a", b"b", b"c")
    stage.produce("t", 1, b"d")
    user = stage.user("t", group_id="g")
    stage.until(lambda: len(user.records) == 4)

    found = metrics_of(stage, user)

    assert found.value("records-consumed-total") == found.value("records-consumed-total", topic="t") == 4
    assert found.value("bytes-consumed-total") == found.value("bytes-consumed-total", topic="t") > 100
    assert found.value("records-lag", topic="t", partition=0) == 0
    assert found.value("records-lead", topic="t", partition=0) == 3
    assert (found.value("records-lag-max"), found.value("records-lead-min")) == (0, 1)
    assert found.value("fetch-total") >= 1
    assert found.value("assigned-partitions") == 2
    assert found.value("poll-idle-ratio-avg") == 0, "polls of the scripted group do not wait"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_metrics_record_duration_and_reason(protocol: str):
    stage = ConsumerStage()
    stage.topic("t", 2)
    first = stage.user("t", group_id="g", group_protocol=protocol)
    stage.until(lambda: first.owned == "t-0 t-1")
    alone = metrics_of(stage, first)
    second = stage.user("t", group_id="g", group_protocol=protocol)
    stage.until(lambda: first.owned != "t-0 t-1" and second.owned != "")

    found = metrics_of(stage, first)

    assert alone.value("rebalance-total") == 1
    assert found.value("rebalance-total") > 1
    assert found.value("failed-rebalance-total") == 0
    assert found.value("request-refused-total", api="Metadata") == 0
    assert found.value("last-rebalance-seconds-ago") >= 0
    assert found.value("assigned-partitions") == 1
    reasons = {"classic": "group is already rebalancing", "consumer": "the coordinator has assigned other partitions"}
    assert found.value("last-rebalance-reason") == reasons[protocol]
    assert ("join-total" in {n.name for n in found}) == (protocol == "classic")
    assert found.value("heartbeat-total") >= 1


def test_rebalance_metrics_before_first_join_are_empty():
    stage = ConsumerStage()
    stage.topic("t", 1)
    user = stage.user("t", group_id="g")

    found = metrics_of(stage, user)

    assert found.value("rebalance-total") == 0
    assert found.value("last-rebalance-seconds-ago") == -1
    assert math.isnan(found.value("rebalance-latency-avg"))
    assert math.isnan(found.value("records-lag-max")), "unknown lag is NaN, not 0"


def test_poll_metrics_count_listener_time_as_time_between_polls():
    polls = PollMetrics(SampleWindows())
    polls.entered(1000)
    polls.left(1010)  # a listener callback starts
    polls.resumed(1070)
    polls.left(1080)
    polls.left(1080)
    polls.entered(1100)

    assert polls.idle.summary(1100).sum == 20
    assert polls.interval.summary(1100).total == 100


def test_rebalance_with_several_joins_counts_as_one_rebalance():
    rebalances = RebalanceMetrics(SampleWindows())
    rebalances.ended(5)
    rebalances.began("one", 10)
    rebalances.began("another join of the same", 20)
    rebalances.failed_attempt(25)
    rebalances.ended(40)
    rebalances.ended(50)

    assert rebalances.latency.summary(50).total == 30
    assert rebalances.latency.summary(50).total_count == 1
    assert (rebalances.reason, rebalances.ended_ms, rebalances.began_ms) == ("one", 40, None)


def test_unknown_metric_name_suggests_the_nearest_name():
    stage = ConsumerStage()
    stage.topic("t", 2)
    user = stage.user("t", group_id="g")
    stage.until(lambda: user.owned != "")
    found = metrics_of(stage, user)

    with pytest.raises(UsageError, match=r"unknown metric 'record-lag-max'.*records-lag-max"):
        found.value("record-lag-max")
    with pytest.raises(UsageError, match=r"^[2-9] metrics have the name"):
        found.value("preferred-read-replica")
    with pytest.raises(UsageError, match=r"^0 metrics have the name"):
        found.value("preferred-read-replica", topic="nowhere")
    with pytest.raises(UsageError, match="in the group 'nowhere'"):
        found.value("records-lag-max", "nowhere")
    name = next(iter(found))
    assert (name.tag("client-id"), name.tag("nothing")) == ("kohort", None)
    assert found[name] == found.value(name.name, name.group)
    assert len(list(found)) == len(found)
