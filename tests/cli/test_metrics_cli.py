from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

import kohort
from kohort.cli.main import main
from support.processes.served_broker import Served


def rows(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@pytest.fixture(scope="module")
def read(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"orders": 2})
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(20):
            producer.send("orders", str(number), partition=0).result(60_000)
    with kohort.Consumer(
        bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest", max_poll_records=5
    ) as consumer:
        consumer.subscribe(["orders"])
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.commit()


def test_metrics_command_prints_metrics_of_any_cluster(run, read):
    page = rows(run("metrics").stdout)

    assert page["kafka_consumergroup_lag"]["g", "0", "orders"] == 15
    assert page["kafka_consumergroup_lag"]["g", "1", "orders"] == 0
    assert page["kafka_consumergroup_members"]["g",] == 0
    assert page["kafka_topic_partitions"]["orders",] == 2
    assert page["kafka_topic_partition_current_offset"]["0", "orders"] == 20
    assert page["kohort_group_total_lag_records"]["g",] == 15
    assert page["kohort_group_max_lag_seconds"]["g",] > 0
    assert sum(page["kohort_group_rebalances_total"].values()) >= 1, "the journal is there from its beginning"
    assert not [name for name in page if name.startswith("kohort_broker")]


def test_metrics_of_command_equal_metrics_of_broker(run, read, broker):
    outside = rows(run("metrics").stdout)
    with Served("--metrics", "127.0.0.1:0") as served:
        with kohort.Producer(bootstrap_servers=served.bootstrap) as producer:
            producer.send("orders", "x").result(60_000)
        with urllib.request.urlopen(served.ready["metrics"], timeout=20) as answer:
            inside = rows(answer.read().decode())

    of_topics = {name for name in outside if name.startswith("kafka_topic")}
    assert of_topics == {name for name in inside if name.startswith("kafka_topic")}
    assert inside["kafka_topic_partition_current_offset"]["0", "orders"] == 1


def test_served_metrics_follow_cluster_until_sigterm(read, broker):
    command = [sys.executable, "-m", "kohort", "metrics", "--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().split()[-1]
            for _ in range(2):
                with urllib.request.urlopen(url, timeout=20) as answer:
                    page = rows(answer.read().decode())
                assert page["kafka_consumergroup_lag_sum"]["g", "orders"] == 15
            assert "kohort_group_rebalances_total" not in page, "none since it began"
        finally:
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert process.returncode == 130


def test_metrics_of_cluster_without_groups_are_served():
    with kohort.Broker() as empty:
        result = CliRunner().invoke(main, ["metrics", "--bootstrap", empty.bootstrap])

    assert result.exit_code == 0, result.output
    assert rows(result.stdout)["kafka_brokers"][()] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--metrics-compat", "burrow"), "--metrics-compat: unknown metric set 'burrow'; known sets: kafka_exporter"),
        (("--listen", "0.0.0.0:0"), "--listen=0.0.0.0:0 is reachable from other computers"),
        (("--listen", "nowhere"), "--listen='nowhere': expected HOST:PORT"),
    ],
)
def test_metrics_rejects_invalid_options_in_one_line(run, options, words):
    result = run("metrics", *options, code=2)

    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_metrics_reports_unreachable_cluster_in_one_line():
    result = CliRunner().invoke(main, ["metrics", "--bootstrap", "127.0.0.1:1", "--listen", "127.0.0.1:0"])

    assert result.exit_code == 4
    assert "127.0.0.1:1" in result.stderr


def test_metrics_on_public_address_need_allow_anyone():
    result = CliRunner().invoke(main, ["serve", "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"])

    assert result.exit_code in {1, 2}
    assert "allow it with --metrics-allow-anyone (kohort.metrics.allow.anyone=true)" in result.stderr


def test_serve_without_metrics_extra_ends_before_it_creates_data(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = CliRunner().invoke(
        main, ["serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--metrics", "127.0.0.1:0"]
    )

    assert result.exit_code == 1
    assert "pip install 'kohort[metrics]'" in result.stderr
    assert not (tmp_path / "data").exists()


def test_serve_prints_address_of_metrics():
    with (
        Served("--metrics", "127.0.0.1:0", "--metrics-compat", "jmx") as served,
        urllib.request.urlopen(served.ready["metrics"], timeout=20) as answer,
    ):
        page = rows(answer.read().decode())

    assert "kohort_broker_info" in page
    assert "kafka_brokers" not in page
