"""What a query in member mode writes beside its offsets in the group, and what it reads there about a partition.

Each commit has a mark, ``kohort-member:QUERY:UPTO``, in its metadata: the query that holds the partition and the end of
the micro-batch that begins at the committed offset. Whoever is given the partition next goes on at the offset, and
knows that rows up to UPTO may have been delivered already.

QUERY is a number kept in the checkpoint, in the offsets themselves: a source in Python is not told its query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import as_json

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
    """Return the query whose offsets these are; None for those of one that was no member."""
    return next(iter(offsets.get(QUERY_KEY, {}).values()), None)
