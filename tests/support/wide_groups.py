"""Snapshots of very large groups."""

from __future__ import annotations

from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

BEGIN_MS = 1_700_000_000_000
EVERY_MS = 5_000


def wide_snapshot(group: str, members: int, partitions: int, look: int = 0) -> GroupSnapshot:
    """Return snapshot number ``look`` of a group in progress: each partition advanced since the previous one."""
    topic = f"topic-of-{group}"
    places = [TopicPartition(topic, n) for n in range(partitions)]
    at = 1_000 + 50 * look
    return GroupSnapshot(
        at_ms=BEGIN_MS + EVERY_MS * look,
        group=group,
        state="Stable",
        protocol="classic",
        assignor="range",
        coordinator_id=0,
        members=tuple(
            MemberSnapshot(
                member_id=f"worker-{m}-0b1c7e5a-91c5-4c3e-a3a5-{m:012x}",
                client_id=f"worker-{m}",
                host=f"/10.0.0.{m % 250}",
                topics=(topic,),
                assignment=tuple(places[m::members]),
            )
            for m in range(members)
        ),
        partitions=tuple(
            PartitionSnapshot(
                partition=place,
                committed=at,
                log_start=0,
                log_end=at + 10 * (place.partition % 7),
                last_stable=at + 10 * (place.partition % 7),
                committed_record_at_ms=BEGIN_MS + EVERY_MS * look - 2_000 if place.partition % 7 else None,
                waiting=bool(place.partition % 7),
            )
            for place in places
        ),
        partition_counts={topic: partitions},
    )
