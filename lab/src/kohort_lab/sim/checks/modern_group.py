"""A modern group after every event, and once it is settled: targets not too often, conversions when they are due,
everybody has what the target says, and the target is what the assignor is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import ReconciliationState
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.messages.group_consumer import (
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort_lab.sim.checks.balance import check_balance
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher


class ModernGroupHolds(Watcher):
    """Remembers the targets of the group; ``check`` is called after every event that changed anything of it."""

    def __init__(
        self,
        group: Callable[[], ModernGroup | None],
        stretches: Callable[[], int],
        interval_ms: int,
        spoken_for: Collection[str] = (),
    ) -> None:
        self._group = group
        self._spoken_for = spoken_for
        self._stretches = stretches
        self._stretch = 0
        self._interval_ms = interval_ms
        self._target = (0, 0)
        self._epoch = 0
        self._last_asked: dict[str, Exchange] = {}
        self.states: set[str] = set()
        """What was reached."""

    def asked(self, exchange: Exchange) -> None:
        if isinstance(exchange.asked, ConsumerGroupHeartbeatRequest):
            self._last_asked[exchange.asked.member_id] = exchange

    def answered(self, exchange: Exchange) -> None:
        """Check that a member that has left is gone at once, and one that will be back is not.

        Under an id that a stranger speaks for somebody may have joined again by now; so may the member itself, with a
        request that it sent behind this one.
        """
        asked, group = exchange.asked, self._group()
        if group is None or not isinstance(asked, ConsumerGroupHeartbeatRequest) or asked.member_id in self._spoken_for:
            return
        is_last = self._last_asked.get(asked.member_id) is exchange
        if not is_last or not isinstance(exchange.answer, ConsumerGroupHeartbeatResponse):
            return
        if asked.member_epoch == LEAVING_EPOCH:
            self.check_left(group, asked.member_id, exchange.error)
        elif asked.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
            self.check_away(group, asked.member_id, exchange.error)

    def check_left(self, group: ModernGroup, member_id: str, error: ErrorCode) -> None:
        if not error and member_id in group.members:
            raise CheckFailed(f"{member_id} has left, and is still a member")

    def check_away(self, group: ModernGroup, member_id: str, error: ErrorCode) -> None:
        """Check that a static member that will be back keeps its place."""
        member = group.members.get(member_id)
        if not error and (member is None or member.epoch != LEAVING_FOR_A_WHILE_EPOCH):
            raise CheckFailed(f"{member_id} will be back, and has no place in the group any more")

    def check(self) -> None:
        group = self._group()
        if group is None:
            return
        if (stretch := self._stretches()) != self._stretch:
            self._stretch, self._target, self._epoch = stretch, (0, 0), 0
        self.check_target(group.target_epoch, group.target_at_ms)
        if group.epoch < self._epoch:
            raise CheckFailed(f"the group's epoch is {group.epoch} after {self._epoch}")
        self._epoch = group.epoch
        self.check_kind(group)
        self._note(group)

    def check_target(self, epoch: int, at_ms: int) -> None:
        """Check that a target follows another only after the assignment interval, and never one of a later epoch."""
        before, before_ms = self._target
        if epoch == before:
            return
        if epoch < before:
            raise CheckFailed(f"the target is of epoch {epoch} after {before}")
        if before_ms and at_ms and at_ms - before_ms < self._interval_ms:
            raise CheckFailed(f"a target {at_ms - before_ms} ms after another; the interval is {self._interval_ms} ms")
        self._target = (epoch, at_ms)

    def check_kind(self, group: ModernGroup) -> None:
        """Check that a group whose members all speak the classic protocol is not left a modern one."""
        if group.members and all(member.is_classic for member in group.members.values()):
            raise CheckFailed("all members speak the classic protocol, and the group is still a modern one")

    def _note(self, group: ModernGroup) -> None:
        for member in group.members.values():
            if member.current.state is not ReconciliationState.STABLE:
                self.states.add(member.current.state.name)
            if member.epoch < 0:
                self.states.add("AWAY")
            if member.is_classic:
                self.states.add("MIXED")


def why_not_reconciled(group: ModernGroup) -> str | None:
    """Say who has not what it is to have, or None."""
    if group.epoch != group.target_epoch:
        return f"the target is of epoch {group.target_epoch}, the group's is {group.epoch}"
    for member_id, member in group.members.items():
        if not group.is_settled(member):
            return f"{member_id} is {member.current.state.name} at {member.epoch}, the target at {group.target_epoch}"
        has = {topic_id: frozenset(of) for topic_id, of in member.current.assigned.items()}
        if has != dict(group.target(member_id)):
            return f"{member_id} has not what it is to have"
    return None


def check_modern_balance(
    owned: Mapping[str, Sequence[TopicPartition]], group: ModernGroup, topics: int, converted_at: int | None
) -> None:
    """Check a settled group by the assignor that its members prefer, all of which read the same topics.

    A group that was converted goes on with the shares that it had, of ``range`` maybe, until something raises its epoch
    (``converted_at``), as in Kafka.
    """
    votes = group.assignor_votes
    assignor = max(votes, key=lambda name: votes[name]) if votes else "uniform"
    check_balance(owned, "range" if group.epoch == converted_at else assignor, topics)
