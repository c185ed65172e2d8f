"""Prometheus metrics of a running pipeline, over HTTP, where the file asks: ``metrics: {http: 127.0.0.1:9108}``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kohort.config.listeners import parse_listener
from kohort.errors import ConfigError
from kohort.spark.pipeline.ledger import Entry

_HELP = {
    "rows_in_total": "Rows that the pipeline has read.",
    "rows_out_total": "Rows that a sink holds.",
    "dead_letters_total": "Rows that were set aside and acknowledged.",
    "dropped_total": "Rows that a rule dropped.",
    "late_total": "Rows that came after their watermark, and are in no window and no join.",
    "redelivered_total": "Rows that may have been delivered before.",
    "batches_total": "Micro-batches that are done.",
    "last_batch_timestamp_seconds": "When the last micro-batch was done.",
    "last_batch_rows": "Rows of the last micro-batch.",
}


class Metrics:
    """Counts of one run; told of each micro-batch, read by the HTTP threads."""

    def __init__(self, pipeline: str, now: Callable[[], float] = time.time) -> None:
        self._pipeline = pipeline
        self._now = now
        self._lock = threading.Lock()
        self._values: dict[tuple[str, str], float] = {}
        for name in _HELP:
            if name.endswith("_total") and name != "rows_out_total":  # which is of a sink
                self._values[(name, "")] = 0

    def entry_done(self, entry: Entry) -> None:
        with self._lock:
            self._add("rows_in_total", entry.rows_in.rows)
            self._add("dead_letters_total", entry.dead_letters)
            self._add("dropped_total", sum(count.rows for count in entry.dropped.values()))
            self._add("late_total", entry.late)
            self._add("redelivered_total", entry.redelivered)
            self._add("batches_total", 1)
            for sink, rows in entry.sinks.items():
                self._add("rows_out_total", rows, sink)
            self._values[("last_batch_rows", "")] = entry.rows_in.rows
            self._values[("last_batch_timestamp_seconds", "")] = self._now()

    def _add(self, name: str, value: float, sink: str = "") -> None:
        self._values[(name, sink)] = self._values.get((name, sink), 0) + value

    def text(self) -> str:
        """The text that Prometheus reads."""
        with self._lock:
            values = sorted(self._values.items())
        lines = []
        for name, doc in _HELP.items():
            found = [(sink, value) for (known, sink), value in values if known == name]
            if found:
                kind = "counter" if name.endswith("_total") else "gauge"
                lines += [f"# HELP kohort_pipeline_{name} {doc}", f"# TYPE kohort_pipeline_{name} {kind}"]
            for sink, value in found:
                labels = f'pipeline="{self._pipeline}"' + (f',sink="{sink}"' if sink else "")
                lines.append(f"kohort_pipeline_{name}{{{labels}}} {value:.17g}")
        return "\n".join(lines) + "\n"


@contextmanager
def served(metrics: Metrics, address: str) -> Iterator[str]:
    """Serve ``/metrics`` on HOST:PORT while the block runs; yields the URL. Raises ConfigError if the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = metrics.text().encode() if found else b"/metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are no news."""

    try:
        server = ThreadingHTTPServer(parse_listener(address, "metrics: http"), Handler)
    except OSError as error:
        raise ConfigError(f"metrics: cannot listen on {address}: {error.strerror}; is another run there?") from None
    thread = threading.Thread(target=server.serve_forever, name="kohort-metrics", daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    try:
        yield f"http://{host!s}:{port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
