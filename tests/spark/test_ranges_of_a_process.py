"""Small and large offset ranges, read one after another in the same process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.spark.options.offsets import Range
from kohort.spark.options.source import parse_source_options
from kohort.spark.reading.cluster import KohortCluster
from kohort.spark.reading.ranges import read_ranges
from kohort.spark.values.columns import arrow_schema
from kohort.spark.values.row_builders import RecordRowBuilder

COLUMNS = ("value", "offset")


def rows_of(cluster: KohortCluster, ranges: Sequence[Range]) -> list[tuple[int, int]]:
    found = []
    for batch in read_ranges(cluster, ranges, RecordRowBuilder(COLUMNS), fail_on_data_loss=True):
        assert batch.schema == arrow_schema(COLUMNS)
        found += [(row["offset"], len(row["value"])) for row in batch.to_pylist()]
    return found


def test_small_offset_ranges_after_large_records_are_read_exactly(cluster: Any) -> None:
    sizes = [100] * 2000 + [100_000] * 20 + [100] * 2000
    topic = cluster.new_topic(partitions=1)
    cluster.produce(topic, [(None, b"x" * size) for size in sizes], partition=0)
    options = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
    reader = KohortCluster(parse_source_options(options, streaming=False))
    expected = list(enumerate(sizes))
    try:
        for first, last in ((0, 10), (5, 6), (10, 40), (1990, 2025), (2019, 2021), (2030, 2031), (0, len(sizes))):
            assert rows_of(reader, [Range(topic, 0, first, last)]) == expected[first:last]
        two = [Range(topic, 0, 100, 110), Range(topic, 0, 2500, 2600)]
        assert rows_of(reader, two) == expected[100:110] + expected[2500:2600]
    finally:
        reader.close()
