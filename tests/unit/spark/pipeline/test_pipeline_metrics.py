from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kohort.errors import ConfigError
from kohort.spark.pipeline.ledger import Count, Entry
from kohort.spark.pipeline.metrics import Metrics, serve_metrics


def test_pipeline_metrics_count_rows_and_micro_batches_and_are_served_by_http() -> None:
    metrics = Metrics("orders", now=lambda: 12.5)
    entry = Entry(0, rows_in=Count(7), dead_letters=2, dropped={"negative": Count(1)}, sinks={"table": 4, "topic": 4})
    entry.redelivered, entry.late = 3, 1
    metrics.entry_done(entry)
    metrics.entry_done(entry)

    with serve_metrics(metrics, "127.0.0.1:0") as url, urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url.replace("/metrics", "/"), timeout=10)

    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        'kohort_pipeline_rows_in_total{pipeline="orders"} 14.0',
        'kohort_pipeline_rows_out_total{pipeline="orders",sink="table"} 8.0',
        'kohort_pipeline_rows_out_total{pipeline="orders",sink="topic"} 8.0',
        'kohort_pipeline_dead_letters_total{pipeline="orders"} 4.0',
        'kohort_pipeline_dropped_total{pipeline="orders"} 2.0',
        'kohort_pipeline_late_total{pipeline="orders"} 2.0',
        'kohort_pipeline_redelivered_total{pipeline="orders"} 6.0',
        'kohort_pipeline_batches_total{pipeline="orders"} 2.0',
        'kohort_pipeline_last_batch_timestamp_seconds{pipeline="orders"} 12.5',
        'kohort_pipeline_last_batch_rows{pipeline="orders"} 7.0',
    ]
    assert "# TYPE kohort_pipeline_rows_in_total counter" in text


def test_error_of_a_metrics_port_in_use_names_its_address() -> None:
    with serve_metrics(Metrics("orders"), "127.0.0.1:0") as url:
        address = url.removeprefix("http://").removesuffix("/metrics")
        taken = f"metrics: cannot listen on {address}: Address already in use; does another run use it"
        with pytest.raises(ConfigError, match=taken), serve_metrics(Metrics("orders"), address):
            pass


def test_metrics_escape_special_characters_in_sink_names() -> None:
    metrics, sink = Metrics("orders"), 'a "table"\nrows_out_total{sink="b"} 9\\'
    metrics.entry_done(Entry(0, rows_in=Count(3), sinks={sink: 3}))

    with serve_metrics(metrics, "127.0.0.1:0") as url, urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()

    read = [sample for metric in text_string_to_metric_families(text) for sample in metric.samples]
    out = [sample for sample in read if sample.name == "kohort_pipeline_rows_out_total"]
    assert [(sample.labels, sample.value) for sample in out] == [({"pipeline": "orders", "sink": sink}, 3)]
    assert {sample.name for sample in read} >= {"kohort_pipeline_batches_total", "kohort_pipeline_last_batch_rows"}


def test_metrics_are_served_on_all_interfaces_if_the_address_has_no_host() -> None:
    with serve_metrics(Metrics("orders"), ":0") as url:
        assert url.startswith("http://0.0.0.0:")
