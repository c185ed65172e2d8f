"""Reconcile owned partitions with the target assignment inside ``poll()``: commit, revoke, assign, acknowledge.

Rules: protocol/consumer-members.md#reconciliation. A newer target assignment waits until the member has acknowledged
this one (KIP-848).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kohort.client.group.consumer_heartbeat import Reconcilable
from kohort.client.group.membership import CallbackKind, CallbackNeeded, CommitPositions
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.reading.subscription import Mode, SubscriptionState
from kohort.client.requests.source import Promise
from kohort.model import OffsetAndMetadata, TopicPartition


class Reconciliation:
    """Reconciliation of a consumer group member; ``advance`` continues it, only inside ``poll()``."""

    def __init__(
        self,
        membership: ConsumerMembership,
        subscription: SubscriptionState,
        commit_timeout_ms: int,
        commit_positions: CommitPositions | None,
    ) -> None:
        self.callback: CallbackNeeded | None = None
        self._membership = membership
        self._subscription = subscription
        self._commit_timeout_ms = commit_timeout_ms
        self._commit_positions = commit_positions
        self._next: Callable[[int], None] | None = None
        self._incarnation = 0
        self._commit: Promise[dict[TopicPartition, OffsetAndMetadata]] | None = None
        self._commit_until_ms = 0

    @property
    def is_due(self) -> bool:
        if not self._subscription.mode.is_group or self.callback is not None:
            return False
        if self._has_lost_membership:
            return True
        if self._commit is not None:
            return self._commit.done
        return self._next is not None or self._may_join or self._membership.reconcilable() is not None

    @property
    def is_stable(self) -> bool:
        return self._membership.is_stable  # the member is not stable while a listener callback runs

    def advance(self, now_ms: int) -> None:
        while self._subscription.mode.is_group and self.callback is None:
            if self._has_lost_membership:
                self._next = self._commit = None
            if self._commit is not None:
                if not self._commit.done and now_ms < self._commit_until_ms:
                    return
                self._commit = None
            if self._next is not None:
                step, self._next = self._next, None
                step(now_ms)
            elif self._may_join:
                self._request_callback("lost", self._subscription.assigned, then=self._join)
            elif (target := self._membership.reconcilable()) is not None:
                self._start(target, now_ms)
            else:
                return

    def acknowledge(self) -> None:
        assert self.callback is not None, "no callback is open"
        callback, self.callback = self.callback, None
        # after a revoked callback the member no longer owns the partitions, even if it was fenced during the callback
        if callback.kind == "revoked":
            revoked = set(callback.partitions)
            self._subscription.assign_from_group([p for p in self._subscription.assigned if p not in revoked])

    def prepare_leave(self) -> CallbackNeeded | None:
        owned = tuple(self._subscription.assigned) if self._subscription.mode.is_group else ()
        self._next = self._commit = self.callback = None
        is_member = self._membership.prepare_leave()
        return CallbackNeeded("revoked" if is_member else "lost", owned) if owned else None

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

    def _start(self, target: Reconcilable, now_ms: int) -> None:
        self._membership.is_reconciling = True
        target_partitions, owned = set(target.names), self._subscription.assigned
        revoked = [p for p in owned if p not in target_partitions]
        added = [p for p in target.names if p not in owned]
        for partition in revoked:
            owned[partition].pending_revocation = True
        if revoked and self._commit_positions is not None:
            self._commit_until_ms = now_ms + self._commit_timeout_ms
            self._commit = self._commit_positions(revoked, self._commit_until_ms)
        self._then(lambda _: self._request_callback("revoked", revoked, then=lambda _: self._adopt(target, added)))

    def _adopt(self, target: Reconcilable, added: Collection[TopicPartition]) -> None:
        changes = target.local.partitions != self._membership.owned.partitions or self._membership.owned.number < 0
        self._subscription.assign_from_group(target.names)
        if changes:
            self.callback = CallbackNeeded("assigned", tuple(added))
        self._then(lambda now_ms: self._membership.acknowledge(target, now_ms))

    def _request_callback(
        self, kind: CallbackKind, partitions: Collection[TopicPartition], *, then: Callable[[int], None]
    ) -> None:
        self._then(then)
        if partitions:
            self.callback = CallbackNeeded(kind, tuple(partitions))

    def _then(self, step: Callable[[int], None]) -> None:
        self._next = step
        self._incarnation = self._membership.incarnation
