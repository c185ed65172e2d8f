"""What may happen to a log under a query: records deleted before they were read, topics deleted or created anew.

``failOnDataLoss=true``: each of these ends the query, saying what was lost. Else it is said once, and reading goes on:
past what was deleted, from the beginning of what was created anew.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kohort.model import TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, find_losses, missing_partitions
from kohort.spark.reading.cluster import SourceCluster
from kohort.spark.reading.ranges import DataLost, data_lost

log = logging.getLogger(__name__)


class LogChanges:
    """What one query has seen of its topics. A new id under an old name is a new topic, however long its log."""

    def __init__(self, *, fail: bool) -> None:
        self._fail = fail
        self._ids: dict[str, bytes] = {}
        self._anew: PartitionOffsets = {}
        self._gone: set[TopicPartition] = set()

    def starts_after_loss(
        self, cluster: SourceCluster, begin: Mapping[TopicPartition, int], heads: PartitionOffsets
    ) -> PartitionOffsets:
        """Return where partitions must start instead of at ``begin``. Raises DataLost where losing fails the query."""
        self._check_gone(begin, heads)
        anew = self._created_anew(cluster, begin, heads)
        behind = {tp: o for tp, o in begin.items() if tp in heads and o != heads[tp] and tp not in anew}
        losses = find_losses(behind, cluster.earliest(behind), heads) if behind else []
        if losses and self._fail:
            raise data_lost(losses)
        for loss in losses:
            log.warning("%s (failOnDataLoss=false: going on)", loss)
            if loss.wanted > loss.latest:
                anew[loss.partition] = loss.earliest
        self._anew = anew
        return anew

    def begun_anew(self, begin: Mapping[TopicPartition, int]) -> PartitionOffsets:
        """Return the starts of the micro-batch under plan that were not those of its offsets."""
        return {tp: offset for tp, offset in self._anew.items() if tp in begin}

    def _check_gone(self, begin: Mapping[TopicPartition, int], heads: PartitionOffsets) -> None:
        gone = [tp for tp in missing_partitions(begin, heads) if tp not in self._gone]
        if not gone:
            return
        names = ", ".join(map(str, gone))
        if self._fail:
            raise DataLost(f"deleted under the query: {names}. To go on without them, set failOnDataLoss=false")
        log.warning("deleted under the query: %s (failOnDataLoss=false: going on)", names)
        self._gone |= set(gone)

    def _created_anew(
        self, cluster: SourceCluster, begin: Mapping[TopicPartition, int], heads: PartitionOffsets
    ) -> PartitionOffsets:
        """Return partitions of topics that have another id than before, and where their logs begin."""
        ids = cluster.topic_ids({tp.topic for tp in heads})
        topics = sorted(t for t, i in ids.items() if self._ids.get(t, i) != i)
        if topics and self._fail:
            raise DataLost(
                f"deleted and created anew under the query: {', '.join(topics)}. To go on from the beginning, set "
                "failOnDataLoss=false"
            )
        self._ids |= ids
        self._gone -= set(heads)
        anew = [tp for tp in begin if tp.topic in topics and tp in heads]
        if anew:
            log.warning("created anew, read from the beginning: %s (failOnDataLoss=false)", ", ".join(topics))
        return cluster.earliest(anew) if anew else {}
