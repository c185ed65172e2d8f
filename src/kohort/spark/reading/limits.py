"""How much of the backlog a micro-batch takes: at most so many records or bytes, and at least so many or none yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kohort.model import TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, share_limit
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading.cluster import SourceCluster

SAMPLED_MOST: Final = 4
"""Partitions whose records are weighed for one micro-batch: those with the most to read."""
SAMPLE_AGE_S: Final = 10.0


class BatchLimits:
    """One query's limits. ``now`` and ``pause`` are seconds, given so that tests need not wait."""

    def __init__(self, options: SourceOptions, now: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._options = options
        self._now = now
        self._pause = pause
        self._last_batch: float | None = None
        self._weights: dict[TopicPartition, tuple[float, float]] = {}

    def end(
        self, cluster: SourceCluster, begin: PartitionOffsets, heads: PartitionOffsets, *, finite: bool
    ) -> PartitionOffsets:
        """Return where the next micro-batch ends. ``finite``: no more than ``heads`` will come, so nothing is waited
        for."""
        backlog = {tp: head - begin.get(tp, head) for tp, head in heads.items() if head > begin.get(tp, head)}
        if not finite and self._too_few(sum(backlog.values())):
            return {tp: begin[tp] for tp in heads if tp in begin}
        if backlog:
            self._last_batch = self._now()
        most = self._options.max_offsets_per_trigger
        if self._options.max_bytes_per_trigger and backlog:
            fit = self._rows_of_bytes(cluster, begin, backlog, self._options.max_bytes_per_trigger)
            most = fit if most is None else min(most, fit)
        return heads if most is None else share_limit(begin, heads, most)

    def _too_few(self, rows: int) -> bool:
        """Tell whether to wait for more, and wait a little, because Spark asks again at once."""
        least, delay_s = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms / 1000
        if not least or not rows or rows >= least:
            return False
        # As the connector does, the first micro-batch is not delayed.
        left = 0.0 if self._last_batch is None else self._last_batch + delay_s - self._now()
        if left <= 0:
            return False
        self._pause(min(left, self._options.idle_wait_ms / 1000))
        return True

    def _rows_of_bytes(
        self, cluster: SourceCluster, begin: PartitionOffsets, backlog: PartitionOffsets, most_bytes: int
    ) -> int:
        """Return how many records are about ``most_bytes``, from the mean size of records at the beginning of the
        backlog."""
        largest = sorted(backlog, key=lambda tp: (-backlog[tp], tp))[:SAMPLED_MOST]
        self._weigh(cluster, begin, largest)
        known = [(self._weights[tp][0], backlog[tp]) for tp in largest if tp in self._weights]
        rows = sum(n for _, n in known)
        mean = sum(weight * n for weight, n in known) / rows if rows else 0.0
        return max(1, int(most_bytes / mean)) if mean else sum(backlog.values())

    def _weigh(self, cluster: SourceCluster, begin: PartitionOffsets, partitions: Iterable[TopicPartition]) -> None:
        now = self._now()
        for tp in partitions:
            if tp not in self._weights or now - self._weights[tp][1] > SAMPLE_AGE_S:
                mean = cluster.mean_bytes(tp, begin[tp])
                if mean:
                    self._weights[tp] = (mean, now)
