"""Checks of the calm phase: one generation owns all partitions, all records arrive, a failover moves nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.model import TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import WatchedConsumer

Standing = dict[str, tuple[int, str, frozenset[TopicPartition]]]


def standing(consumers: Sequence[WatchedConsumer]) -> Standing:
    """Return generation, member id and partitions of each consumer."""
    return {c.name: (c.generation_id, c.member_id, frozenset(c.assigned)) for c in consumers if c.alive}


def why_not_settled(
    consumers: Sequence[WatchedConsumer],
    partitions: set[TopicPartition],
    ends: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, int],
) -> str | None:
    """Return the reason why the group is not settled, or None.

    Settled: one generation, each partition owned once, no lag.
    """
    alive = [c for c in consumers if c.alive]
    if len(alive) < len(consumers):
        return "not everybody is back"
    if any(c.is_delayed for c in alive):
        return "somebody is held up"
    if rebalancing := [c.name for c in alive if c.is_rebalancing]:
        return f"rebalancing: {rebalancing}"
    generations = {c.generation_id for c in alive}
    if len(generations) != 1 or -1 in generations:
        return f"generations {sorted(generations)}"
    owned = sorted(p for c in alive for p in c.assigned)
    if owned != sorted(partitions):
        return f"owned {[str(p) for p in owned]}"
    behind = {str(p): (committed.get(p), end) for p, end in ends.items() if end and committed.get(p) != end}
    if behind:
        return f"committed behind the end: {behind}"
    return None


def check_settled(why_not: str | None, bound_ms: int) -> None:
    """Check that the group has settled within the bound."""
    if why_not is not None:
        raise CheckFailed(f"not settled {bound_ms} ms after the faults ended: {why_not}")


def check_delivered(
    acknowledged: Mapping[bytes, tuple[TopicPartition, int]], read: Mapping[TopicPartition, Sequence[bytes]]
) -> None:
    """Check that the group read every acknowledged record at its offset."""
    for value, (partition, offset) in acknowledged.items():
        values = read.get(partition, ())
        if offset >= 0 and (offset >= len(values) or values[offset] != value):
            found = values[offset] if offset < len(values) else None
            raise CheckFailed(f"{value!r}, acknowledged at {offset} of {partition}, was not delivered: found {found!r}")


def check_nothing_moved(before: Standing, after: Standing) -> None:
    """Check that a failover in calm keeps generation, members and partitions."""
    if before != after:
        moved = {
            n: (before.get(n), after.get(n)) for n in before.keys() | after.keys() if before.get(n) != after.get(n)
        }
        raise CheckFailed(f"a failover in calm changed the group: {moved}")
