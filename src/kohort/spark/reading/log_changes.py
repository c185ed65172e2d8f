"""Changes of a log under a query: records deleted before they were read, topics deleted or created again.

``failOnDataLoss=true``: each of these ends the query, with an error that names the loss. Else it is logged once, and
reading goes on: past the deleted records, and from the beginning of a topic that was created again. A topic that was
created again has the same name and another id (KIP-516). So the ids of topics are in the offsets of a query, in Spark's
checkpoint, and a topic that was replaced between two runs is noticed too. Offsets of earlier versions, and of brokers
without topic ids, have none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from kohort.model import TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, by_partition, find_losses, missing_partitions
from kohort.spark.reading.cluster import SourceCluster
from kohort.spark.reading.ranges import DataLost, data_lost

IDS_KEY: Final = "kohort:topics"
"""Stands among the topics of a query's offsets; no topic can have this name."""

TopicIds = dict[str, str]
"""The id of each topic, in hexadecimal."""


def known_ids(found: Mapping[str, bytes]) -> TopicIds:
    """Return the ids that a cluster gave; a broker without ids gives zeros."""
    return {topic: number.hex() for topic, number in sorted(found.items()) if any(number)}


def with_ids(offsets: Mapping[str, Mapping[str, int]], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return offsets as Spark keeps them, with the ids of their topics."""
    known = {topic: ids[topic] for topic in offsets if topic in ids}
    return {IDS_KEY: known, **offsets} if known else dict(offsets)


def ids_of(offsets: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    return dict(offsets.get(IDS_KEY, {}))


def other_topics(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the names of topics whose ids differ."""
    return {topic for topic, number in now.items() if before.get(topic, number) != number}


def partitions_of(offsets: Mapping[str, Mapping[str, Any]]) -> PartitionOffsets:
    return by_partition({topic: by for topic, by in offsets.items() if ":" not in topic})


log = logging.getLogger(__name__)


class LogChanges:
    """Compares the offsets and topic ids of a query with the topics of the cluster."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._gone: set[TopicPartition] = set()

    def starts_after_loss(
        self, cluster: SourceCluster, begin: Mapping[TopicPartition, int], heads: PartitionOffsets, before: TopicIds
    ) -> PartitionOffsets:
        """Return where partitions must start instead of at ``begin``; ``before``: the ids of their topics at the last
        micro-batch. Raises DataLost where losing fails the query."""
        self._check_gone(begin, heads)
        replaced = self.replaced_topics(cluster, before)
        starts = cluster.earliest(tps) if (tps := [tp for tp in begin if tp.topic in replaced and tp in heads]) else {}
        behind = {tp: o for tp, o in begin.items() if tp in heads and o != heads[tp] and tp not in starts}
        losses = find_losses(behind, cluster.earliest(behind), heads) if behind else []
        if losses and self._fail:
            raise data_lost(losses)
        for loss in losses:
            log.warning("%s (failOnDataLoss=false: going on)", loss)
            if loss.wanted > loss.latest:
                starts[loss.partition] = loss.earliest
        return starts

    def replaced_topics(self, cluster: SourceCluster, before: TopicIds) -> set[str]:
        """Return the topics that were deleted and created again since they had the ids ``before``. Raises DataLost
        where losing fails the query."""
        topics = other_topics(before, known_ids(cluster.topic_ids(before)))
        if not topics:
            return topics
        names = ", ".join(sorted(topics))
        if self._fail:
            raise DataLost(
                f"deleted and created again since the last micro-batch: {names}. The offsets of the query are those of "
                "the deleted topic. To read the new one from its beginning, set failOnDataLoss=false "
                "(fail_on_data_loss in a pipeline)"
            )
        log.warning("created again, read from the beginning: %s (failOnDataLoss=false)", names)
        return topics

    def _check_gone(self, begin: Mapping[TopicPartition, int], heads: PartitionOffsets) -> None:
        self._gone -= set(heads)
        gone = [tp for tp in missing_partitions(begin, heads) if tp not in self._gone]
        if not gone:
            return
        names = ", ".join(map(str, gone))
        if self._fail:
            raise DataLost(f"deleted under the query: {names}. To go on without them, set failOnDataLoss=false")
        log.warning("deleted under the query: %s (failOnDataLoss=false: going on)", names)
        self._gone |= set(gone)
