"""Connects the sources of a pipeline to Kafka. Each group belongs to one pipeline.

Two pipelines cannot share a group, since each would overwrite the other's commits. Runs of one pipeline may share a
group if they are its members (``group_mode: member``). The metadata of a commit names the owner, so that a run of
another pipeline in this group is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from kohort.config.client import ConsumerConfig
from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.client import SERVERS, as_spark_options, client_options
from kohort.spark.options.source import SourceOptions
from kohort.spark.pipeline.definition import Pipeline, Source
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, parse_owner
from kohort.spark.reading.cluster import KohortCluster, selected_partitions


def stream_options(source: Source, owner: PipelineOwner | None = None) -> dict[str, str]:
    """Return the ``format("kohort")`` options of a stream source. ``owner``: owner in the commit metadata."""
    options = _options(source) | {"includeHeaders": "true"}
    if source.group and owner is not None:
        options["groupOwner"] = owner.text
    if source.member:
        options["group.mode"] = "member"
        if source.start != "group":
            options["groupFallback"] = source.start
    else:
        options["startingOffsets"] = source.start
    if source.max_rows:
        options["maxOffsetsPerTrigger"] = str(source.max_rows)
    if source.max_bytes:
        options["maxBytesPerTrigger"] = source.max_bytes
    return options


def table_options(source: Source) -> dict[str, str]:
    return _options(source) | {"startingOffsets": "earliest", "includeHeaders": "true"}


def lookup_options(source: Source) -> SourceOptions:
    client = client_options(ConsumerConfig, {**dict(source.kafka), SERVERS: source.brokers})
    del client[SERVERS]
    return SourceOptions(source.brokers, client, group_id=source.group, subscribe=source.topics)


@contextmanager
def source_cluster(source: Source, *, absent_ok: bool = False) -> Iterator[tuple[KohortCluster, set[TopicPartition]]]:
    """Connect kohort's clients to the cluster of a source. Yield the connection and the source's partitions."""
    options = lookup_options(source)
    with closing(KohortCluster(options)) as cluster:
        yield cluster, selected_partitions(cluster, options, absent_ok=absent_ok)


def _options(source: Source) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": source.brokers,
        "subscribe": ",".join(source.topics),
        "failOnDataLoss": str(source.fail_on_data_loss).lower(),
    }
    options |= as_spark_options(source.kafka)
    return options | ({"group.id": source.group} if source.group else {})


@dataclass(frozen=True, slots=True)
class PartitionLag:
    earliest: int
    latest: int
    committed: int | None
    lag: int


@dataclass(frozen=True, slots=True)
class SourceLag:
    name: str
    group: str
    lag: int
    partitions: dict[str, PartitionLag]


def source_lag(source: Source) -> SourceLag:
    """Return the lag of a source's group.

    Raises ApiError for a missing topic, ConnectionFailed if no broker is reachable.
    """
    with source_cluster(source) as (cluster, partitions):
        commits = cluster.committed(partitions) if source.group else {}
        earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    found = {}
    for tp in sorted(partitions):
        committed = commits[tp].offset if tp in commits else None
        lag = latest[tp] - max(committed or 0, earliest[tp])
        found[str(tp)] = PartitionLag(earliest[tp], latest[tp], committed, lag)
    return SourceLag(source.name, source.group, sum(partition.lag for partition in found.values()), found)


def check_groups(pipeline: Pipeline, owner: PipelineOwner) -> None:
    """Raise KohortError if the group of a stream source has commits of another pipeline."""
    for source in pipeline.streams:
        if not source.group or source.member:
            continue
        with source_cluster(source, absent_ok=True) as (cluster, partitions):
            refuse_other_owner(source, cluster.committed(partitions), owner)


def refuse_other_owner(
    source: Source, commits: Mapping[TopicPartition, OffsetAndMetadata], owner: PipelineOwner
) -> None:
    """Raise KohortError if another owner committed offsets of the group.

    A reset checkpoint is a new owner with the same pipeline name and checkpoint path: it may continue with the group.
    """
    for tp, offset in sorted(commits.items()):
        other = parse_owner(offset.metadata.rpartition(":")[2])
        if other is not None and other.id != owner.id and not other.same_place(owner):
            raise KohortError(
                f"source {source.name}: group {source.group} belongs to {other}, not to {owner}: "
                f"see the metadata of the commit of {tp}. Give this source its own group. If the other pipeline was "
                f"removed, take over its offsets with kohort group reset-offsets {source.group} --to-current --execute"
            )
