"""A settled group shares fairly: none of our assignors gives one member much and another nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.model import TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed


def check_balance(owned: Mapping[str, Sequence[TopicPartition]], assignor: str, topics: int) -> None:
    """Members subscribe to the same topics: range is even in each topic, the others are even over all."""
    counts = {name: len(partitions) for name, partitions in owned.items()}
    may_differ = topics if assignor == "range" else 1
    if counts and max(counts.values()) - min(counts.values()) > may_differ:
        raise CheckFailed(f"{assignor} shares unevenly: {counts}")
