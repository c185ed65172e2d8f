"""Refuses a consumer group in which another pipeline keeps its progress.

Commits without membership overwrite each other: the lag of the group would be that of the last commit. Members
(``group_mode: member``) share a group on purpose. Commits of pipelines name their owner, so the next run of
another pipeline can be refused. A commit of any other program names none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.pipeline.definition import Pipeline, Source
from kohort.spark.pipeline.pipeline_owner import PipelineOwner, parse_owner
from kohort.spark.pipeline.running.source_options import lookup_options
from kohort.spark.reading.cluster import KohortCluster, wanted_partitions


def check_groups(pipeline: Pipeline, owner: PipelineOwner) -> None:
    """Raise KohortError for a group of a stream in which another pipeline committed last."""
    for source in pipeline.streams:
        if not source.group or source.member:
            continue
        options = lookup_options(source)
        cluster = KohortCluster(options)
        try:
            held = cluster.committed(wanted_partitions(cluster, options, absent_ok=True))
        finally:
            cluster.close()
        refuse_other_owner(source, held, owner)


def refuse_other_owner(source: Source, held: Mapping[TopicPartition, OffsetAndMetadata], owner: PipelineOwner) -> None:
    """Raise KohortError where the offsets of a group name another pipeline or checkpoint than ``owner``. A checkpoint
    that was reset has the name and the place of the one before it, and goes on with its group."""
    for tp, other in _owners(held.items()):
        if other.id != owner.id and not other.same_place(owner):
            raise KohortError(
                f"source {source.name}: group {source.group} belongs to {other}, which committed {tp}; this is "
                f"{owner}. Give it a group of its own. If the other pipeline is gone, take its offsets over with "
                f"kohort group reset-offsets {source.group} --to-current --execute"
            )


def _owners(held: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> Iterable[tuple[TopicPartition, PipelineOwner]]:
    for tp, offset in sorted(held):
        found = parse_owner(offset.metadata.rpartition(":")[2])
        if found is not None:
            yield tp, found
