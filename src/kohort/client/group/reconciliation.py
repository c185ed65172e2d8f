"""How a member takes what the coordinator assigns, as the user sees it: commit, give up, take, say so (KIP-848).

The rules: protocol/consumer-members.md#reconciliation. ``ConsumerMembership`` speaks the protocol; this is the part
that must happen in the thread that polls. One target at a time: a newer one waits until this one is acknowledged.
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
    """The steps of one reconciliation after the other. ``advance`` is called while the user polls, and only then."""

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
        self._life = 0
        """Of the member, when the steps that are under way began."""
        self._commit: Promise[dict[TopicPartition, OffsetAndMetadata]] | None = None
        self._commit_until_ms = 0

    @property
    def is_due(self) -> bool:
        if not self._subscription.mode.is_group or self.callback is not None:
            return False
        if self._has_fallen_out:
            return True
        if self._commit is not None:
            return self._commit.done
        return self._next is not None or self._may_join or self._membership.reconcilable() is not None

    @property
    def is_stable(self) -> bool:
        return self._membership.is_stable  # which it is not while the user is being told

    def advance(self, now_ms: int) -> None:
        while self._subscription.mode.is_group and self.callback is None:
            if self._has_fallen_out:
                self._next = self._commit = None
            if self._commit is not None:
                if not self._commit.done and now_ms < self._commit_until_ms:
                    return
                self._commit = None
            if self._next is not None:
                step, self._next = self._next, None
                step(now_ms)
            elif self._may_join:
                self._tell("lost", self._subscription.assigned, then=self._join)
            elif (target := self._membership.reconcilable()) is not None:
                self._take(target, now_ms)
            else:
                return

    def acknowledge(self) -> None:
        assert self.callback is not None, "no callback is open"
        told, self.callback = self.callback, None
        if told.kind == "revoked":  # told, it is gone, whatever becomes of the member meanwhile
            gone = set(told.partitions)
            self._subscription.assign_from_group([p for p in self._subscription.assigned if p not in gone])

    def prepare_leave(self) -> CallbackNeeded | None:
        owned = tuple(self._subscription.assigned) if self._subscription.mode.is_group else ()
        self._next = self._commit = self.callback = None
        is_member = self._membership.prepare_leave()
        return CallbackNeeded("revoked" if is_member else "lost", owned) if owned else None

    @property
    def _has_fallen_out(self) -> bool:
        under_way = self._next is not None or self._commit is not None
        return under_way and self._life != self._membership.life

    # The begin, and a new one

    @property
    def _may_join(self) -> bool:
        subscription = self._subscription
        unknown = subscription.mode is Mode.PATTERN and not subscription.pattern_was_matched
        return self._membership.may_join and not unknown  # which topics match is about to be known

    def _join(self, _now_ms: int) -> None:
        self._subscription.assign_from_group(())
        self._membership.join()

    # One target

    def _take(self, target: Reconcilable, now_ms: int) -> None:
        self._membership.is_reconciling = True
        wanted, owned = set(target.names), self._subscription.assigned
        revoked = [p for p in owned if p not in wanted]
        added = [p for p in target.names if p not in owned]
        for partition in revoked:
            owned[partition].pending_revocation = True
        if revoked and self._commit_positions is not None:
            self._commit_until_ms = now_ms + self._commit_timeout_ms
            self._commit = self._commit_positions(revoked, self._commit_until_ms)
        self._then(lambda _: self._tell("revoked", revoked, then=lambda _: self._adopt(target, added)))

    def _adopt(self, target: Reconcilable, added: Collection[TopicPartition]) -> None:
        changes = target.local.partitions != self._membership.owned.partitions or self._membership.owned.number < 0
        self._subscription.assign_from_group(target.names)
        if changes:
            self.callback = CallbackNeeded("assigned", tuple(added))
        self._then(lambda now_ms: self._membership.acknowledge(target, now_ms))

    def _tell(self, kind: CallbackKind, partitions: Collection[TopicPartition], *, then: Callable[[int], None]) -> None:
        self._then(then)
        if partitions:
            self.callback = CallbackNeeded(kind, tuple(partitions))

    def _then(self, step: Callable[[int], None]) -> None:
        self._next = step
        self._life = self._membership.life
