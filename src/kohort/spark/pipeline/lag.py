"""Where a source stands: its partitions, what the group has read of each, and what waits. Needs brokers, not Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kohort.model import TopicPartition
from kohort.spark.pipeline.definition import Source
from kohort.spark.pipeline.running.source_options import lookup_options
from kohort.spark.reading.cluster import KohortCluster, wanted_partitions


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition: the log from ``earliest`` to ``latest``, and what the group committed (None: nothing)."""

    earliest: int
    latest: int
    committed: int | None

    @property
    def lag(self) -> int:
        """What the group has not read: all that is there, where it has committed nothing."""
        return self.latest - (self.earliest if self.committed is None else max(self.committed, self.earliest))


@dataclass(frozen=True, slots=True)
class SourceLag:
    """A source and its partitions."""

    name: str
    group: str
    partitions: dict[TopicPartition, PartitionLag] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        return sum(p.lag for p in self.partitions.values())

    def sentence(self) -> str:
        topics = sorted({tp.topic for tp in self.partitions})
        what = f"{', '.join(topics)}, {len(self.partitions)} partitions"
        if not self.group:
            return f"{what}, no group, {self.waiting:,} rows there"
        return f"{what}, group {self.group}, lag {self.waiting:,}"

    def as_json(self) -> dict[str, Any]:
        partitions = {
            str(tp): {"earliest": p.earliest, "latest": p.latest, "committed": p.committed, "lag": p.lag}
            for tp, p in sorted(self.partitions.items())
        }
        return {"name": self.name, "group": self.group, "lag": self.waiting, "partitions": partitions}


def source_lag(source: Source) -> SourceLag:
    """Ask the brokers. Raises ApiError for a topic that does not exist, ConnectionFailed where nobody answers."""
    options = lookup_options(source)
    cluster = KohortCluster(options)
    try:
        partitions = wanted_partitions(cluster, options)
        held = cluster.committed(partitions) if source.group else {}
        earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    finally:
        cluster.close()
    found = {tp: PartitionLag(earliest[tp], latest[tp], held[tp].offset if tp in held else None) for tp in partitions}
    return SourceLag(source.name, source.group, found)
