"""Turns earliest, latest, group, times and given offsets into an offset for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.errors import ConfigError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, by_partition
from kohort.spark.options.source import ByTime
from kohort.spark.options.table import EARLIEST, LATEST
from kohort.spark.options.text import Start
from kohort.spark.reading.cluster import SourceCluster

Held = Mapping[TopicPartition, OffsetAndMetadata]


def resolve_start(
    cluster: SourceCluster, partitions: Iterable[TopicPartition], start: Start | ByTime, held: Held, fallback: str
) -> PartitionOffsets:
    """Return the first offset to read of each partition; ``held`` is what the group has committed."""
    wanted = sorted(set(partitions))
    if isinstance(start, ByTime):
        return _resolve_times(cluster, wanted, start, "startingOffsetsByTimestamp")
    if not isinstance(start, str):
        return _resolve_given(cluster, wanted, start, "startingOffsets")
    if start == "group":
        found = {tp: held[tp].offset for tp in wanted if tp in held}
        rest = [tp for tp in wanted if tp not in held]
        return found | (_at(cluster, rest, fallback) if rest else {})
    return _at(cluster, wanted, start)


def resolve_end(
    cluster: SourceCluster, partitions: Iterable[TopicPartition], end: Start | ByTime, held: Held
) -> PartitionOffsets:
    """Return the offset to stop before, for each partition of a batch read. A group's end is where it has read to."""
    wanted = sorted(set(partitions))
    if isinstance(end, ByTime):
        return _resolve_times(cluster, wanted, end, "endingOffsetsByTimestamp")
    if end == "group":
        found = {tp: held[tp].offset for tp in wanted if tp in held}
        return found | _at(cluster, [tp for tp in wanted if tp not in held], "earliest")
    if isinstance(end, str):
        return cluster.latest(wanted)
    return _resolve_given(cluster, wanted, end, "endingOffsets")


def _at(cluster: SourceCluster, partitions: list[TopicPartition], word: str) -> PartitionOffsets:
    if not partitions:
        return {}
    return cluster.earliest(partitions) if word == "earliest" else cluster.latest(partitions)


def _resolve_given(
    cluster: SourceCluster, partitions: list[TopicPartition], given: Mapping[str, Mapping[int, int]], option: str
) -> PartitionOffsets:
    """Return given offsets, which must name exactly the partitions that are read, as with the Kafka connector."""
    flat = by_partition(given)
    _check_names(flat, partitions, option)
    ends = {EARLIEST: "earliest", LATEST: "latest"}
    resolved = {tp: offset for tp, offset in flat.items() if offset >= 0}
    for mark, word in ends.items():
        resolved |= _at(cluster, [tp for tp, offset in flat.items() if offset == mark], word)
    return resolved


def _resolve_times(
    cluster: SourceCluster, partitions: list[TopicPartition], given: ByTime, option: str
) -> PartitionOffsets:
    """Return the first record at or after the time. Where there is none: the end of the log, or an error if it is
    strict."""
    if isinstance(given.times, int):
        times = dict.fromkeys(partitions, given.times)
    else:
        times = by_partition(given.times)
        _check_names(times, partitions, option)
    found = cluster.at_times(times)
    none = sorted(tp for tp in times if tp not in found)
    if none and given.strict:
        raise ConfigError(
            f"{none[0]} has no record at or after time {times[none[0]]}: give an earlier time, or "
            "startingOffsetsByTimestampStrategy=latest"
        )
    return found | _at(cluster, none, "latest")


def _check_names(flat: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str) -> None:
    missing = sorted(set(partitions) - set(flat))
    extra = sorted(set(flat) - set(partitions))
    if missing or extra:
        what = f"no offset for {', '.join(map(str, missing))}" if missing else ""
        more = f"an offset for {', '.join(map(str, extra))}, which is not read" if extra else ""
        raise ConfigError(f"{option}: {' and '.join(filter(None, (what, more)))}")
