"""Cost of each change for a group of one generation: a run applies the changes in sequence, under one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.model import TopicPartition
from kohort_lab.sim.generations.catalogue import GENERATIONS
from kohort_lab.sim.generations.changes import CHANGES, GroupChange, victim
from kohort_lab.sim.generations.group_world import QUIET_MS, GroupWorld, Setup

PATIENCE_MS: Final = 120_000
"""Longest time to settle after a change, in ms."""


@dataclass(frozen=True, slots=True)
class ChangeCost:
    """Cost of one change; partition-seconds are partitions times seconds."""

    generation: str
    change: str
    members: int
    partitions: int
    seed: int
    settled: bool
    """True if each partition had one owner within two minutes."""
    lasted_s: float
    """Seconds until settled."""
    requests: int
    notifications: int
    interrupted: int
    """Partitions without owner at some time."""
    unowned_s: float
    """Partition-seconds without owner."""
    moved: int
    """Partitions with another owner afterwards."""
    split_s: float
    """Partition-seconds with two owners that could both commit."""
    zombie_s: float
    """Partition-seconds with two owners of which one could commit."""
    reread: int
    """Records delivered again."""


def measure(generation: str, setup: Setup, changes: Sequence[str] = ()) -> Iterator[ChangeCost]:
    """Yield the cost of each change; all changes by default."""
    group = GENERATIONS[generation].world(setup)
    group.begin()
    group.run_until_settled(QUIET_MS, PATIENCE_MS)
    rng = random.Random(f"changes {setup.seed}")
    for name in changes or CHANGES:
        yield _cost(generation, group, CHANGES[name], rng)
        _restore(group)


def _cost(generation: str, group: GroupWorld, change: GroupChange, rng: random.Random) -> ChangeCost:
    group.world.run(group.world.now_ms + rng.randrange(5_000), after_each=lambda: None)
    struck = victim(group, rng)
    owners, account = group.holdings.owners(), group.holdings.account
    requests, notifications = group.traffic.requests, group.traffic.notifications
    began_ms = group.world.now_ms
    group.holdings.forget_interruptions()
    change.strike(group, struck)
    settled = group.run_until_settled(change.takes_ms(group), PATIENCE_MS)
    spent = group.holdings.account.since(account)
    until_ms = group.holdings.changed_ms if settled else group.world.now_ms
    return ChangeCost(
        generation=generation,
        change=change.name,
        members=group.setup.members,
        partitions=group.setup.partitions,
        seed=group.setup.seed,
        settled=settled,
        lasted_s=max(0, until_ms - began_ms) / 1000,
        requests=group.traffic.requests - requests,
        notifications=group.traffic.notifications - notifications,
        interrupted=len(group.holdings.interrupted),
        unowned_s=spent.unowned_ms / 1000,
        moved=_moved(owners, group.holdings.owners()),
        split_s=spent.split_ms / 1000,
        zombie_s=spent.zombie_ms / 1000,
        reread=spent.reread,
    )


def _moved(before: dict[TopicPartition, str], after: dict[TopicPartition, str]) -> int:
    return sum(after.get(partition) != owner for partition, owner in before.items())


def _restore(group: GroupWorld) -> None:
    """Restore the initial number of members, all healthy; the cost is not counted."""
    more = len(group.alive) - group.setup.members
    for member in group.alive[-more:] if more > 0 else ():
        member.leave()
    for member in [member for member in group.members if not member.alive][: max(0, -more)]:
        member.start()
    if more or not group.is_settled:
        group.run_until_settled(QUIET_MS, PATIENCE_MS)
