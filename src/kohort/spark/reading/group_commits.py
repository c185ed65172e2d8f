"""Commits the offsets of a query to its group: start offsets, and end offsets of completed micro-batches.

Commit metadata is ``kohort-init:...`` for start offsets and ``kohort-query:...`` for completed micro-batches. Other
metadata in the group means that another query commits there or that a user reset the group. The query then logs a
warning and continues: its position is in its checkpoint, not in the group.

In member mode the metadata is ``kohort-member:QUERY:UPTO``. QUERY identifies the query that owns the partition; UPTO is
the end of the micro-batch that begins at the committed offset. The next owner starts at the committed offset and marks
rows below UPTO as possibly redelivered. QUERY is a random number, stored in the offsets of the checkpoint: a Python
source does not know Spark's query id.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import PartitionOffsets, as_json
from kohort.spark.options.source import SourceOptions
from kohort.spark.reading.cluster import SourceCluster

QUERY_KEY: Final = "kohort:query"
"""JSON key of the query's number among the topics in its offsets. Topic names have no colon."""
_MARK: Final = re.compile(r"kohort-member:([0-9a-f]+):([0-9]+)")


class CommitMark(NamedTuple):
    """Commit metadata in member mode: the query that owns the partition, and the end of its current micro-batch."""

    query: int
    upto: int

    def __str__(self) -> str:
        return f"kohort-member:{self.query:x}:{self.upto}"


class PartitionStart(NamedTuple):
    """Start offset of a newly assigned partition. Rows below ``redelivered_below`` may have been delivered before."""

    start: int
    redelivered_below: int


def parse_mark(metadata: str) -> CommitMark | None:
    found = _MARK.fullmatch(metadata)
    return CommitMark(int(found[1], 16), int(found[2])) if found else None


def partition_start(committed: OffsetAndMetadata, query: int, done: int | None) -> PartitionStart:
    """Return the offset at which ``query`` begins to read an assigned partition.

    ``committed``: committed offset of the group. ``done``: offset in the query's checkpoint.

    1. If ``query`` itself made the last commit, no other query has owned the partition since. The larger offset counts:
       the checkpoint may be one micro-batch ahead of the commit.
    2. Otherwise the committed offset counts: another query has read records, or a user reset the offset.
    """
    mark = parse_mark(committed.metadata)
    start = committed.offset
    if mark is not None and mark.query == query and done is not None:
        start = max(start, done)
    return PartitionStart(start, mark.upto if mark is not None else 0)


def with_query(query: int, offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    return {QUERY_KEY: {"0": query}, **as_json(offsets)}


def query_of(offsets: Mapping[str, Mapping[str, Any]]) -> int | None:
    return next(iter(offsets.get(QUERY_KEY, {}).values()), None)


log = logging.getLogger(__name__)


def query_mark(owner: str = "") -> str:
    """Return the metadata for commits of this process: host, pid, start time, and owner of the query."""
    mark = f"kohort-query:{socket.gethostname()}:{os.getpid()}:{time.time_ns() // 1_000_000}"
    return f"{mark}:{owner}" if owner else mark


class GroupCommits:
    def __init__(self, options: SourceOptions, cluster: Callable[[], SourceCluster], mark: str) -> None:
        self._options = options
        self._cluster = cluster
        self._mark = mark
        self.pin_metadata = f"{options.pin}:{options.group_owner}" if options.group_owner else options.pin
        self._last_commit: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pinned = False
        self._reported: set[str] = set()

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._cluster().committed(partitions) if self._options.group_id else {}

    def pin(self, initial: PartitionOffsets, *, fresh: bool) -> None:
        """Commit the start offsets of a query to its group before Spark plans micro-batch 0.

        If the commit fails, the query must not start: a later start could skip rows.
        """
        if not self._options.commits:
            return
        offsets = {tp: OffsetAndMetadata(o, self.pin_metadata) for tp, o in initial.items()}
        if fresh:
            self._cluster().commit(offsets)
        self._last_commit, self._pinned = offsets, True

    def commit_completed(self, offsets: Mapping[TopicPartition, int], *, planned: bool) -> None:
        """Commit the end offsets of the last completed micro-batch. After an error, retry at the next trigger.

        ``planned``: True if a micro-batch was planned, so that this commit may overwrite the committed start offsets.
        """
        if not self._options.commits:
            return
        same = offsets == {tp: o.offset for tp, o in self._last_commit.items()}
        if same and not (self._pinned and planned):
            return
        try:
            self._warn_of_other_commits()
            fresh = {tp: OffsetAndMetadata(offset, self._mark) for tp, offset in offsets.items()}
            self._cluster().commit(fresh)
        except KohortError as error:
            log.warning("group %s: commit failed, retrying at the next trigger: %s", self._options.group_id, error)
            return
        self._last_commit, self._pinned = fresh, False

    def _warn_of_other_commits(self) -> None:
        if not self._last_commit:
            return
        committed = self._cluster().committed(self._last_commit)
        for tp, found in sorted(committed.items()):
            own = self._last_commit[tp]._replace(leader_epoch=found.leader_epoch)
            if found == own or found.metadata in self._reported:
                continue
            self._reported.add(found.metadata)
            log.warning(
                "group %s: %s was committed at %d by %s, not by this query, which continues from its checkpoint. "
                "Two queries in one group overwrite each other's progress: give each its own group.id",
                self._options.group_id,
                tp,
                found.offset,
                found.metadata or "a consumer, or a reset by hand",
            )
