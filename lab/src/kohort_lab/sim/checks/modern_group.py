"""Checks of a consumer group: interval of target assignments, conversions, reconciliation and balance."""

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
    """Target assignments of the group; call ``check`` after every event that changed it."""

    def __init__(
        self,
        group: Callable[[], ModernGroup | None],
        stretches: Callable[[], int],
        interval_ms: int,
        forged: Collection[str] = (),
    ) -> None:
        self._group = group
        self._forged = forged
        self._stretches = stretches
        self._stretch = 0
        self._interval_ms = interval_ms
        self._target = (0, 0)
        self._epoch = 0
        self._last_heartbeats: dict[str, Exchange] = {}
        self.states: set[str] = set()
        """Observed states."""

    def requested(self, exchange: Exchange) -> None:
        if isinstance(exchange.request, ConsumerGroupHeartbeatRequest):
            self._last_heartbeats[exchange.request.member_id] = exchange

    def answered(self, exchange: Exchange) -> None:
        """Check that a leaving member is removed at once, unless it leaves temporarily.

        A forged or pipelined join may have restored the member id in between.
        """
        request, group = exchange.request, self._group()
        if group is None or not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_id in self._forged:
            return
        is_last = self._last_heartbeats.get(request.member_id) is exchange
        if not is_last or not isinstance(exchange.answer, ConsumerGroupHeartbeatResponse):
            return
        if request.member_epoch == LEAVING_EPOCH:
            self.check_departed(group, request.member_id, exchange.error)
        elif request.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
            self.check_away(group, request.member_id, exchange.error)

    def check_departed(self, group: ModernGroup, member_id: str, error: ErrorCode) -> None:
        if not error and member_id in group.members:
            raise CheckFailed(f"{member_id} has left, but is still a member")

    def check_away(self, group: ModernGroup, member_id: str, error: ErrorCode) -> None:
        """Check that a static member keeps its place during a temporary leave."""
        member = group.members.get(member_id)
        if not error and (member is None or member.epoch != LEAVING_FOR_A_WHILE_EPOCH):
            raise CheckFailed(f"{member_id} left temporarily, but has lost its place in the group")

    def check(self) -> None:
        group = self._group()
        if group is None:
            return
        if (stretch := self._stretches()) != self._stretch:
            self._stretch, self._target, self._epoch = stretch, (0, 0), 0
        self.check_target(group.target_epoch, group.target_at_ms)
        if group.epoch < self._epoch:
            raise CheckFailed(f"the group epoch is {group.epoch} after {self._epoch}")
        self._epoch = group.epoch
        self.check_kind(group)
        self._note(group)

    def check_target(self, epoch: int, at_ms: int) -> None:
        """Check that target assignments keep the assignment interval and increasing epochs."""
        before, before_ms = self._target
        if epoch == before:
            return
        if epoch < before:
            raise CheckFailed(f"the target assignment has epoch {epoch} after {before}")
        if before_ms and at_ms and at_ms - before_ms < self._interval_ms:
            raise CheckFailed(
                f"a target assignment follows after {at_ms - before_ms} ms; the interval is {self._interval_ms} ms"
            )
        self._target = (epoch, at_ms)

    def check_kind(self, group: ModernGroup) -> None:
        """Check that a group of classic members only is converted to a classic group."""
        if group.members and all(member.is_classic for member in group.members.values()):
            raise CheckFailed("all members use the classic protocol, but the group is still a consumer group")

    def _note(self, group: ModernGroup) -> None:
        for member in group.members.values():
            if member.current.state is not ReconciliationState.STABLE:
                self.states.add(member.current.state.name)
            if member.epoch < 0:
                self.states.add("AWAY")
            if member.is_classic:
                self.states.add("MIXED")


def why_not_reconciled(group: ModernGroup) -> str | None:
    """Return the members that have not reached their target assignment as text, or None."""
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
    """Check the balance of a settled group by its members' preferred assignor; equal subscriptions.

    A converted group keeps its assignment, maybe of ``range``, until its epoch increases (``converted_at``), as in
    Kafka.
    """
    votes = group.assignor_votes
    assignor = max(votes, key=lambda name: votes[name]) if votes else "uniform"
    check_balance(owned, "range" if group.epoch == converted_at else assignor, topics)
