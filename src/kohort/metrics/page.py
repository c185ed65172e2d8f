"""Content of a metrics page: the samples of each metric. No sample occurs twice, and the number of samples is limited.

Clients choose the names of groups, topics and clients. Invalid Unicode in a name is escaped as in Python. A label value
has at most 256 characters, because a few names of 32 KB would fill a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from kohort.metrics.catalogue import CATALOGUE, MetricSpec

SERIES_MOST: Final = 200_000
FREED_AT_ONCE: Final = 500
LABEL_MOST: Final = 256
"""Maximum length of a label value, in characters; a topic name has at most 249."""

DROPPED: Final = "kohort_metrics_dropped_series"

Row = tuple[str, tuple[str, ...]]


EXEMPLAR_LABEL: Final = "rebalance"
EXEMPLAR_MOST: Final = 128 - len(EXEMPLAR_LABEL)
"""Maximum length of a rebalance id in an exemplar. OpenMetrics allows 128 characters, including the label name."""
UNSAFE_IN_EXEMPLARS: Final = frozenset('"\\\n#{}')
"""Characters at which some OpenMetrics parsers (also prometheus-client) end an exemplar too early."""


class Exemplar(NamedTuple):
    """Exemplar of a counter or of a histogram bucket: id and start time of a rebalance."""

    id: str
    at_ms: int
    value: float = 1.0
    """Value of the exemplar: in a histogram, the duration of the rebalance in seconds; in a counter, 1."""


class Page:
    """Samples of each metric. A full page drops further samples."""

    def __init__(self, most: int = SERIES_MOST) -> None:
        self._most = most
        self._rows: dict[str, dict[Row, float]] = {}
        self._exemplars: dict[str, dict[Row, Exemplar]] = {}
        self._held = 0
        self.dropped = 0

    def add(self, name: str, value: float | None, *labels: object) -> None:
        """Add a sample of a metric, unless its value is None."""
        if value is None:
            return
        if self._held >= self._most:
            self.dropped += 1  # on a full page, this check avoids the expensive escaping of labels
            return
        self._put(name, "", tuple(map(label, labels)), value)

    def add_histogram(self, name: str, sums: Mapping[float, int], total: float, *labels: object) -> None:
        """Add a histogram: cumulative count at each bucket bound (the last: infinity), and sum of all values."""
        if self._held + len(sums) + 2 > self._most:
            self.dropped += len(sums) + 2
            return
        labels_text = tuple(map(label, labels))
        for bound, count in sums.items():
            self._put(name, "_bucket", (*labels_text, _bound(bound)), count)
            last = count
        self._put(name, "_sum", labels_text, total)
        self._put(name, "_count", labels_text, last)

    def add_exemplar(self, name: str, exemplar: Exemplar, *labels: object, bound: float | None = None) -> None:
        """Attach an exemplar to a counter's sample, or to the histogram bucket with the given bound."""
        labels_text = tuple(map(label, labels))
        row = ("", labels_text) if bound is None else ("_bucket", (*labels_text, _bound(bound)))
        known = exemplar._replace(id=label(exemplar.id))
        is_plain = len(known.id) <= EXEMPLAR_MOST and UNSAFE_IN_EXEMPLARS.isdisjoint(known.id)
        if is_plain and row in self._rows.get(name, ()):
            self._exemplars.setdefault(name, {})[row] = known

    def exemplars(self, name: str) -> Mapping[Row, Exemplar]:
        return self._exemplars.get(name, {})

    def _put(self, name: str, end: str, labels: tuple[str, ...], value: float) -> None:
        rows = self._rows.get(name)
        if rows is None:
            assert name in CATALOGUE, f"{name} is not in the catalogue"
            rows = self._rows[name] = {}
        elif (end, labels) in rows:
            return  # after escaping, two different names can become the same label value
        rows[end, labels] = value
        self._held += 1

    def clear(self) -> Iterator[None]:
        """Delete the samples of the page in steps. Freeing a large page at once would block threads for 250 ms."""
        held: list[dict[Row, Any]] = [*self._rows.values(), *self._exemplars.values()]
        for rows in held:
            while rows:
                for row in list(islice(rows, FREED_AT_ONCE)):
                    del rows[row]
                yield

    def finish(self) -> None:
        """Add the number of dropped samples as a metric, even if the page is full."""
        self._rows[DROPPED] = {("", ()): self.dropped}

    def __len__(self) -> int:
        return self._held

    def families(self) -> Iterator[tuple[MetricSpec, Mapping[Row, float]]]:
        for name, known in CATALOGUE.items():
            if rows := self._rows.get(name):
                yield known, rows

    def value(self, name: str, *labels: object, end: str = "") -> float | None:
        return self._rows.get(name, {}).get((end, tuple(map(str, labels))))


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))


def label(value: object) -> str:
    text = str(value)
    if len(text) > LABEL_MOST:
        mark = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        text = f"{text[: LABEL_MOST - 12]}...~{mark}"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text


def bounded(by_size: Sequence[int], bounds: Sequence[float]) -> dict[float, int]:
    """Convert the count in each bucket to the cumulative count at each upper bound. The last bound is infinite."""
    sums: dict[float, int] = {}
    so_far = 0
    for bound, count in zip((*bounds, float("inf")), by_size, strict=True):
        so_far += count
        sums[bound] = so_far
    return sums
