"""Metrics page as text. The ``Accept`` header of the scrape selects the Prometheus format or OpenMetrics.

The package prometheus-client writes the text and escapes names. A page of a running broker is built on another thread,
in small pieces. After each half millisecond of work the thread sleeps, so that the broker's event loop gets Python's
global lock. Without sleep, writing 200,000 lines takes a tenth of a second.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.extras import needs
from kohort.metrics.catalogue import MetricSpec
from kohort.metrics.page import EXEMPLAR_LABEL, Exemplar, Page, Row

if TYPE_CHECKING:
    from prometheus_client.core import Metric

T = TypeVar("T")
PAUSE_S: Final = 0.000_2
WORK_NS: Final = 500_000
YOUNGEST: Final = 0


class Pauses:
    """Pauses of a thread that works beside a broker's event loop: one pause after each half millisecond of work.

    Garbage collection is postponed while a page is built (``aio/serving/garbage.py``). Therefore each pause collects
    the youngest objects, which takes a fifth of a millisecond. A pause after every piece of a page would cost more
    than the work: the page of 15,000 groups has 45,000 pieces.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.perf_counter_ns, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._until_ns = 0

    def pause(self) -> None:
        if self._clock_ns() >= self._until_ns:
            gc.collect(YOUNGEST)
            self._sleep(PAUSE_S)
            self._until_ns = self._clock_ns() + WORK_NS

    def between(self, pieces: Iterable[T]) -> Iterator[T]:
        for piece in pieces:
            yield piece
            self.pause()


EXTRA: Final = "metrics"
FEATURE: Final = "a page of metrics"
PLAIN: Final = "text/plain"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0"
LINES_AT_ONCE: Final = 100
"""Number of samples that take about half a millisecond to write."""
END: Final = b"# EOF\n"


def check_extra() -> None:
    with needs(EXTRA, FEATURE):
        import prometheus_client  # noqa: F401


def page_format(accept: str) -> str:
    return OPENMETRICS if "application/openmetrics-text" in accept else PLAIN


def render_page(page: Page, form: str = PLAIN, beside: Pauses | None = None) -> tuple[bytes, str]:
    """Return a page as text, and its content type. Raises MissingExtra without prometheus-client.

    With ``beside``, writing pauses for the broker's event loop, and the page also has ``process_*`` metrics.
    """
    with needs(EXTRA, FEATURE):
        from prometheus_client import ProcessCollector
        from prometheus_client.core import Metric
        from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(form)
    pieces = []
    if beside is not None:
        pieces.append(encode(ProcessCollector(registry=None)).removesuffix(END))
    for spec, rows in page.families():
        exemplars = page.exemplars(spec.name) if form == OPENMETRICS else {}
        for number, samples in enumerate(_samples(spec, rows, exemplars)):
            metric = Metric(spec.name.removesuffix("_total"), spec.help, spec.kind)
            metric.samples = samples
            written = encode(_Piece(metric)).removesuffix(END)
            pieces.append(_without_head(written) if number else written)
            if beside is not None:
                beside.pause()
    if form == OPENMETRICS:
        pieces.append(END)
    return b"".join(pieces), content_type


def _without_head(written: bytes) -> bytes:
    at = 0
    while written.startswith(b"# ", at):
        at = written.index(b"\n", at) + 1
    return written[at:]


class _Piece:
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


def _samples(spec: MetricSpec, rows: Mapping[Row, float], exemplars: Mapping[Row, Exemplar]) -> Iterator[list[Any]]:
    from prometheus_client.samples import Exemplar as Written
    from prometheus_client.samples import Sample

    left = iter(rows.items())
    while piece := list(islice(left, LINES_AT_ONCE)):
        made = []
        for row, value in piece:
            end, values = row
            labels = dict(zip((*spec.labels, "le") if end == "_bucket" else spec.labels, values, strict=True))
            one = exemplars.get(row)
            written = None if one is None else Written({EXEMPLAR_LABEL: one.id}, one.value, one.at_ms / 1000)
            made.append(Sample(spec.name + end, labels, value, None, written))
        yield made
