"""Turns earliest, latest, group and given offsets into an offset for each partition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.errors import ConfigError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.cluster import Cluster
from kohort.spark.offsets import by_partition
from kohort.spark.options import EARLIEST, LATEST, Start


def resolve_start(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    start: Start,
    held: Mapping[TopicPartition, OffsetAndMetadata],
    fallback: str,
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition; ``held`` is what the group has committed."""
    wanted = sorted(set(partitions))
    if not isinstance(start, str):
        return _resolve_given(cluster, wanted, start, "startingOffsets")
    if start == "group":
        found = {tp: held[tp].offset for tp in wanted if tp in held}
        rest = [tp for tp in wanted if tp not in held]
        return found | (_at(cluster, rest, fallback) if rest else {})
    return _at(cluster, wanted, start)


def resolve_end(cluster: Cluster, partitions: Iterable[TopicPartition], end: Start) -> dict[TopicPartition, int]:
    """The offset to stop before, for each partition of a batch read."""
    wanted = sorted(set(partitions))
    if isinstance(end, str):
        return cluster.latest(wanted)
    return _resolve_given(cluster, wanted, end, "endingOffsets")


def _at(cluster: Cluster, partitions: list[TopicPartition], word: str) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    return cluster.earliest(partitions) if word == "earliest" else cluster.latest(partitions)


def _resolve_given(
    cluster: Cluster, partitions: list[TopicPartition], given: Mapping[str, Mapping[int, int]], option: str
) -> dict[TopicPartition, int]:
    """Given offsets must name exactly the partitions that are read, as the Kafka connector demands."""
    flat = by_partition(given)
    missing = sorted(set(partitions) - set(flat))
    extra = sorted(set(flat) - set(partitions))
    if missing or extra:
        what = f"no offset for {', '.join(map(str, missing))}" if missing else ""
        more = f"an offset for {', '.join(map(str, extra))}, which is not read" if extra else ""
        raise ConfigError(f"{option}: {' and '.join(filter(None, (what, more)))}")
    ends = {EARLIEST: "earliest", LATEST: "latest"}
    resolved = {tp: offset for tp, offset in flat.items() if offset >= 0}
    for mark, word in ends.items():
        resolved |= _at(cluster, [tp for tp, offset in flat.items() if offset == mark], word)
    return resolved
