"""A group as it was at one moment: what lag, health, what-if and metrics are computed from, whoever looked.

Values only. A snapshot is taken by asking any cluster (``kohort.watch.sampling``) or, for a broker's own groups, its
state; unknown is None. Two snapshots of the same group, in the order of ``at_ms``, make rates.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kohort.model import TopicPartition


class PartitionSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A partition that a group reads or has committed. Without references to containers, for the collector."""

    partition: TopicPartition
    committed: int | None = None
    """Next offset to read."""
    committed_at_ms: int | None = None
    """Time of the commit, known from ``__consumer_offsets`` only."""
    log_start: int | None = None
    log_end: int | None = None
    """High watermark: end for readers of uncommitted records."""
    last_stable: int | None = None
    """End for readers of committed records."""
    committed_record_at_ms: int | None = None
    """The time stamp of the record at ``committed``, or of the first after it: what waits for longest."""
    waiting: bool | None = None
    """Whether a record waits there at all. False where there is none up to the end, only markers of transactions,
    aborted records, or what compaction took out; None where nobody looked."""
    last_record_at_ms: int | None = None
    metadata: str = ""
    leader_epoch: int | None = None
    """The leader epoch that the commit names."""
    error: str | None = None
    gone: bool = False
    """False for a present partition; True for a leftover offset."""


class MemberSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member with its assignment, and its target if its protocol has one."""

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    """Of modern groups (KIP-848)."""
    epoch: int | None = None
    protocol: Literal["classic", "consumer"] = "classic"
    rack: str | None = None
    regex: str | None = None
    matched: tuple[str, ...] | None = None
    """Topics that ``regex`` matches; None if not looked up."""


class GroupSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    at_ms: int
    group: str
    state: str
    protocol: Literal["classic", "consumer"]
    protocol_type: str = "consumer"
    assignor: str | None = None
    coordinator_id: int | None = None
    epoch: int | None = None
    assignment_epoch: int | None = None
    members: tuple[MemberSnapshot, ...] = ()
    partitions: tuple[PartitionSnapshot, ...] = ()
    error: str | None = None
    partition_counts: dict[str, int] = {}
    """Of every assigned or subscribed topic."""
    topic_ids: dict[str, bytes] = {}
    """Server-side assignors sort by these 16 bytes."""
