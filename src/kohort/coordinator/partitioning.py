"""Which partition of ``__consumer_offsets`` holds a group (protocol/groups.md#coordinator)."""

from __future__ import annotations

from functools import lru_cache

from kohort.model import java_string_hash

INT_MIN = -(2**31)


@lru_cache(maxsize=16384)
def partition_of(group_id: str, partitions: int) -> int:
    """Return ``abs(hash) mod partitions``; Java has no abs of its smallest integer, and Kafka takes it as 0."""
    h = java_string_hash(group_id)
    return 0 if h == INT_MIN else abs(h) % partitions
