"""Start and end offset of each partition of a read, and the limits of a micro-batch in records and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kohort.errors import ConfigError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, by_partition, share_limit
from kohort.spark.options.source import ByTime, SourceOptions
from kohort.spark.options.table import EARLIEST, LATEST, Start
from kohort.spark.reading.cluster import SourceCluster

Commits = Mapping[TopicPartition, OffsetAndMetadata]


def resolve(
    cluster: SourceCluster,
    partitions: Iterable[TopicPartition],
    bound: Start | ByTime,
    option: str,
    committed: Commits,
    fallback: str = "earliest",
) -> PartitionOffsets:
    """Return the offset at which each partition of a read starts or ends, as ``bound`` specifies.

    End offsets are exclusive. ``option``: name of the option with the value ``bound``, for errors. ``committed``:
    committed offsets of the group, used if ``bound`` is "group". ``fallback``: earliest or latest, for partitions
    without a committed offset.
    """
    wanted = sorted(set(partitions))
    if isinstance(bound, ByTime):
        return _resolve_times(cluster, wanted, bound, f"{option}ByTimestamp")
    if not isinstance(bound, str):
        return _resolve_given(cluster, wanted, bound, option)
    if bound != "group":
        return _at(cluster, wanted, bound)
    found = {tp: committed[tp].offset for tp in wanted if tp in committed}
    return found | _at(cluster, [tp for tp in wanted if tp not in committed], fallback)


def _at(cluster: SourceCluster, partitions: list[TopicPartition], word: str) -> PartitionOffsets:
    if not partitions:
        return {}
    return cluster.earliest(partitions) if word == "earliest" else cluster.latest(partitions)


def _resolve_given(
    cluster: SourceCluster, partitions: list[TopicPartition], given: Mapping[str, Mapping[int, int]], option: str
) -> PartitionOffsets:
    flat = by_partition(given)
    _check_names(flat, partitions, option)
    resolved = {tp: offset for tp, offset in flat.items() if offset >= 0}
    for mark, word in ((EARLIEST, "earliest"), (LATEST, "latest")):
        resolved |= _at(cluster, [tp for tp, offset in flat.items() if offset == mark], word)
    return resolved


def _resolve_times(
    cluster: SourceCluster, partitions: list[TopicPartition], given: ByTime, option: str
) -> PartitionOffsets:
    if isinstance(given.times, int):
        times = dict.fromkeys(partitions, given.times)
    else:
        times = by_partition(given.times)
        _check_names(times, partitions, option)
    found = cluster.at_times(times)
    none = sorted(tp for tp in times if tp not in found)
    if none and given.strict:
        raise ConfigError(
            f"{none[0]} has no record at or after timestamp {times[none[0]]}: give an earlier timestamp, "
            "or startingOffsetsByTimestampStrategy=latest"
        )
    return found | _at(cluster, none, "latest")


def _check_names(flat: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str) -> None:
    missing = sorted(set(partitions) - set(flat))
    extra = sorted(set(flat) - set(partitions))
    if missing or extra:
        what = f"no offset for {', '.join(map(str, missing))}" if missing else ""
        more = f"an offset for {', '.join(map(str, extra))}, which is not read" if extra else ""
        raise ConfigError(f"{option}: {' and '.join(filter(None, (what, more)))}")


SAMPLED_MOST: Final = 4
SAMPLE_AGE_S: Final = 10.0


class BatchLimits:
    """Limits of a query's micro-batches. ``now``: clock in seconds. ``pause``: function that sleeps."""

    def __init__(self, options: SourceOptions, now: Callable[[], float], pause: Callable[[float], None]) -> None:
        self._options = options
        self._now = now
        self._pause = pause
        self._last_batch: float | None = None
        self._weights: dict[TopicPartition, tuple[float, float]] = {}
        """Mean record size of each partition in bytes, and the time at which it was measured."""

    def end(
        self, cluster: SourceCluster, begin: PartitionOffsets, heads: PartitionOffsets, *, finite: bool
    ) -> PartitionOffsets:
        """Return the end offsets of the next micro-batch.

        ``finite``: True if the query ends at the log end offsets ``heads``. It then does not wait for further records.
        """
        backlog = {tp: head - begin.get(tp, head) for tp, head in heads.items() if head > begin.get(tp, head)}
        if not finite and self._wait_for_more(sum(backlog.values())):
            return {tp: begin[tp] for tp in heads if tp in begin}
        if backlog:
            self._last_batch = self._now()
        most = self._options.max_offsets_per_trigger
        if self._options.max_bytes_per_trigger and backlog:
            fit = self._rows_of_bytes(cluster, begin, backlog, self._options.max_bytes_per_trigger)
            most = fit if most is None else min(most, fit)
        return heads if most is None else share_limit(begin, heads, most)

    def _wait_for_more(self, rows: int) -> bool:
        least, delay_s = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms / 1000
        if not least or not rows or rows >= least:
            return False
        # As in Spark's Kafka connector, the first micro-batch does not wait for more records.
        left = 0.0 if self._last_batch is None else self._last_batch + delay_s - self._now()
        if left <= 0:
            return False
        self._pause(min(left, self._options.idle_wait_ms / 1000))
        return True

    def _rows_of_bytes(
        self, cluster: SourceCluster, begin: PartitionOffsets, backlog: PartitionOffsets, most_bytes: int
    ) -> int:
        """Estimate how many records fit into ``most_bytes``, from the mean size of the next records."""
        largest = sorted(backlog, key=lambda tp: (-backlog[tp], tp))[:SAMPLED_MOST]
        now = self._now()
        for tp in largest:
            if tp not in self._weights or now - self._weights[tp][1] > SAMPLE_AGE_S:
                mean = cluster.mean_bytes(tp, begin[tp])
                if mean:
                    self._weights[tp] = (mean, now)
        known = [(self._weights[tp][0], backlog[tp]) for tp in largest if tp in self._weights]
        rows = sum(n for _, n in known)
        weighted_mean = sum(mean * n for mean, n in known) / rows if rows else 0.0
        return max(1, int(most_bytes / weighted_mean)) if weighted_mean else sum(backlog.values())
