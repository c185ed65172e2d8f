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
    unmoved_since_ms: int | None = None
    """Time of the first sample with this committed offset and this owner; None if no earlier sample had them."""
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


def with_progress(before: GroupSnapshot | None, now: GroupSnapshot) -> GroupSnapshot:
    """Return the newer of two successive snapshots of a group, with ``unmoved_since_ms`` of its partitions.

    A sampler that keeps only its latest snapshots calls this for each snapshot. So it knows since when a partition has
    had no commit progress, even if that was before its oldest snapshot.
    """
    if before is None:
        return now
    was = {p.partition: p for p in before.partitions}
    owned_before = {tp: member.member_id for member in before.members for tp in member.assignment}
    owned = {tp: member.member_id for member in now.members for tp in member.assignment}

    def carried(p: PartitionSnapshot) -> PartitionSnapshot:
        old = was.get(p.partition)
        if old is None or p.committed is None or p.committed != old.committed or p.committed == p.log_end:
            return p
        if owned.get(p.partition) != owned_before.get(p.partition):
            return p
        since_ms = before.at_ms if old.unmoved_since_ms is None else old.unmoved_since_ms
        return msgspec.structs.replace(p, unmoved_since_ms=since_ms)

    return msgspec.structs.replace(now, partitions=tuple(carried(p) for p in now.partitions))
