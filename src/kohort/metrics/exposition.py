"""A page as text: Prometheus' own format or OpenMetrics, as the ``Accept`` header asks. Written by prometheus-client,
which escapes names that clients chose.

Beside a broker a thread of its own makes and writes the page, in small pieces with a pause after each half millisecond,
so that the loop does not wait for Python's lock. It is not written as a whole: to put 200,000 lines together, and to
free them, takes a tenth of a second.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kohort.extras import needs
from kohort.metrics.catalogue import Known
from kohort.metrics.page import EXEMPLAR_LABEL, Exemplar, Page, Row

if TYPE_CHECKING:
    from prometheus_client.core import Metric

T = TypeVar("T")
PAUSE_S: Final = 0.000_2
WORK_NS: Final = 500_000
YOUNGEST: Final = 0


class Pauses:
    """Pauses in the work beside a broker: one after each half millisecond, so that its loop gets Python's lock.

    While a page is made the collector is put off (``aio/serving/garbage.py``). So each pause collects the youngest
    objects, some thousands, which takes a fifth of a millisecond. A pause for each piece of the work would cost more
    than the work: a cluster of 15,000 groups has 45,000 pieces.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.perf_counter_ns, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock_ns = clock_ns
        self._sleep = sleep
        self._until_ns = 0

    def pause(self) -> None:
        """Pause if the last pause was half a millisecond ago."""
        if self._clock_ns() >= self._until_ns:
            gc.collect(YOUNGEST)
            self._sleep(PAUSE_S)
            self._until_ns = self._clock_ns() + WORK_NS

    def between(self, pieces: Iterable[T]) -> Iterator[T]:
        for piece in pieces:
            yield piece
            self.pause()


EXTRA: Final = "metrics"
WHAT: Final = "a page of metrics"
PLAIN: Final = "text/plain"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0"
LINES_AT_ONCE: Final = 100
"""Lines that take about half a millisecond."""
END: Final = b"# EOF\n"


def check_extra() -> None:
    """Raise MissingExtra where prometheus-client is not installed."""
    with needs(EXTRA, WHAT):
        import prometheus_client  # noqa: F401


def form_of(accept: str) -> str:
    """Return which of the forms of a page an ``Accept`` header asks for, as a header that says no more than that."""
    return OPENMETRICS if "application/openmetrics-text" in accept else PLAIN


def text_of(page: Page, form: str = PLAIN, beside: Pauses | None = None) -> tuple[bytes, str]:
    """Return a page as text, and its content type. Raises MissingExtra without prometheus-client.

    ``beside``: pauses of a page that is served beside a broker, and has the metrics of this process (``process_*``).
    """
    with needs(EXTRA, WHAT):
        from prometheus_client import ProcessCollector
        from prometheus_client.core import Metric
        from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(form)
    pieces = []
    if beside is not None:
        pieces.append(encode(ProcessCollector(registry=None)).removesuffix(END))
    for known, rows in page.families():
        exemplars = page.exemplars(known.name) if form == OPENMETRICS else {}
        for number, samples in enumerate(_samples(known, rows, exemplars)):
            metric = Metric(known.name.removesuffix("_total"), known.text, known.kind)
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
    """Some of the samples of one metric, for prometheus-client to collect."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


def _samples(known: Known, rows: Mapping[Row, float], exemplars: Mapping[Row, Exemplar]) -> Iterator[list[Any]]:
    from prometheus_client.samples import Exemplar as Written
    from prometheus_client.samples import Sample

    left = iter(rows.items())
    while piece := list(islice(left, LINES_AT_ONCE)):
        made = []
        for row, value in piece:
            end, values = row
            labels = dict(zip((*known.labels, "le") if end == "_bucket" else known.labels, values, strict=True))
            one = exemplars.get(row)
            told = None if one is None else Written({EXEMPLAR_LABEL: one.id}, one.value, one.at_ms / 1000)
            made.append(Sample(known.name + end, labels, value, None, told))
        yield made
