"""What a query in member mode writes beside its offsets in the group, and what it reads there about a partition.

Each commit is a claim: ``kohort-member:QUERY:UPTO``, the query that holds the partition and the end of the micro-batch
that begins at the committed offset. A query that takes the partition over goes on at the offset, and knows that rows up
to UPTO may have been delivered already.

QUERY is a number kept in the checkpoint, in the offsets themselves: a source in Python is not told its query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.spark.options.offsets import as_json, by_partition

IDENTITY: Final = "kohort:query"
"""Stands among the topics of a query's offsets; no topic can have this name."""
_CLAIM: Final = re.compile(r"kohort-member:([0-9a-f]+):([0-9]+)")

Flat = dict[TopicPartition, int]


class Claim(NamedTuple):
    """Who holds a partition, and the end of what it may be reading."""

    query: int
    upto: int

    def __str__(self) -> str:
        return f"kohort-member:{self.query:x}:{self.upto}"


class Entry(NamedTuple):
    """Where a query that was given a partition begins, and up to where rows may have been delivered before."""

    start: int
    again_below: int


def parse_claim(metadata: str) -> Claim | None:
    """The claim in a commit's metadata; None for what anybody else writes there."""
    found = _CLAIM.fullmatch(metadata)
    return Claim(int(found[1], 16), int(found[2])) if found else None


def entry(held: OffsetAndMetadata, query: int, done: int | None) -> Entry:
    """Where ``query`` begins, for which the group holds ``held``; ``done``: how far its own checkpoint has come.

    While the group still bears the query's own claim nobody else has had the partition, and the checkpoint, which may
    be one micro-batch ahead of the group, counts. Else the group does: others went on from there, or somebody has
    moved it.
    """
    claim = parse_claim(held.metadata)
    start = held.offset
    if claim is not None and claim.query == query and done is not None:
        start = max(start, done)
    return Entry(start, claim.upto if claim is not None else 0)


def with_query(query: int, offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them, and whose they are."""
    return {IDENTITY: {"0": query}, **as_json(offsets)}


def query_of(offsets: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Whose offsets these are; None for those of a query that was no member."""
    return next(iter(offsets.get(IDENTITY, {}).values()), None)


def without_query(offsets: Mapping[str, Mapping[str, Any]]) -> Flat:
    """The offsets alone, flat."""
    return by_partition({topic: by for topic, by in offsets.items() if topic != IDENTITY})
