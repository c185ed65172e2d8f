"""Prometheus metrics of a running pipeline over HTTP.

Needs ``metrics: {http: 127.0.0.1:9108}`` in the pipeline file.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kohort.config.listeners import parse_listener
from kohort.errors import ConfigError
from kohort.extras import needs
from kohort.spark.pipeline.ledger import Entry

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from prometheus_client.core import Metric

_PREFIX: Final = "kohort_pipeline_"
_BY_SINK: Final = "rows_out_total"
_HELP: Final = {
    "rows_in_total": "Rows read.",
    _BY_SINK: "Rows written to a sink.",
    "dead_letters_total": "Acknowledged dead letters.",
    "dropped_total": "Rows that a rule dropped.",
    "late_total": "Rows after their watermark, left out of windows and joins.",
    "redelivered_total": "Rows that may have been delivered before.",
    "batches_total": "Completed micro-batches.",
    "last_batch_timestamp_seconds": "Time of the last completed micro-batch.",
    "last_batch_rows": "Rows of the last completed micro-batch.",
}


class Metrics:
    """Row counts of one pipeline run, as Prometheus metrics.

    The class does not use Counter of the package prometheus-client: each Counter would add a series ``_created``.
    """

    def __init__(self, pipeline: str, now: Callable[[], float] = time.time) -> None:
        self._pipeline = pipeline
        self._now = now
        self._lock = threading.Lock()
        self._values: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._values |= {(name, ""): 0 for name in _HELP if name.endswith("_total") and name != _BY_SINK}

    def entry_done(self, entry: Entry) -> None:
        with self._lock:
            for sink, rows in entry.sinks.items():
                self._values[_BY_SINK, sink] += rows
            self._values["rows_in_total", ""] += entry.rows_in.rows
            self._values["dead_letters_total", ""] += entry.dead_letters
            self._values["dropped_total", ""] += sum(count.rows for count in entry.dropped.values())
            self._values["late_total", ""] += entry.late
            self._values["redelivered_total", ""] += entry.redelivered
            self._values["batches_total", ""] += 1
            self._values["last_batch_rows", ""] = entry.rows_in.rows
            self._values["last_batch_timestamp_seconds", ""] = self._now()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            values = sorted(self._values.items())
        for name, doc in _HELP.items():
            found = [(sink, value) for (known, sink), value in values if known == name]
            labels = ["pipeline", "sink"] if name == _BY_SINK else ["pipeline"]
            family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            metric = family(_PREFIX + name, doc, labels=labels)
            for sink, value in found:
                metric.add_metric([self._pipeline, sink][: len(labels)], value)
            if found:
                yield metric


@contextmanager
def serve_metrics(metrics: Metrics, address: str) -> Iterator[str]:
    """Serve ``/metrics`` on ``address`` (HOST:PORT) until the ``with`` block ends. Yield the URL.

    Raises ConfigError if the port is in use, MissingExtra if prometheus-client is not installed.
    """
    with needs("pipeline", "metrics of a pipeline"):
        from prometheus_client import CollectorRegistry, make_wsgi_app, start_wsgi_server

    registry = CollectorRegistry()
    registry.register(metrics)
    host, port = parse_listener(address, "metrics: http")
    host = host or "0.0.0.0"
    try:
        server, thread = start_wsgi_server(port, host, registry)
    except OSError as error:
        raise ConfigError(f"metrics: cannot listen on {address}: {error.strerror}; does another run use it?") from None
    server.set_app(_only_metrics_path(make_wsgi_app(registry)))
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _only_metrics_path(metrics: WSGIApplication) -> WSGIApplication:

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") == "/metrics":
            return metrics(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [b"/metrics\n"]

    return answer
