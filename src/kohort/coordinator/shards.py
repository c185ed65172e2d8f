"""The partitions of ``__consumer_offsets`` that are coordinated here: which of them holds a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kohort.coordinator.context import Context
from kohort.coordinator.outcome import Outcome, Reply
from kohort.coordinator.partitioning import partition_of
from kohort.coordinator.shard import Availability, Shard
from kohort.errors import ApiError, ErrorCode

CarryOut = Callable[[Shard, str, Outcome, Context], list[Reply]]
"""``carry_out(shard, group_id, outcome, ctx)``: append, replay, arm timers; returns the replies that may leave."""


class Shards:
    """All shards of a coordinator; ``carry_out`` is how a decision on one of their groups becomes real."""

    def __init__(self, partitions: int, carry_out: CarryOut) -> None:
        self.by_partition: dict[int, Shard] = {}
        self.partitions = partitions
        self.carry_out = carry_out

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.by_partition.values())

    def get(self, partition: int) -> Shard | None:
        """Return the shard of a partition, whatever its availability; None if it is not coordinated here."""
        return self.by_partition.get(partition)

    def active(self) -> Iterator[Shard]:
        """Yield those whose groups can be asked."""
        return (shard for shard in self if shard.availability is Availability.ACTIVE)

    def active_at(self, partition: int) -> Shard | None:
        """Return the shard of a partition if its groups can be asked, else None."""
        shard = self.by_partition.get(partition)
        return shard if shard is not None and shard.availability is Availability.ACTIVE else None

    @property
    def is_loading(self) -> bool:
        """Whether the groups of some partition are still being read."""
        return any(shard.availability is Availability.LOADING for shard in self)

    def of_group(self, group_id: str) -> Shard:
        """Return where the group lives. Raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self.by_partition.get(partition_of(group_id, self.partitions))
        if shard is not None and shard.availability is Availability.ACTIVE:
            return shard
        if shard is None or shard.availability is Availability.FAILED:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
