"""A page as text: Prometheus' own format or OpenMetrics, as the ``Accept`` header asks. Written by prometheus-client,
which escapes what strangers have named.

It is written on a thread of its own beside a broker: every so often it sleeps for a moment, so that the loop does not
have to wait for Python's lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.extras import needs
from kohort.metrics.catalogue import Known
from kohort.metrics.page import Page, Row

if TYPE_CHECKING:
    from prometheus_client.core import Metric

EXTRA: Final = "metrics"
WHAT: Final = "a page of metrics"
PLAIN: Final = "text/plain"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0"
BREATH_S: Final = 0.000_2
BREATH_EVERY: Final = 100
"""So many lines take about half a millisecond."""


def check_extra() -> None:
    """Raise MissingExtra where prometheus-client is not installed."""
    with needs(EXTRA, WHAT):
        import prometheus_client  # noqa: F401


def form_of(accept: str) -> str:
    """Return which of the forms of a page an ``Accept`` header asks for, as a header that says no more than that."""
    return OPENMETRICS if "application/openmetrics-text" in accept else PLAIN


def text_of(page: Page, form: str = PLAIN, *, of_process: bool = False) -> tuple[bytes, str]:
    """Return a page as text, and its content type. Raises MissingExtra without prometheus-client.

    ``of_process``: a page that is served beside a broker, with what is known of this process (``process_*``).
    """
    with needs(EXTRA, WHAT):
        from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(form)
    return encode(_Collector(page, of_process)), content_type


class _Collector:
    """What prometheus-client asks for metrics."""

    def __init__(self, page: Page, of_process: bool) -> None:
        self._page = page
        self._breathing = of_process

    def collect(self) -> Iterator[Metric]:
        from prometheus_client import ProcessCollector
        from prometheus_client.core import Metric

        if self._breathing:
            yield from ProcessCollector(registry=None).collect()
        for known, rows in self._page.families():
            metric = Metric(known.name.removesuffix("_total"), known.text, known.kind)
            metric.samples = _Samples(known, rows, self._breathing)  # type: ignore[assignment]  # it is iterated over
            yield metric


class _Samples:
    """The samples of one metric, made as they are asked for."""

    def __init__(self, known: Known, rows: Mapping[Row, float], breathing: bool) -> None:
        self._known = known
        self._rows = rows
        self._breathing = breathing

    def __iter__(self) -> Iterator[Any]:
        from prometheus_client.samples import Sample

        name, labels = self._known.name, self._known.labels
        for number, ((end, values), value) in enumerate(self._rows.items()):
            names = (*labels, "le") if end == "_bucket" else labels
            yield Sample(name + end, dict(zip(names, values, strict=True)), value)
            if self._breathing and number % BREATH_EVERY == BREATH_EVERY - 1:
                time.sleep(BREATH_S)
