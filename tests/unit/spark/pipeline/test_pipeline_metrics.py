"""What Prometheus reads of a pipeline."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from kohort.errors import ConfigError
from kohort.spark.pipeline.ledger import Count, Entry
from kohort.spark.pipeline.metrics import Metrics, served


def test_micro_batches_are_counted_by_sink_and_served_while_the_block_runs() -> None:
    metrics = Metrics("orders", now=lambda: 12.5)
    entry = Entry(0, rows_in=Count(7), dead_letters=2, dropped={"negative": Count(1)}, sinks={"table": 4, "topic": 4})
    entry.redelivered, entry.late = 3, 1
    metrics.entry_done(entry)
    metrics.entry_done(entry)

    with served(metrics, "127.0.0.1:0") as url, urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url.replace("/metrics", "/"), timeout=10)

    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines == [
        'kohort_pipeline_rows_in_total{pipeline="orders"} 14',
        'kohort_pipeline_rows_out_total{pipeline="orders",sink="table"} 8',
        'kohort_pipeline_rows_out_total{pipeline="orders",sink="topic"} 8',
        'kohort_pipeline_dead_letters_total{pipeline="orders"} 4',
        'kohort_pipeline_dropped_total{pipeline="orders"} 2',
        'kohort_pipeline_late_total{pipeline="orders"} 2',
        'kohort_pipeline_redelivered_total{pipeline="orders"} 6',
        'kohort_pipeline_batches_total{pipeline="orders"} 2',
        'kohort_pipeline_last_batch_timestamp_seconds{pipeline="orders"} 12.5',
        'kohort_pipeline_last_batch_rows{pipeline="orders"} 7',
    ]
    assert "# TYPE kohort_pipeline_rows_in_total counter" in text


def test_a_port_that_is_taken_is_told_with_its_address() -> None:
    with served(Metrics("orders"), "127.0.0.1:0") as url:
        address = url.removeprefix("http://").removesuffix("/metrics")
        taken = f"metrics: cannot listen on {address}: Address already in use; is another run there"
        with pytest.raises(ConfigError, match=taken), served(Metrics("orders"), address):
            pass
