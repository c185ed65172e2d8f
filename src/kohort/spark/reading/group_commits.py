"""A query's progress in its consumer group: the pinned start, the end of each completed micro-batch, and intruders.

Commits carry metadata: ``kohort-init:...`` for a start that is pinned, ``kohort-query:...`` for a query's progress. A
query that finds other metadata in the group is not alone: another query commits there, or a user has reset the group.
It logs that and goes on, because its checkpoint, not the group, holds its position.

In member mode each commit has a mark, ``kohort-member:QUERY:UPTO``: the query that owns the partition, and the end of
the micro-batch that begins at the committed offset. The next owner of the partition goes on at the offset, and knows
that rows up to UPTO may have been delivered already. QUERY is a number kept in the checkpoint, in the offsets
themselves: a source in Python does not learn the id of its query.
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
"""Stands among the topics of a query's offsets; no topic can have this name."""
_MARK: Final = re.compile(r"kohort-member:([0-9a-f]+):([0-9]+)")


class CommitMark(NamedTuple):
    """Who holds a partition, and the end of what it may be reading."""

    query: int
    upto: int

    def __str__(self) -> str:
        return f"kohort-member:{self.query:x}:{self.upto}"


class PartitionStart(NamedTuple):
    """Where a query that was given a partition begins, and up to where rows may have been delivered before."""

    start: int
    again_below: int


def parse_mark(metadata: str) -> CommitMark | None:
    """Return the mark in a commit's metadata; None for what anybody else writes there."""
    found = _MARK.fullmatch(metadata)
    return CommitMark(int(found[1], 16), int(found[2])) if found else None


def partition_start(held: OffsetAndMetadata, query: int, done: int | None) -> PartitionStart:
    """Return where ``query`` begins, for which the group holds ``held``; ``done``: how far its own checkpoint has come.

    While the group still has the query's own mark nobody else has had the partition, and the checkpoint, which may
    be one micro-batch ahead of the group, counts. Else the group does: others went on from there, or somebody has
    moved it.
    """
    mark = parse_mark(held.metadata)
    start = held.offset
    if mark is not None and mark.query == query and done is not None:
        start = max(start, done)
    return PartitionStart(start, mark.upto if mark is not None else 0)


def with_query(query: int, offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets as Spark keeps them, with the query whose they are."""
    return {QUERY_KEY: {"0": query}, **as_json(offsets)}


def query_of(offsets: Mapping[str, Mapping[str, Any]]) -> int | None:
    return next(iter(offsets.get(QUERY_KEY, {}).values()), None)


log = logging.getLogger(__name__)


def query_mark(owner: str = "") -> str:
    """Return the metadata of this process's commits: host, process, start time, and the owner of the query."""
    mark = f"kohort-query:{socket.gethostname()}:{os.getpid()}:{time.time_ns() // 1_000_000}"
    return f"{mark}:{owner}" if owner else mark


class GroupCommits:
    """What is committed to ``group.id``; does nothing where the options say that nothing is."""

    def __init__(self, options: SourceOptions, cluster: Callable[[], SourceCluster], mark: str) -> None:
        self._options = options
        self._cluster = cluster
        self._mark = mark
        self._pin = f"{options.pin}:{options.group_owner}" if options.group_owner else options.pin
        self._written: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pinned = False
        self._told: set[str] = set()

    def is_pin(self, metadata: str) -> bool:
        """Tell whether an offset is the pinned start of this query; earlier versions named no owner in it."""
        return metadata in (self._pin, self._options.pin)

    def held(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what the group holds."""
        return self._cluster().committed(partitions) if self._options.group_id else {}

    def pin(self, initial: PartitionOffsets, *, fresh: bool) -> None:
        """Keep the start. Before batch 0 is planned: if this fails the query must not start, or a retry could skip."""
        if not self._options.commits:
            return
        offsets = {tp: OffsetAndMetadata(o, self._pin) for tp, o in initial.items()}
        if fresh:
            self._cluster().commit(offsets)
        self._written, self._pinned = offsets, True

    def commit_completed(self, offsets: Mapping[TopicPartition, int], *, planned: bool) -> None:
        """Commit the end of the last completed micro-batch; an error is for the next trigger, not for the query.

        ``planned``: a micro-batch was planned since the start was pinned, so that the pin has done its work.
        """
        if not self._options.commits:
            return
        same = offsets == {tp: o.offset for tp, o in self._written.items()}
        if same and not (self._pinned and planned):
            return
        try:
            self._look_for_others()
            fresh = {tp: OffsetAndMetadata(offset, self._mark) for tp, offset in offsets.items()}
            self._cluster().commit(fresh)
        except KohortError as error:
            log.warning("group %s: offsets not committed, again at the next trigger: %s", self._options.group_id, error)
            return
        self._written, self._pinned = fresh, False

    def _look_for_others(self) -> None:
        if not self._written:
            return
        held = self._cluster().committed(self._written)
        for tp, found in sorted(held.items()):
            if found == self._written[tp]._replace(leader_epoch=found.leader_epoch) or found.metadata in self._told:
                continue
            self._told.add(found.metadata)
            who = found.metadata or "a consumer, or a reset by hand"
            log.warning(
                "group %s: %s was committed at %d by %s, not by this query, which goes by its checkpoint. "
                "Two queries on one group overwrite each other's progress: give each its own group.id",
                self._options.group_id,
                tp,
                found.offset,
                who,
            )
