"""Ownership over time: partitions without owner, and with two owners, measured alike for every generation.

An owner is a running process that would deliver the partition's records. A frozen process owns nothing during its
freeze, a killed one nothing at all. Two owners are a zombie case if the group would reject the commits of all but one
(duplicate work), and a split brain if it would accept commits of both (lost work).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kohort.model import Record, TopicPartition
from kohort_lab.sim.checks.watcher import WatchedConsumer, Watcher
from kohort_lab.sim.world import World


@dataclass(slots=True)
class MemberHoldings:
    consumer: WatchedConsumer
    partitions: set[TopicPartition] = field(default_factory=set)
    fenced: set[TopicPartition] = field(default_factory=set)
    """Partitions that another member got after this member was fenced."""
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """Sums since the start of a run, in partition-milliseconds (partitions times milliseconds) and records."""

    unowned_ms: int = 0
    split_ms: int = 0
    zombie_ms: int = 0
    reread: int = 0
    """Records delivered again."""
    read: int = 0

    def since(self, before: Account) -> Account:
        """Return the difference to an earlier account."""
        return Account(
            self.unowned_ms - before.unowned_ms,
            self.split_ms - before.split_ms,
            self.zombie_ms - before.zombie_ms,
            self.reread - before.reread,
            self.read - before.read,
        )


class Holdings(Watcher):
    """Watcher of assignments and revocations; ``is_fenced``: True if a member's commit would be rejected."""

    def __init__(self, world: World, is_fenced: Callable[[WatchedConsumer], bool]) -> None:
        self._world = world
        self._is_fenced = is_fenced
        self._members: dict[str, MemberHoldings] = {}
        self._owners: dict[TopicPartition, dict[str, MemberHoldings]] = {}
        self._unowned = self._split = self._zombies = 0
        self._counted_ms = world.now_ms
        self._account = Account()
        self._next: dict[TopicPartition, int] = {}
        self.changed_ms = world.now_ms
        """Time of the last ownership change, in ms."""
        self.interrupted: set[TopicPartition] = set()
        """Partitions without owner at any time since the last reset."""

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add new partitions, without owner."""
        self._count()
        for partition in partitions:
            self._owners[partition] = {}
            self._unowned += 1

    @property
    def account(self) -> Account:
        """Sums up to the current time."""
        self._count()
        return self._account

    @property
    def is_whole(self) -> bool:
        """True if each partition has exactly one owner."""
        return not (self._unowned or self._split or self._zombies)

    def owners(self) -> dict[TopicPartition, str]:
        """Return one owner of each owned partition."""
        return {partition: next(iter(owners)) for partition, owners in self._owners.items() if owners}

    def forget_interruptions(self) -> None:
        """Reset ``interrupted`` to the partitions that have no owner."""
        self.interrupted = {partition for partition, owners in self._owners.items() if not owners}

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        member = self._members.setdefault(consumer.name, MemberHoldings(consumer))
        self._release(member, member.partitions - owned)
        for partition in owned:
            member.partitions.add(partition)
            member.fenced.discard(partition)
            if not member.asleep:
                self._own(member, partition)

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        member = self._members.get(consumer.name)
        if member is not None:
            self._release(member, member.partitions & partitions)
            member.asleep = member.asleep and kind != "killed"

    def sleeps(self, name: str) -> None:
        """Handle the start of a process freeze."""
        member = self._members.get(name)
        if member is not None:
            for partition in member.partitions:
                self._disown(member, partition)
            member.asleep = True

    def wakes(self, name: str) -> None:
        """Handle the end of a process freeze; the process owns its partitions again."""
        member = self._members.get(name)
        if member is not None and member.asleep:
            member.asleep = False
            for partition in member.partitions:
                self._own(member, partition, is_resumed=True)

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        del consumer  # any consumer
        again = 0
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            if record.offset < self._next.get(partition, 0):
                again += 1
            else:
                self._next[partition] = record.offset + 1
        account = self._account
        self._account = Account(
            account.unowned_ms, account.split_ms, account.zombie_ms, account.reread + again, account.read + len(records)
        )

    def _release(self, member: MemberHoldings, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self._disown(member, partition)
            member.partitions.discard(partition)
            member.fenced.discard(partition)

    def _own(self, member: MemberHoldings, partition: TopicPartition, *, is_resumed: bool = False) -> None:
        owners = self._owners.setdefault(partition, {})
        if member.consumer.name in owners:
            return
        with_whom = list(owners.values())
        if is_resumed and with_whom and self._is_fenced(member.consumer):
            member.fenced.add(partition)
        for other in with_whom:
            if not is_resumed and self._is_fenced(other.consumer):
                other.fenced.add(partition)
        self._change(partition, lambda: owners.__setitem__(member.consumer.name, member))

    def _disown(self, member: MemberHoldings, partition: TopicPartition) -> None:
        owners = self._owners[partition]
        if member.consumer.name in owners:
            self._change(partition, lambda: owners.pop(member.consumer.name))

    def _change(self, partition: TopicPartition, act: Callable[[], object]) -> None:
        """Change the owners of a partition and update the counters."""
        self._count()
        self._tally(partition, -1)
        act()
        self._tally(partition, 1)
        self.changed_ms = self._world.now_ms
        if not self._owners[partition]:
            self.interrupted.add(partition)

    def _tally(self, partition: TopicPartition, by: int) -> None:
        owners = self._owners[partition]
        if not owners:
            self._unowned += by
        elif len(owners) > 1:
            could_commit = sum(partition not in owner.fenced for owner in owners.values())
            if could_commit > 1:
                self._split += by
            else:
                self._zombies += by

    def _count(self) -> None:
        passed_ms = self._world.now_ms - self._counted_ms
        self._counted_ms = self._world.now_ms
        if passed_ms:
            account = self._account
            self._account = Account(
                account.unowned_ms + passed_ms * self._unowned,
                account.split_ms + passed_ms * self._split,
                account.zombie_ms + passed_ms * self._zombies,
                account.reread,
                account.read,
            )
