"""Balance check: kohort's assignors distribute partitions evenly in a settled group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.model import TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed


def check_balance(owned: Mapping[str, Sequence[TopicPartition]], assignor: str, topics: int) -> None:
    """Check members with equal subscriptions: ``range`` is even per topic, other assignors over all topics."""
    counts = {name: len(partitions) for name, partitions in owned.items()}
    may_differ = topics if assignor == "range" else 1
    if counts and max(counts.values()) - min(counts.values()) > may_differ:
        raise CheckFailed(f"{assignor} assigns unevenly: {counts}")
