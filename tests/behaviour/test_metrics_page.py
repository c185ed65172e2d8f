from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_fd_to_metric_families

from kohort import Admin, Consumer, Producer
from kohort.aio.serving.cluster_server import start_brokers
from kohort.config.broker import METRICS_OF, BrokerConfig
from kohort.config.options import parse_config
from kohort.errors import ErrorCode
from kohort.metrics import rebalance_counts
from kohort.metrics.broker_page import serve_broker_metrics
from kohort.metrics.catalogue import CATALOGUE
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from support.raw.raw_client import RawClient
from support.telemetry.otlp_bytes import gauge, metrics_data

WHILE_MS = 60_000
Scrape = Callable[[], dict[str, Metric]]
QUIET = {
    "kohort_broker_connections_ended_total": "the broker ended none",
    "kohort_group_member_evictions_total": "nobody was put out",
    "kohort_group_fenced_requests_total": "nobody was out of date",
    "kohort_group_fenced_members_total": "nobody was out of date",
    "kohort_broker_fenced_requests_total": "nobody was out of date",
    "kohort_group_lag_drain_eta_seconds": "one look does not tell",
    "kohort_client_metric": "it is not asked for",
}


@contextmanager
def a_broker(data: Path | None = None, nodes: int = 1, **options: object) -> Iterator[tuple[str, str]]:
    settings = {
        "port": 0,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "kohort.metrics.compat": list(METRICS_OF),
    }
    config = parse_config(BrokerConfig, settings | options)
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    at: list[str] = []

    async def run(ready: Callable[[], None]) -> None:
        server = await start_brokers(config, nodes, data)
        try:
            with serve_broker_metrics(server, config, "127.0.0.1:0") as url:
                at.extend((server.bootstrap, url))
                ready()
                await ended.wait()
        finally:
            await server.stop()

    with ThreadPoolExecutor(1) as thread:
        begun = asyncio.run_coroutine_threadsafe
        runs = thread.submit(loop.run_forever)
        waiting = threading.Event()
        served = begun(run(waiting.set), loop)
        assert waiting.wait(20) or served.result(0)
        try:
            yield at[0], at[1]
        finally:
            loop.call_soon_threadsafe(ended.set)
            served.result(20)
            loop.call_soon_threadsafe(loop.stop)
            runs.result(20)
            loop.close()


def scraped(url: str) -> dict[str, Metric]:
    request = urllib.request.Request(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        text = answer.read().decode()
    families = text_fd_to_metric_families(StringIO(text, newline="\n"))
    return {f"{one.name}_total" if one.type == "counter" else one.name: one for one in families}


def value(page: dict[str, Metric], name: str, **labels: str) -> float | None:
    found = [s.value for s in page[name].samples if labels.items() <= s.labels.items() and s.name == name]
    return sum(found) if found else None


def work(bootstrap: str, group: str = "billing") -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(10):
            producer.send("orders", str(number)).result(60_000)
    with Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=5,
    ) as consumer:
        consumer.subscribe(["orders"])
        records = 0
        while records < 5:
            records += len(consumer.poll(timeout_ms=1000))
        consumer.commit()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Metric]]:
    options = {"log.flush.interval.messages": 1}
    with (
        pytest.MonkeyPatch.context() as patch,
        a_broker(tmp_path_factory.mktemp("data"), **options) as (bootstrap, url),
    ):
        patch.setattr(rebalance_counts, "GRACE_MS", -WHILE_MS)  # a page has what just happened
        patch.setattr(rebalance_counts, "RESUME_MS", -WHILE_MS)
        work(bootstrap)
        with Consumer(bootstrap_servers=bootstrap, group_id="billing") as consumer:
            consumer.subscribe(["orders"])
            consumer.poll(timeout_ms=1000)
            yield scraped(url)


def test_scrape_has_every_metric_of_the_catalogue(page):
    shown = {name for name in page if not name.startswith("process_")}

    assert shown == CATALOGUE.keys() - QUIET.keys()
    assert "process_resident_memory_bytes" in page


def test_group_activity_is_on_the_page(page):
    assert value(page, "kafka_consumergroup_lag", consumergroup="billing", topic="orders", partition="0") == 5
    assert value(page, "kafka_consumergroup_members", consumergroup="billing") == 1
    assert value(page, "kohort_group_total_lag_records", group="billing") == 5
    lag_s = value(page, "kohort_group_max_lag_seconds", group="billing")
    assert lag_s is not None
    assert 0 < lag_s < 60
    assert value(page, "kohort_group_rebalances_total", group="billing", round="first") >= 2
    assert value(page, "kafka_server_group_coordinator_metrics_group_count", protocol="classic") == 1
    assert value(page, "kafka_server_group_coordinator_metrics_offset_commit_count") == 1
    assert value(page, "kohort_log_records_appended_total") >= 10
    (took,) = [
        s.value
        for s in page["kohort_broker_request_duration_seconds"].samples
        if s.name.endswith("_count") and s.labels["api"] == "Produce"
    ]
    assert took == 10


def test_client_metrics_are_on_the_page_if_enabled():
    idle = "org.apache.kafka.consumer.poll.idle.ratio.avg"
    with a_broker(**{"kohort.metrics.clients": True}) as (bootstrap, url), RawClient(bootstrap, "worker") as client:
        subscription = client.ask(GetTelemetrySubscriptionsRequest(), 0)
        pushed = metrics_data(gauge(idle, 0.25), gauge("by.topic", 1, topic="orders"), group_id="crew")
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=pushed,
        )
        assert client.ask(request, 0).error_code == 0
        assert client.ask(request, 0).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED

        page = scraped(url)

    (row,) = page["kohort_client_metric"].samples
    assert (row.labels["client_id"], row.labels["group"], row.labels["metric"], row.value) == (
        *("worker", "crew"),
        *(idle, 0.25),
    )
    assert value(page, "kohort_broker_client_pushes_total", result="taken") == 1
    assert value(page, "kohort_broker_client_pushes_total", result="early") == 1
    assert value(page, "kohort_broker_pushing_clients") == 1


def test_deleted_group_is_not_on_the_page():
    with a_broker() as (bootstrap, url):
        work(bootstrap)
        with Admin(bootstrap_servers=bootstrap) as admin:
            assert not admin.delete_groups(["billing"]).errors
        page = scraped(url)

    assert [s for one in page.values() for s in one.samples if "billing" in s.labels.values()] == []


def test_metrics_distinguish_nodes_of_a_process():
    with a_broker(nodes=3) as (bootstrap, url):
        work(bootstrap)
        page = scraped(url)

    assert value(page, "kafka_brokers") == 3
    assert {s.labels["node"] for s in page["kohort_broker_info"].samples} == {"1", "2", "3"}
    assert value(page, "kohort_broker_groups", protocol="classic") == 1


def test_hundred_scrapers_do_not_block_clients():
    with a_broker() as (bootstrap, url), ThreadPoolExecutor(100) as many:

        def scrape(_number: int) -> int:
            try:
                with urllib.request.urlopen(url, timeout=20) as answer:
                    answer.read()
                    return answer.status
            except urllib.error.HTTPError as refused:
                return refused.code
            except OSError:
                return 503  # disconnected before the response

        scrapes = [many.submit(scrape, number) for number in range(300)]
        work(bootstrap)
        found = {one.result() for one in scrapes}

        assert found <= {200, 503}
        assert 200 in found
