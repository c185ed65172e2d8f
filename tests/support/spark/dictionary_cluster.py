"""In-memory cluster for tests of the Spark source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kohort.errors import ApiError, ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import Range
from kohort.spark.reading.cluster import RangeGone


class DictionaryCluster:
    """Cluster of logs, as lists of offsets (a compacted log has gaps), and of a group's committed offsets."""

    def __init__(self, **logs: list[int]) -> None:
        self.logs = {TopicPartition("orders", int(name[1:])): offsets for name, offsets in logs.items()}
        self.ends = {tp: offsets[-1] + 1 if offsets else 0 for tp, offsets in self.logs.items()}
        self.group: dict[TopicPartition, OffsetAndMetadata] = {}
        self.commits: list[dict[TopicPartition, OffsetAndMetadata]] = []
        self.refuse_commits = False
        self.waits: list[int] = []
        self.fetch_failures: list[Exception] = []
        self.closed = False
        self.incarnation = b""
        self.record_bytes = 100

    def append(self, tp: TopicPartition, rows: int) -> None:
        end = self.ends.get(tp, 0)
        self.logs.setdefault(tp, []).extend(range(end, end + rows))
        self.ends[tp] = end + rows

    def topics(self) -> set[str]:
        return {tp.topic for tp in self.logs}

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {tp for tp in self.logs if tp.topic in set(topics)}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.logs[tp][0] if self.logs[tp] else self.ends[tp] for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in partitions}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Timestamps of records are their offsets times 1000."""
        return {tp: -(-t // 1000) for tp, t in times.items() if -(-t // 1000) < self.ends[tp]}

    def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes]:
        return dict.fromkeys(topics, self.incarnation)

    def mean_bytes(self, tp: TopicPartition, offset: int) -> float:
        return float(self.record_bytes)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: self.group[tp] for tp in partitions if tp in self.group}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        if self.refuse_commits:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members")
        self.commits.append(dict(offsets))
        self.group.update(offsets)

    def wait_for_records(self, heads: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        self.waits.append(timeout_ms)

    def fetch(self, fetch_range: Range, columns: Sequence[str]) -> Iterator[Any]:
        import pyarrow as pa

        if self.fetch_failures:
            raise self.fetch_failures.pop(0)
        tp = TopicPartition(fetch_range.topic, fetch_range.partition)
        if fetch_range.start < self.earliest([tp])[tp]:
            raise RangeGone(f"{fetch_range}")
        # Like a broker: whole batches, which begin before and end after the requested range.
        near = [o for o in self.logs[tp] if fetch_range.start - 2 <= o < fetch_range.end + 2]
        for at in range(0, len(near), 4):
            offsets = near[at : at + 4]
            yield pa.RecordBatch.from_pydict(
                {
                    "topic": pa.array([fetch_range.topic] * len(offsets)),
                    "partition": pa.array([fetch_range.partition] * len(offsets), pa.int32()),
                    "offset": pa.array(offsets, pa.int64()),
                    "timestamp": pa.array([0] * len(offsets), pa.timestamp("ms", tz="UTC")),
                    "timestamp_type": pa.array([0] * len(offsets), pa.int32()),
                    "key": pa.array([b"k"] * len(offsets), pa.binary()),
                    "value": pa.array([b"%d" % o for o in offsets], pa.binary()),
                }
            )

    def close(self) -> None:
        self.closed = True
