"""Who works on which partition, for how long nobody did, and for how long two did: the same for every generation.

An owner is a process that runs, believes that a partition is its own, and would hand out its records. One that stands
still owns nothing while it does; one that was killed owns nothing any more. Where two own a partition at one time, they
are told apart by what their group would do with their commits: if it would refuse those of all but one, the others are
zombies, who cost work that is done twice; if it would take the commits of both, it is a split brain, and one undoes
what the other did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kohort.model import Record, TopicPartition
from kohort_lab.sim.checks.watcher import WatchedConsumer, Watcher
from kohort_lab.sim.world import World


@dataclass(slots=True)
class MemberHoldings:
    """What one member holds."""

    consumer: WatchedConsumer
    partitions: set[TopicPartition] = field(default_factory=set)
    fenced: set[TopicPartition] = field(default_factory=set)
    """Those that another one took when this one could not have committed any more."""
    asleep: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """What has come together since the beginning of a run. Partition-milliseconds: partitions times milliseconds."""

    unowned_ms: int = 0
    split_ms: int = 0
    zombie_ms: int = 0
    reread: int = 0
    """Records that were handed out again."""
    read: int = 0

    def since(self, before: Account) -> Account:
        """Return what came together after ``before``."""
        return Account(
            self.unowned_ms - before.unowned_ms,
            self.split_ms - before.split_ms,
            self.zombie_ms - before.zombie_ms,
            self.reread - before.reread,
            self.read - before.read,
        )


class Holdings(Watcher):
    """Told of what members take and give up; ``is_fenced``: whether a member's commit would be refused now."""

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
        """When somebody last took or gave up something."""
        self.interrupted: set[TopicPartition] = set()
        """Partitions that nobody owned at some time since this was last emptied."""

    # ------------------------------------------------------------ what there is

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Hear of partitions that there are from now on; nobody owns them yet."""
        self._count()
        for partition in partitions:
            self._owners[partition] = {}
            self._unowned += 1

    @property
    def account(self) -> Account:
        """What has come together until now."""
        self._count()
        return self._account

    @property
    def is_whole(self) -> bool:
        """Whether each partition has exactly one owner."""
        return not (self._unowned or self._split or self._zombies)

    def owners(self) -> dict[TopicPartition, str]:
        """Return one owner of each partition that has any."""
        return {partition: next(iter(held)) for partition, held in self._owners.items() if held}

    def forget_interruptions(self) -> None:
        """Begin to note anew which partitions nobody owns."""
        self.interrupted = {partition for partition, held in self._owners.items() if not held}

    # ------------------------------------------------------------ what happens

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        del generation_id
        held = self._members.setdefault(consumer.name, MemberHoldings(consumer))
        self._release(held, held.partitions - owned)
        for partition in owned:
            held.partitions.add(partition)
            held.fenced.discard(partition)
            if not held.asleep:
                self._own(held, partition)

    def gave_up(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        held = self._members.get(consumer.name)
        if held is not None:
            self._release(held, held.partitions & partitions)
            held.asleep = held.asleep and kind != "killed"

    def sleeps(self, name: str) -> None:
        """Hear that a process stands still."""
        held = self._members.get(name)
        if held is not None:
            for partition in held.partitions:
                self._disown(held, partition)
            held.asleep = True

    def wakes(self, name: str) -> None:
        """Hear that a process goes on, with what it held."""
        held = self._members.get(name)
        if held is not None and held.asleep:
            held.asleep = False
            for partition in held.partitions:
                self._own(held, partition, came_back=True)

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        del consumer  # whoever it is
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

    # ------------------------------------------------------------ counting

    def _release(self, held: MemberHoldings, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            self._disown(held, partition)
            held.partitions.discard(partition)
            held.fenced.discard(partition)

    def _own(self, held: MemberHoldings, partition: TopicPartition, *, came_back: bool = False) -> None:
        owners = self._owners.setdefault(partition, {})
        if held.consumer.name in owners:
            return
        with_whom = list(owners.values())
        if came_back and with_whom and self._is_fenced(held.consumer):
            held.fenced.add(partition)
        for other in with_whom:
            if not came_back and self._is_fenced(other.consumer):
                other.fenced.add(partition)
        self._change(partition, lambda: owners.__setitem__(held.consumer.name, held))

    def _disown(self, held: MemberHoldings, partition: TopicPartition) -> None:
        owners = self._owners[partition]
        if held.consumer.name in owners:
            self._change(partition, lambda: owners.pop(held.consumer.name))

    def _change(self, partition: TopicPartition, act: Callable[[], object]) -> None:
        """Do something to the owners of a partition, and count them before and after."""
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
            could_commit = sum(partition not in held.fenced for held in owners.values())
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
