"""A page: rows of metrics, each once, of names that the catalogue has, and no more of them than may be.

Names of groups, topics and clients come from strangers. What is no Unicode is written as Python writes it, and a very
long name is cut: with 32 KB each, a few would fill a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from kohort.metrics.catalogue import CATALOGUE, Known

SERIES_MOST: Final = 200_000
"""How many rows a page has at most, unless told otherwise."""
FREED_AT_ONCE: Final = 500
LABEL_MOST: Final = 256
"""Characters of a label's value: topics have 249 at most."""

DROPPED: Final = "kohort_metrics_dropped_series"

Row = tuple[str, tuple[str, ...]]
"""The end of a sample's name (``_bucket``) and the values of its labels."""


EXEMPLAR_LABEL: Final = "rebalance"
EXEMPLAR_MOST: Final = 128 - len(EXEMPLAR_LABEL)
"""Characters of an exemplar's label: with its name 128 (OpenMetrics); what is longer has none."""
HARD_TO_READ: Final = frozenset('"\\\n#{}')
"""In an exemplar: readers of OpenMetrics, prometheus-client's own among them, take some for its end."""


class Exemplar(NamedTuple):
    """A rebalance that a counter or a bucket has counted: the id by which findings know it, and when it opened."""

    id: str
    at_ms: int
    value: float = 1.0
    """Seconds, in a histogram."""


class Page:
    """Rows by metric. What is added first has room first."""

    def __init__(self, most: int = SERIES_MOST) -> None:
        self._most = most
        self._rows: dict[str, dict[Row, float]] = {}
        self._exemplars: dict[str, dict[Row, Exemplar]] = {}
        self._held = 0
        self.dropped = 0
        """Rows for which there was no room."""

    def add(self, name: str, value: float | None, *labels: object) -> None:
        """Add a row; without a value there is none."""
        if value is None:
            return
        if self._held >= self._most:
            self.dropped += 1  # before the labels are made: most rows of a large cluster end here
            return
        self._put(name, "", tuple(map(label, labels)), value)

    def add_histogram(self, name: str, sums: Mapping[float, int], total: float, *labels: object) -> None:
        """Add a histogram: how many took at most as long as each bound, the last of which is infinite; and how long all
        took together."""
        if self._held + len(sums) + 2 > self._most:
            self.dropped += len(sums) + 2
            return
        told = tuple(map(label, labels))
        for bound, count in sums.items():
            self._put(name, "_bucket", (*told, _bound(bound)), count)
            last = count
        self._put(name, "_sum", told, total)
        self._put(name, "_count", told, last)

    def exemplify(self, name: str, exemplar: Exemplar, *labels: object, bound: float | None = None) -> None:
        """Give an exemplar to a counter that has a row, or to the bucket of a histogram with that bound."""
        told = tuple(map(label, labels))
        row = ("", told) if bound is None else ("_bucket", (*told, _bound(bound)))
        known = exemplar._replace(id=label(exemplar.id))
        is_plain = len(known.id) <= EXEMPLAR_MOST and HARD_TO_READ.isdisjoint(known.id)
        if is_plain and row in self._rows.get(name, ()):
            self._exemplars.setdefault(name, {})[row] = known

    def exemplars(self, name: str) -> Mapping[Row, Exemplar]:
        """Return the exemplars of a metric."""
        return self._exemplars.get(name, {})

    def _put(self, name: str, end: str, labels: tuple[str, ...], value: float) -> None:
        rows = self._rows.get(name)
        if rows is None:
            assert name in CATALOGUE, f"{name} is not in the catalogue"
            rows = self._rows[name] = {}
        elif (end, labels) in rows:
            return  # two names that look alike, once they are made harmless
        rows[end, labels] = value
        self._held += 1

    def let_go(self) -> Iterator[None]:
        """Forget all rows, in steps: at once a large page takes a quarter of a second, in which nobody else works."""
        held: list[dict[Row, Any]] = [*self._rows.values(), *self._exemplars.values()]
        for rows in held:
            while rows:
                for row in list(islice(rows, FREED_AT_ONCE)):
                    del rows[row]
                yield

    def finish(self) -> None:
        """Add how many rows were dropped: the one row for which there is always room."""
        self._rows[DROPPED] = {("", ()): self.dropped}

    def __len__(self) -> int:
        return self._held

    def families(self) -> Iterator[tuple[Known, Mapping[Row, float]]]:
        """Yield each metric that has rows, in the order of the catalogue."""
        for name, known in CATALOGUE.items():
            if rows := self._rows.get(name):
                yield known, rows

    def value(self, name: str, *labels: object, end: str = "") -> float | None:
        """Return the value of a row, for tests; None where there is none."""
        return self._rows.get(name, {}).get((end, tuple(map(str, labels))))


def _bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))


def label(value: object) -> str:
    """Return a label's value as a page has it."""
    text = str(value)
    if len(text) > LABEL_MOST:
        mark = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        text = f"{text[: LABEL_MOST - 12]}...~{mark}"
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode()
    return text


def bounded(by_size: Sequence[int], bounds: Sequence[float]) -> dict[float, int]:
    """Return how many are at most as large as each bound, and as infinity: what ``add_histogram`` takes. ``by_size``
    has the numbers between the bounds, and above the last."""
    sums: dict[float, int] = {}
    so_far = 0
    for bound, count in zip((*bounds, float("inf")), by_size, strict=True):
        so_far += count
        sums[bound] = so_far
    return sums
