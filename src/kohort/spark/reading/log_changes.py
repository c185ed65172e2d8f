"""Detects records that were deleted before the query read them, and topics deleted or recreated during a query.

With ``failOnDataLoss=true`` such a loss ends the query with an error. Otherwise the query logs the loss, and continues
after the deleted records, or at the beginning of the recreated topic. A recreated topic has the same name and another
id (KIP-516). The offsets in Spark's checkpoint contain the topic ids. So the query also detects a topic that was
recreated between two runs, unless the brokers have no topic ids.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from kohort.model import TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, by_partition, find_losses
from kohort.spark.reading.cluster import SourceCluster
from kohort.spark.reading.ranges import DataLost, data_lost

log = logging.getLogger(__name__)

IDS_KEY: Final = "kohort:topics"
"""JSON key of the topic ids among the topics in a query's offsets. Topic names have no colon."""

TopicIds = dict[str, str]


def hex_ids(found: Mapping[str, bytes]) -> TopicIds:
    """Convert topic ids to hexadecimal; omit the all-zero ids of brokers without topic ids."""
    return {topic: number.hex() for topic, number in sorted(found.items()) if any(number)}


def with_ids(offsets: Mapping[str, Mapping[str, int]], ids: Mapping[str, str]) -> dict[str, Any]:
    known = {topic: ids[topic] for topic in offsets if topic in ids}
    return {IDS_KEY: known, **offsets} if known else dict(offsets)


def ids_of(offsets: Mapping[str, Mapping[str, Any]]) -> TopicIds:
    return dict(offsets.get(IDS_KEY, {}))


def recreated_topics(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {topic for topic, number in now.items() if before.get(topic, number) != number}


def partitions_of(offsets: Mapping[str, Mapping[str, Any]]) -> PartitionOffsets:
    return by_partition({topic: by for topic, by in offsets.items() if ":" not in topic})


class LogChanges:
    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._deleted: set[TopicPartition] = set()

    def starts_after_loss(
        self, cluster: SourceCluster, begin: Mapping[TopicPartition, int], heads: PartitionOffsets, before: TopicIds
    ) -> PartitionOffsets:
        """Return new start offsets for partitions whose log was truncated or whose topic was recreated.

        ``begin``: offsets of the next records. ``before``: topic ids at the last micro-batch. Raises DataLost for
        truncated, recreated or deleted topics and for deleted records if failOnDataLoss is true. Else logs the loss.
        """
        self._check_deleted(begin, heads)
        replaced = self.check_recreated(cluster, before)
        starts = cluster.earliest(tps) if (tps := [tp for tp in begin if tp.topic in replaced and tp in heads]) else {}
        behind = {tp: o for tp, o in begin.items() if tp in heads and o != heads[tp] and tp not in starts}
        losses = find_losses(behind, cluster.earliest(behind), heads) if behind else []
        if losses and self._fail:
            raise data_lost(losses)
        for loss in losses:
            log.warning("%s (failOnDataLoss=false: continuing)", loss)
            if loss.wanted > loss.latest:
                starts[loss.partition] = loss.earliest
        return starts

    def check_recreated(self, cluster: SourceCluster, before: TopicIds) -> set[str]:
        """Return the topics that were recreated: their ids differ from ``before``.

        Raises DataLost for a recreated topic if failOnDataLoss is true.
        """
        topics = recreated_topics(before, hex_ids(cluster.topic_ids(before)))
        if not topics:
            return topics
        names = ", ".join(sorted(topics))
        if self._fail:
            raise DataLost(
                f"topics recreated since the last micro-batch: {names}. The offsets of the query belong to "
                "the deleted topics. To read the new topics from the beginning, set failOnDataLoss=false "
                "(fail_on_data_loss in a pipeline)"
            )
        log.warning("topics recreated, read from the beginning: %s (failOnDataLoss=false)", names)
        return topics

    def _check_deleted(self, begin: Mapping[TopicPartition, int], heads: PartitionOffsets) -> None:
        self._deleted -= set(heads)
        deleted = sorted(set(begin) - set(heads) - self._deleted)
        if not deleted:
            return
        names = ", ".join(map(str, deleted))
        if self._fail:
            raise DataLost(
                f"partitions deleted while the query runs: {names}. To continue without them, set failOnDataLoss=false"
            )
        log.warning("partitions deleted while the query runs: %s (failOnDataLoss=false: continuing)", names)
        self._deleted |= set(deleted)
