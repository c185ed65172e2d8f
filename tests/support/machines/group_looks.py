"""Shorthands for snapshots of groups.

``look(10, [member("a", 0)], {0: (5, 9)})`` is a snapshot at 10 s: member ``a`` owns partition 0 of topic ``t``, with
committed offset 5 and log end offset 9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition

T0 = 1_000_000_000_000
"""Time of the first snapshot, in ms."""


def tp(number: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, number)


def part(number: int, committed: int | None, log_end: int | None, **more: object) -> PartitionSnapshot:
    """Return a partition with start offset 0 and no open transaction, unless ``more`` differs."""
    stable = more.pop("last_stable", log_end)
    topic = more.pop("topic", "t")
    fields = {"log_start": 0, **more}
    return PartitionSnapshot(
        partition=tp(number, topic),  # type: ignore[arg-type]
        committed=committed,
        log_end=log_end,
        last_stable=stable,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


def member(name: str, *numbers: int, topics: Sequence[str] = ("t",), **more: object) -> MemberSnapshot:
    """Return a member of client ``name`` that owns these partitions of ``t``."""
    return MemberSnapshot(
        member_id=f"{name}-id",
        client_id=name,
        host="/h",
        topics=tuple(topics),
        assignment=tuple(tp(n) for n in numbers),
        **more,  # type: ignore[arg-type]
    )


def look(
    at_s: float,
    members: Sequence[MemberSnapshot],
    partitions: Sequence[PartitionSnapshot] | Mapping[int, tuple[int, int]],
    **more: object,
) -> GroupSnapshot:
    """Return a snapshot ``at_s`` seconds after the first; partitions: number to (committed, end)."""
    if isinstance(partitions, Mapping):
        partitions = [part(number, *ends) for number, ends in partitions.items()]
    fields = {"state": "Stable" if members else "Empty", "partition_counts": {"t": len(partitions)}, **more}
    return GroupSnapshot(
        at_ms=T0 + round(at_s * 1000),
        group="g",
        protocol="classic",
        members=tuple(members),
        partitions=tuple(partitions),
        **fields,  # type: ignore[arg-type]
    )
