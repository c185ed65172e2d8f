"""Reconcile owned partitions with the target assignment inside ``poll()``: commit, revoke, assign, acknowledge.

Rules: protocol/consumer-members.md#reconciliation. A newer target assignment waits until the member has acknowledged
the current one (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kohort.client.group.consumer_heartbeat import Reconcilable
from kohort.client.group.membership import CallbackNeeded, CommitPositions, Rebalancing
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.reading.subscription import Mode, SubscriptionState
from kohort.model import TopicPartition


class Reconciliation(Rebalancing):
    """Reconciliation of a consumer group member."""

    def __init__(
        self,
        membership: ConsumerMembership,
        subscription: SubscriptionState,
        commit_timeout_ms: int,
        commit_positions: CommitPositions | None,
    ) -> None:
        super().__init__(subscription, commit_timeout_ms, commit_positions)
        self._membership = membership
        self._incarnation = 0

    @property
    def is_stable(self) -> bool:
        return self._membership.is_stable  # the member is not stable while a listener callback runs

    @property
    def _may_start(self) -> bool:
        return self._may_join or self._membership.reconcilable() is not None

    def _start(self, now_ms: int) -> bool:
        if self._may_join:
            self._request_callback("lost", self._subscription.assigned, then=self._join)
            return True
        target = self._membership.reconcilable()
        if target is None:
            return False
        self._membership.is_reconciling = True
        target_partitions, owned = set(target.names), self._subscription.assigned
        revoked = [p for p in owned if p not in target_partitions]
        added = [p for p in target.names if p not in owned]
        self._start_commit(revoked, revoked, now_ms)
        self._then(lambda _: self._request_callback("revoked", revoked, then=lambda _: self._adopt(target, added)))
        return True

    def acknowledge(self) -> None:
        callback = self.callback
        super().acknowledge()
        # after on_partitions_revoked the member no longer owns the partitions, even if it was fenced meanwhile
        if callback is not None and callback.kind == "revoked":
            revoked = set(callback.partitions)
            self._subscription.assign_from_group([p for p in self._subscription.assigned if p not in revoked])

    def _stop(self) -> bool:
        return self._membership.prepare_leave()

    @property
    def _has_lost_membership(self) -> bool:
        is_in_flight = self._next is not None or self._commit is not None
        return is_in_flight and self._incarnation != self._membership.incarnation

    @property
    def _may_join(self) -> bool:
        subscription = self._subscription
        unknown = subscription.mode is Mode.PATTERN and not subscription.pattern_was_matched
        # the topics that match the pattern are unknown until metadata arrive
        return self._membership.may_join and not unknown

    def _join(self, _now_ms: int) -> None:
        self._subscription.assign_from_group(())
        self._membership.join()

    def _adopt(self, target: Reconcilable, added: Collection[TopicPartition]) -> None:
        changes = target.local.partitions != self._membership.owned.partitions or self._membership.owned.number < 0
        self._subscription.assign_from_group(target.names)
        if changes:
            self.callback = CallbackNeeded("assigned", tuple(added))
        self._then(lambda now_ms: self._membership.acknowledge(target, now_ms))

    def _then(self, step: Callable[[int], None]) -> None:
        super()._then(step)
        self._incarnation = self._membership.incarnation
