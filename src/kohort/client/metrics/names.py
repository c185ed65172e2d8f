"""Snapshot of a client's metrics, which ``metrics()`` returns: a mapping of Kafka's metric names to values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kohort.errors import UsageError
from kohort.nearest import did_you_mean

MetricValue = float | str


class MetricName(NamedTuple):
    """Name of a metric as in Kafka's Java clients: ``name`` in ``group``, with ``tags`` as (name, value) pairs."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]

    def tag(self, name: str) -> str | None:
        """Return the value of a tag such as ``client-id``, ``topic`` or ``node-id``; None without such a tag."""
        return next((value for key, value in self.tags if key == name), None)


class MetricsSnapshot(Mapping[MetricName, MetricValue]):
    """Snapshot of a client's metrics: a mapping of names to numbers.

    A number without a recent value is NaN. The value of ``last-rebalance-reason`` is text.
    """

    def __init__(self, kind: str, client_id: str, at_ms: int) -> None:
        self.kind = kind
        self.client_id = client_id
        self.at_ms = at_ms
        self._values: dict[MetricName, MetricValue] = {}

    def __getitem__(self, name: MetricName) -> MetricValue:
        return self._values[name]

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, name: str, group: str | None = None, **tags: object) -> MetricValue:
        """Return one metric value: ``metrics.value("records-lag", topic="orders", partition=0)``.

        ``tags``: tag names with underscores in place of dashes. ``group``: needed only if several metric groups contain
        the name. Without tags, return the metric of the whole client. Raises UsageError unless exactly one metric
        matches.
        """
        requested = {key.replace("_", "-"): str(value) for key, value in tags.items()}
        named = [n for n in self._values if n.name == name and group in (None, n.group)]
        if not named:
            where = f" in the group {group!r}" if group else ""
            near = did_you_mean(name, sorted({n.name for n in self._values}))
            raise UsageError(f"unknown metric {name!r}{where}{near}")
        found = [n for n in named if requested.items() <= dict(n.tags).items()]
        fewest = min((len(n.tags) for n in found), default=0)
        found = [n for n in found if len(n.tags) == fewest]
        if len(found) != 1:
            several = "; ".join(f"{n.group} {dict(n.tags[1:])}" for n in (found or named)[:5])
            raise UsageError(
                f"{len(found)} metrics have the name {name!r} and the tags {requested}: expected one of {several}"
            )
        return self._values[found[0]]

    def put(self, group: str, name: str, value: MetricValue, **tags: str) -> None:
        """Add a metric value; ``tags`` are tag names with underscores in place of dashes."""
        pairs = (("client-id", self.client_id), *((key.replace("_", "-"), text) for key, text in tags.items()))
        self._values[MetricName(name, group, pairs)] = value if isinstance(value, str) else float(value)
