"""Groups of one ``__consumer_offsets`` partition. The shard selects the module that decides on a request or timer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from enum import Enum

from kohort.coordinator.classic.evidence import owners_of
from kohort.coordinator.classic.heartbeat import on_pending_timer, on_session_timer
from kohort.coordinator.classic.rebalance import begin_sessions, cancel_timers, on_round_timer, open_round
from kohort.coordinator.classic.round import Round, refuse_parked
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.classic.sync import on_sync_timer
from kohort.coordinator.consumer.on_timer import (
    TIMERS_OF_CONSUMER_GROUPS,
    begin_consumer_group,
    on_timer,
    resign_consumer_group,
)
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupLoaded, GroupUnloaded, Trigger
from kohort.coordinator.offsets.delete import decide_expiry, decide_expiry_in_consumer, decide_topics_deleted
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import NO_OFFSETS
from kohort.coordinator.outcome import Outcome, Reply, TimerKey
from kohort.coordinator.records import partition_of
from kohort.errors import ApiError, ErrorCode


class Availability(Enum):
    """Loading state of a ``__consumer_offsets`` partition."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard:
    """Groups of one ``__consumer_offsets`` partition. ``Shards.carry_out`` executes the shard's decisions."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.availability = Availability.LOADING
        self.groups = Groups()

    def fire(self, key: TimerKey, ctx: Context) -> Outcome:
        if key.kind in TIMERS_OF_CONSUMER_GROUPS:
            consumer = self.groups.consumer.get(key.group_id)
            return Outcome() if consumer is None else on_timer(consumer, key, ctx)
        group = self.groups.by_id.get(key.group_id)
        if group is None:
            return Outcome()
        if key.kind == "session":
            return on_session_timer(group, key.member_id, ctx)
        if key.kind == "pending":
            return on_pending_timer(group, key.member_id, ctx)
        return on_round_timer(group, ctx) if key.kind == "round" else on_sync_timer(group, ctx)

    def begin(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        """Start each group after its partition was loaded (protocol/groups.md#loading)."""
        for group_id, group in list(self.groups.by_id.items()):
            out = Outcome()
            group.round = rebalance = Round.of(group.persisted, ctx.now_ms)
            begin_sessions(group, ctx, out)
            if group.persisted is not None:
                loaded = GroupLoaded(
                    at_ms=ctx.now_ms,
                    group=group_id,
                    generation=rebalance.generation_id,
                    members=tuple(m.identity for m in rebalance.members.values()),
                    partitions=owners_of(group.persisted),
                )
                out.journal.append(loaded)
            if rebalance.state is GroupState.STABLE and len(rebalance.members) > ctx.config.group_max_size:
                open_round(group, ctx, out, Trigger(event="over_capacity"))
            elif group.has_no_leader:
                open_round(group, ctx, out, Trigger(event="downgraded"))
            yield group_id, out
        for group_id, consumer in list(self.groups.consumer.items()):
            yield group_id, begin_consumer_group(consumer, ctx)

    def resign(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        """Refuse the waiting requests to all groups of this ``__consumer_offsets`` partition with NOT_COORDINATOR."""
        for group_id, group in self.groups.by_id.items():
            out = Outcome()
            refuse_parked(group.round.members.values(), ErrorCode.NOT_COORDINATOR, out)
            cancel_timers(group, out)
            if group.persisted is not None:
                generation = group.round.generation_id
                out.journal.append(GroupUnloaded(at_ms=ctx.now_ms, group=group_id, generation=generation))
            group.round.move_to(GroupState.DEAD, ctx.now_ms)
            yield group_id, out
        for group_id, consumer in self.groups.consumer.items():
            yield group_id, resign_consumer_group(consumer, ctx)

    def expire_offsets(self, ctx: Context) -> Iterator[tuple[str, Outcome]]:
        for group_id, group in list(self.groups.by_id.items()):
            yield group_id, decide_expiry(group, self.groups.offsets.get(group_id, NO_OFFSETS), ctx)
        for group_id, consumer in list(self.groups.consumer.items()):
            yield group_id, decide_expiry_in_consumer(consumer, self.groups.offsets.get(group_id, NO_OFFSETS), ctx)

    def topics_deleted(self, names: Collection[str], ctx: Context) -> Iterator[tuple[str, Outcome]]:
        holding = [(g, offsets) for g, offsets in self.groups.offsets.items() if offsets.may_hold(names)]
        for group_id, offsets in holding:
            yield group_id, decide_topics_deleted(group_id, offsets, names, ctx.topics)


CarryOut = Callable[[Shard, str, Outcome, Context], list[Reply]]
"""Function that appends and replays the records of a decision, sets its timers, and returns its responses."""


class Shards:
    """All loaded ``__consumer_offsets`` partitions, each as one shard. ``carry_out`` executes their decisions."""

    def __init__(self, partitions: int, carry_out: CarryOut) -> None:
        self.by_partition: dict[int, Shard] = {}
        self.partitions = partitions
        self.carry_out = carry_out

    def __iter__(self) -> Iterator[Shard]:
        return iter(self.by_partition.values())

    def get(self, partition: int) -> Shard | None:
        return self.by_partition.get(partition)

    def active(self) -> Iterator[Shard]:
        return (shard for shard in self if shard.availability is Availability.ACTIVE)

    def active_at(self, partition: int) -> Shard | None:
        shard = self.by_partition.get(partition)
        return shard if shard is not None and shard.availability is Availability.ACTIVE else None

    @property
    def is_loading(self) -> bool:
        return any(shard.availability is Availability.LOADING for shard in self)

    def of_group(self, group_id: str) -> Shard:
        """Return the shard with this group. Raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self.by_partition.get(partition_of(group_id, self.partitions))
        if shard is not None and shard.availability is Availability.ACTIVE:
            return shard
        if shard is None or shard.availability is Availability.FAILED:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
