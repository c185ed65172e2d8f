"""Offsets of a Spark query. Parses their JSON form, limits the rows of a micro-batch, divides offset ranges into tasks.

The JSON form is that of Spark's Kafka connector: ``{"orders": {"0": 1000}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kohort.model import TopicPartition

OffsetsByTopic = dict[str, dict[int, int]]
"""Offsets parsed from JSON: a dict from topic to a dict from partition number to offset."""
PartitionOffsets = dict[TopicPartition, int]


class Range(NamedTuple):
    """Offset range that one task reads from one partition. ``start`` is inclusive, ``end`` is exclusive.

    Records below ``redelivered_below`` may have been delivered before: in an earlier attempt at this micro-batch, or to
    the previous owner of the partition.
    """

    topic: str
    partition: int
    start: int
    end: int
    redelivered_below: int = 0

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def rows(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class Loss(NamedTuple):
    partition: TopicPartition
    wanted: int
    earliest: int
    latest: int

    def __str__(self) -> str:
        if self.wanted < self.earliest:
            return f"{self.partition}: offsets {self.wanted} to {self.earliest - 1} were deleted before they were read"
        return (
            f"{self.partition}: the query is at offset {self.wanted}, the log ends at {self.latest}: "
            "the topic was truncated or recreated"
        )


def parse_offsets(text: str) -> OffsetsByTopic:
    """Parse JSON of the form ``{"topic": {"partition": offset}}``. Raises ValueError for any other text."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"the offsets are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("expected a JSON object with topics as keys")  # noqa: TRY004 - one kind of error for one kind of fault
    offsets: OffsetsByTopic = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic}: expected a JSON object with partition numbers as keys")  # noqa: TRY004 - as above
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < -2 or not str(partition).isdigit():
                raise ValueError(f"{topic}: expected a partition number and an offset, found {partition!r}: {offset!r}")
            offsets.setdefault(topic, {})[int(partition)] = offset
    return offsets


def as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Convert offsets into the JSON form of Spark's offset log, sorted by topic and partition."""
    tree: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        tree.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return tree


def by_partition(offsets: Mapping[str, Mapping[Any, int]]) -> PartitionOffsets:
    return {TopicPartition(t, int(p)): o for t, partitions in offsets.items() for p, o in partitions.items()}


def share_limit(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int
) -> PartitionOffsets:
    """Return end offsets for a micro-batch of about ``max_rows`` rows.

    The rows are divided among partitions in proportion to their backlogs. Each partition with a backlog gets at least
    one row, as in Spark's Kafka connector. So the micro-batch exceeds the limit if more than ``max_rows`` partitions
    have a backlog. Shares are rounded down; the remaining rows go to the partitions that lost most by the rounding.
    """
    backlog = {tp: max(0, head - start.get(tp, head)) for tp, head in end.items()}
    total = sum(backlog.values())
    if total <= max_rows:
        return dict(end)
    shares = {tp: max(1, max_rows * rows // total) if rows else 0 for tp, rows in backlog.items()}
    cut = [tp for tp, rows in backlog.items() if max_rows * rows % total and max_rows * rows >= total]
    cut.sort(key=lambda tp: (-(max_rows * backlog[tp] % total), tp))
    for tp in cut[: max(0, max_rows - sum(shares.values()))]:
        shares[tp] += 1
    return {tp: start[tp] + shares[tp] if shares[tp] else head for tp, head in end.items()}


def ranges_between(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Range]:
    ranges = [Range(tp.topic, tp.partition, start[tp], head) for tp, head in sorted(end.items())]
    return [r for r in ranges if r.rows]


def plan_tasks(ranges: Sequence[Range], records_per_task: int, min_tasks: int = 1) -> list[list[Range]]:
    """Divide offset ranges into tasks of about ``records_per_task`` records. Return at least ``min_tasks`` tasks.

    Large partitions are split. Several small partitions form one task, since each task costs Spark about 60 ms. If the
    ranges have fewer than ``min_tasks`` records, there is one task for each record.
    """
    total = sum(r.rows for r in ranges)
    if not total:
        return []
    tasks = max(-(-total // records_per_task), min(min_tasks, total))
    size = -(-total // tasks)
    plan: list[list[Range]] = [[]]
    room = size
    for r in ranges:
        at = r.start
        while at < r.end:
            if not room:
                plan.append([])
                room = size
            upto = min(r.end, at + room)
            plan[-1].append(r._replace(start=at, end=upto))
            room -= upto - at
            at = upto
    return plan


def find_losses(
    wanted: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> list[Loss]:
    return [
        Loss(tp, offset, earliest[tp], latest[tp])
        for tp, offset in sorted(wanted.items())
        if tp in latest and not earliest[tp] <= offset <= latest[tp]
    ]
