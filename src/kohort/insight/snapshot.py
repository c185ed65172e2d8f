"""Snapshot of a group: input of lag, health, what-if and metrics.

A snapshot comes from any cluster (``kohort.watch.sampling``), or from the memory of a broker. An unknown value is None.
Two snapshots of a group, in the order of ``at_ms``, give rates.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kohort.model import TopicPartition


class PartitionSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Partition that a group reads, or for which it has a committed offset.

    No field is a container, so the garbage collector ignores the object.
    """

    partition: TopicPartition
    committed: int | None = None
    """Committed offset: the offset of the next record to consume."""
    committed_at_ms: int | None = None
    """Time of the last commit; known only if ``__consumer_offsets`` was read."""
    log_start: int | None = None
    log_end: int | None = None
    """High watermark of the partition: log end for read_uncommitted consumers."""
    last_stable: int | None = None
    """Last stable offset of the partition: log end for read_committed consumers."""
    committed_record_at_ms: int | None = None
    """Timestamp of the first record at or after the committed offset."""
    waiting: bool | None = None
    """True if a consumable record (no marker, not aborted) follows the committed offset; None if no log was read."""
    metadata: str = ""
    leader_epoch: int | None = None
    error: str | None = None
    deleted: bool = False
    """True if the partition was deleted and only its committed offset remains."""


class MemberSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    assignment: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    """Target assignment of a member of a consumer group (KIP-848)."""
    epoch: int | None = None
    protocol: Literal["classic", "consumer"] = "classic"
    rack: str | None = None
    regex: str | None = None
    matched: tuple[str, ...] | None = None
    """Topics that the subscription pattern ``regex`` matches; None if not resolved."""


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
    topic_ids: dict[str, bytes] = {}
    """Topic id (16 bytes) of each topic name; server-side assignors sort topics by id."""
