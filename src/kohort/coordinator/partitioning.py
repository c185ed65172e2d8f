"""Which partition of ``__consumer_offsets`` holds a group (protocol/groups.md#coordinator)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kohort.model import java_string_hash

INT_MIN = -(2**31)
NAMES_KEPT: Final = 16_384
NAME_MAX: Final = 300
"""What longer names come to is not kept: strangers make them up, of 32,767 letters each."""


def partition_of(group_id: str, partitions: int) -> int:
    """Return ``abs(hash) mod partitions``; Java has no abs of its smallest integer, and Kafka takes it as 0."""
    return _kept(group_id, partitions) if len(group_id) <= NAME_MAX else _computed(group_id, partitions)


def _computed(group_id: str, partitions: int) -> int:
    h = java_string_hash(group_id)
    return 0 if h == INT_MIN else abs(h) % partitions


@lru_cache(maxsize=NAMES_KEPT)
def _kept(group_id: str, partitions: int) -> int:
    return _computed(group_id, partitions)
