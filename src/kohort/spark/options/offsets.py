"""Offsets of a query as values: their JSON, the share of a limit, the tasks of a micro-batch, lost records.

The JSON is the Kafka connector's: ``{"orders": {"0": 1000}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kohort.model import TopicPartition

OffsetsByTopic = dict[str, dict[int, int]]
"""Offsets by topic and number of partition, as the user's JSON has them."""
PartitionOffsets = dict[TopicPartition, int]
"""One offset for each partition."""


class Range(NamedTuple):
    """Records ``start`` to ``end`` (not included) of one partition. Those below ``again_below`` may have been delivered
    before: by an earlier attempt at this micro-batch, or by the query that had the partition before this one."""

    topic: str
    partition: int
    start: int
    end: int
    again_below: int = 0

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def rows(self) -> int:
        return max(0, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class Loss(NamedTuple):
    """Records that the query should have read and that the broker no longer holds."""

    partition: TopicPartition
    wanted: int
    earliest: int
    latest: int

    def __str__(self) -> str:
        if self.wanted < self.earliest:
            return f"{self.partition}: offsets {self.wanted} to {self.earliest - 1} were deleted before they were read"
        return (
            f"{self.partition}: the query stands at offset {self.wanted}, the log ends at {self.latest}: "
            "the topic was truncated or created anew"
        )


def parse_offsets(text: str) -> OffsetsByTopic:
    """Read ``{"topic": {"partition": offset}}``. Raises ValueError saying what is wrong."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    return offsets_of(given)


def offsets_of(given: Any) -> OffsetsByTopic:
    """Return offsets from what JSON gave: partition numbers are texts there."""
    if not isinstance(given, dict):
        raise ValueError("not an object of topics")  # noqa: TRY004 - one kind of error for one kind of fault
    offsets: OffsetsByTopic = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"{topic}: not an object of partitions")  # noqa: TRY004 - as above
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < -2 or not str(partition).isdigit():
                raise ValueError(f"{topic}: partition {partition!r}: {offset!r} is not an offset")
            offsets.setdefault(topic, {})[int(partition)] = offset
    return offsets


def as_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return what Spark writes into its offset log, in an order that does not change."""
    tree: dict[str, dict[str, int]] = {}
    for tp in sorted(offsets):
        tree.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return tree


def by_partition(offsets: Mapping[str, Mapping[Any, int]]) -> PartitionOffsets:
    return {TopicPartition(t, int(p)): o for t, partitions in offsets.items() for p, o in partitions.items()}


def share_limit(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], max_rows: int
) -> PartitionOffsets:
    """Return the end of a micro-batch of ``max_rows``: each partition gets its share of the backlog, and at least one.

    As the Kafka connector does, a partition with records is never starved by a large neighbour: so there are more than
    ``max_rows`` where there are more partitions. What rounding leaves over goes to the partitions that it cost most.
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
    """Return what lies between two offsets, empty partitions left out."""
    ranges = [Range(tp.topic, tp.partition, start[tp], head) for tp, head in sorted(end.items())]
    return [r for r in ranges if r.rows]


def plan_tasks(ranges: Sequence[Range], records_per_task: int, min_tasks: int = 1) -> list[list[Range]]:
    """Divide ranges into tasks of about equal size: a task costs Spark ~60 ms whatever it reads.

    Small partitions share a task, large ones are cut. At least ``min_tasks``, if there are as many records.
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
    """Return where the next offset to read lies outside the log."""
    losses = []
    for tp, offset in sorted(wanted.items()):
        if tp in latest and (offset < earliest[tp] or offset > latest[tp]):
            losses.append(Loss(tp, offset, earliest[tp], latest[tp]))
    return losses


def missing_partitions(wanted: Iterable[TopicPartition], existing: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return partitions that a query has read and that are gone."""
    return sorted(set(wanted) - set(existing))
