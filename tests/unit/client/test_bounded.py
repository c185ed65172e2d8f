"""Counts by names: as many as there may be, the oldest goes first."""

from __future__ import annotations

from kohort.client.metrics.bounded import CountsByName
from kohort.client.metrics.reading import COMMITTED_MOST, ReadingMetrics
from kohort.model import OffsetAndMetadata, TopicPartition


def test_names_beyond_the_bound_take_the_place_of_the_oldest():
    counts: CountsByName[str, list[int]] = CountsByName(list, 2)
    counts["a"].append(1)
    counts["b"].append(2)

    assert counts["a"] == [1]
    assert counts["c"] == []
    assert list(counts) == ["b", "c"]
    assert counts["a"] == []


def test_commits_of_ever_new_partitions_do_not_grow_for_ever():
    metrics = ReadingMetrics()
    at = OffsetAndMetadata(1)
    for topic in ("a", "b"):
        metrics.wrote({TopicPartition(topic, n): at for n in range(COMMITTED_MOST // 2)})
    assert len(metrics.committed) == COMMITTED_MOST

    metrics.wrote({TopicPartition("c", 0): at})

    assert metrics.committed == {TopicPartition("c", 0): 1}
