from __future__ import annotations

import json

import pytest

import kohort
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from support.raw.raw_client import RawClient
from support.telemetry.otlp_bytes import gauge, metrics_data, total
from support.waiting import eventually

CONSUMER = "org.apache.kafka.consumer."
PUSHED = metrics_data(
    gauge(f"{CONSUMER}poll.idle.ratio.avg", 0.251),
    gauge(f"{CONSUMER}last.poll.seconds.ago", 3.0),
    total(f"{CONSUMER}coordinator.commit.total", 7),
    total(f"{CONSUMER}fetch.total", 9, topic="orders\x1b[2J"),
    group_id="crew",
    group_member_id="m-1",
)


@pytest.fixture(scope="module")
def broker():
    with kohort.Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def pushed(broker):
    with RawClient(broker.bootstrap, "worker") as client:
        client.ask(ApiVersionsRequest(client_software_name="franz-go", client_software_version="1.22.2"), 3)
        subscription = client.ask(GetTelemetrySubscriptionsRequest(), 0)
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=PUSHED,
        )
        assert client.ask(request, 0).error_code == 0
        yield subscription


def test_client_metrics_show_without_pushed_metrics_reports_not_found(run):
    with kohort.Broker() as other:
        result = run("client-metrics", "show", "--bootstrap", other.bootstrap, code=3)

    assert "no client has pushed metrics" in result.stderr


def test_client_metrics_show_prints_one_row_for_each_client(run, pushed):
    heading, line = run("client-metrics", "show", "--group", "crew").stdout.splitlines()

    assert heading.split()[:5] == ["CLIENT-ID", "HOST", "SOFTWARE", "GROUP", "PUSHED-S-AGO"]
    assert line.split()[:5] == ["worker", "/127.0.0.1", "franz-go", "1.22.2", "crew"]
    assert line.split()[6:] == ["0.251", "3", "-", "-", "-"]


def test_client_metrics_show_prints_all_values_of_one_client(run, pushed):
    lines = run("client-metrics", "show", "worker").stdout.splitlines()

    assert [line.split()[1:] for line in lines[1:]] == [
        [f"{CONSUMER}coordinator.commit.total", "-", "7"],
        [f"{CONSUMER}fetch.total", "topic=orders?[2J", "9"],
        [f"{CONSUMER}last.poll.seconds.ago", "-", "3"],
        [f"{CONSUMER}poll.idle.ratio.avg", "-", "0.251"],
    ]


def test_client_metrics_show_json_identifies_client(ask, pushed):
    (client,) = ask("client-metrics", "show", "worker", "--metric", f"{CONSUMER}poll.")["clients"]

    assert (client["group"], client["member_id"], client["software"]) == ("crew", "m-1", "franz-go 1.22.2")
    assert client["values"] == [{"metric": f"{CONSUMER}poll.idle.ratio.avg", "labels": {}, "value": 0.251}]
    assert (client["interval_ms"], client["is_last"], client["is_cut"]) == (60_000, False, False)


@pytest.mark.parametrize(
    ("chosen", "words"),
    [(("nobody",), "no client 'nobody' pushed"), (("--group", "other"), "no member of 'other' pushed")],
)
def test_client_metrics_show_reports_unknown_client_as_not_found(run, pushed, chosen, words):
    assert words in run("client-metrics", "show", *chosen, code=3).stderr


def push(bootstrap, client_id, **says):
    with RawClient(bootstrap, client_id) as client:
        subscription = client.ask(GetTelemetrySubscriptionsRequest(), 0)
        metrics = metrics_data(gauge(f"{CONSUMER}poll.idle.ratio.avg", 0.5), **says)
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=metrics,
        )
        assert client.ask(request, 0).error_code == 0


def test_group_option_of_client_metrics_show_excludes_other_groups(run, broker):
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="pair", client_id="one") as consumer:
        consumer.subscribe(["read"])
        eventually(lambda: consumer.poll(100) or consumer.assignment())
        push(broker.bootstrap, "one", group_id="pair")
        push(broker.bootstrap, "one", group_id="other")

        heading, line = run("client-metrics", "show", "--group", "pair").stdout.splitlines()

    columns = ["PUSHED-S-AGO", "POLL-IDLE", "LAST-POLL-S", "POLL-MAX-MS", "COMMIT-MS", "REBALANCE-MS"]
    assert heading.split()[-6:] == columns
    assert line.split()[-5:] == ["0.5", "-", "-", "-", "-"]


def test_client_metrics_subscription_is_created_changed_listed_and_removed(run, ask):
    assert ask("client-metrics", "list")["subscriptions"] == []

    run("client-metrics", "set", "java", "--metric", "a.", "--metric", "b.", "--match", "client_id=w.*")
    changed = ask("client-metrics", "set", "java", "--interval", "30s")["subscription"]

    expected = {"name": "java", "interval_ms": 30_000, "metrics": ["a.", "b."], "match": ["client_id=w.*"]}
    assert changed == expected
    assert ask("client-metrics", "list")["subscriptions"] == [expected]
    assert run("client-metrics", "list").stdout.splitlines()[1].split() == ["java", "30000", "a.,b.", "client_id=w.*"]
    assert "Add --yes" in run("client-metrics", "remove", "java", code=2).stderr
    assert run("client-metrics", "remove", "java", "--yes").stdout == "removed java\n"
    assert ask("client-metrics", "list")["subscriptions"] == []
    assert "subscription 'java' does not exist" in run("client-metrics", "remove", "java", "--yes", code=3).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "expected --metric, --interval or --match"),
        (("--interval", "soon"), "'soon' is not a duration"),
    ],
)
def test_client_metrics_set_without_options_is_usage_error(run, options, words):
    assert words in run("client-metrics", "set", "s", *options, code=2).stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--interval", "50ms"), "interval must be between 100 and 3600000"),
        (("--match", "client_id=["), "Illegal client matching pattern: client_id=["),
        (("--match", "name=x"), "Illegal client matching pattern: name=x"),
    ],
)
def test_client_metrics_set_reports_error_of_broker(run, options, words):
    error = run("client-metrics", "set", "s", *options, code=1).stderr

    assert words in error


def test_client_metrics_ndjson_has_one_line_per_client(run, pushed):
    (line,) = run("client-metrics", "show", "worker", "--output", "ndjson").stdout.splitlines()

    assert json.loads(line)["schema"] == "kohort/v1/client-metrics.show.line"
