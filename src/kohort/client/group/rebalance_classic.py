"""Rebalance of a classic group member inside ``poll()``: commit, revoke, join, accept the assignment.

Rules: protocol/members.md#rebalance-callbacks. ``ClassicMembership`` implements the protocol.

Eager: all partitions are revoked before the join. Cooperative: owned partitions stay unless the new assignment lacks
them; a member that revoked partitions rejoins at once, so that the next generation can assign them.
"""

from __future__ import annotations

from collections.abc import Collection

from kohort.client.group.membership import CallbackNeeded, CommitPositions, Rebalancing
from kohort.client.group.membership_classic import ClassicMembership, MemberState
from kohort.client.reading.subscription import Mode, SubscriptionState
from kohort.model import TopicPartition


class ClassicRebalance(Rebalancing):
    """Rebalance of a classic group member."""

    def __init__(
        self,
        membership: ClassicMembership,
        subscription: SubscriptionState,
        commit_timeout_ms: int,
        commit_positions: CommitPositions | None,
        *,
        cooperative: bool,
    ) -> None:
        super().__init__(subscription, commit_timeout_ms, commit_positions)
        self._membership = membership
        self._cooperative = cooperative
        self._joined_topics: frozenset[str] | None = None
        self._revoked_eagerly = False

    @property
    def is_stable(self) -> bool:
        membership = self._membership
        idle = self.callback is None and self._next is None and self._commit is None
        stable = membership.state is MemberState.STABLE and membership.new_assignment is None
        return idle and stable and membership.rejoin_reason is None

    @property
    def _may_start(self) -> bool:
        return self._membership.new_assignment is not None or self._must_rejoin()

    def _start(self, now_ms: int) -> bool:
        if self._membership.new_assignment is not None:
            self._take_assignment(now_ms)
        elif self._must_rejoin():
            self._prepare(now_ms)
        else:
            return False
        return True

    def _stop(self) -> bool:
        self._joined_topics = None
        self._revoked_eagerly = False
        return self._membership.generation.is_member and self._membership.state is MemberState.STABLE

    def _must_rejoin(self) -> bool:
        membership, subscription = self._membership, self._subscription
        if membership.state not in (MemberState.UNJOINED, MemberState.STABLE):
            return False
        if self._joined_topics is None:
            if subscription.mode is Mode.PATTERN and not subscription.pattern_was_matched:
                return False  # the topics that match the pattern are unknown until metadata arrive
            # the consumer joins because it subscribed, not because its previous membership ended
            membership.rejoin_reason = "the consumer subscribed"
        elif membership.state is MemberState.UNJOINED:
            membership.request_rejoin("the member is not in the group")
        elif self._joined_topics != subscription.topics:
            membership.request_rejoin("the subscription has changed since the last join")
        elif membership.leader.is_out_of_date():
            membership.request_rejoin("the partitions of the group's topics have changed since the assignment")
        return membership.rejoin_reason is not None

    def _prepare(self, now_ms: int) -> None:
        member = self._membership.generation.is_member
        revoked = [] if not member else self._unsubscribed() if self._cooperative else list(self._subscription.assigned)
        self._start_commit(revoked, list(self._subscription.assigned) if member else [], now_ms)
        self._then(self._revoke_before_join)

    def _unsubscribed(self) -> list[TopicPartition]:
        return [p for p in self._subscription.assigned if p.topic not in self._subscription.topics]

    def _revoke_before_join(self, _now_ms: int) -> None:
        owned = tuple(self._subscription.assigned)
        if not self._membership.generation.is_member:
            self._revoked_eagerly = False
            self._request_callback("lost", owned, then=lambda _: self._join(keep=()))
        elif self._cooperative:
            unsubscribed = self._unsubscribed()
            keep = [p for p in owned if p not in set(unsubscribed)]
            for partition in keep:  # the user subscribed to these topics again during the offset commit
                self._subscription.assigned[partition].pending_revocation = False
            self._request_callback("revoked", unsubscribed, then=lambda _: self._join(keep=keep))
        else:
            again, self._revoked_eagerly = self._revoked_eagerly, True
            self._request_callback("revoked", owned, even_if_empty=not again, then=lambda _: self._join(keep=()))

    def _join(self, keep: Collection[TopicPartition]) -> None:
        # The offset commit has copied the positions of revoked partitions, so their state can be dropped.
        self._subscription.assign_from_group(keep)
        self._joined_topics = self._subscription.topics
        self._membership.join()

    def _take_assignment(self, now_ms: int) -> None:
        assigned = self._membership.take_assignment() or []
        if not self._subscription.matches(assigned):
            self._membership.request_rejoin("the assignment does not match the subscription, which changed meanwhile")
            return
        owned = self._subscription.assigned
        revoked = tuple(p for p in owned if p not in set(assigned))
        added = tuple(p for p in assigned if p not in owned)
        self._revoked_eagerly = False
        self._start_commit(revoked, revoked, now_ms)
        self._then(lambda _: self._revoke(revoked, added, assigned))

    def _revoke(
        self, revoked: tuple[TopicPartition, ...], added: tuple[TopicPartition, ...], assigned: list[TopicPartition]
    ) -> None:
        if not self._membership.generation.is_member:
            return  # the membership ended during the offset commit; the next join reports the owned partitions as lost
        if revoked:
            names = ", ".join(map(str, revoked))
            self._membership.request_rejoin(f"partitions were revoked and can be given to others: {names}")
        self._request_callback("revoked", revoked, then=lambda _: self._adopt(added, assigned))

    def _adopt(self, added: tuple[TopicPartition, ...], assigned: list[TopicPartition]) -> None:
        if not self._membership.generation.is_member:  # the membership ended during the listener callback
            self._subscription.assign_from_group([p for p in assigned if p not in added])
            return
        self._subscription.assign_from_group(assigned)
        # With a pattern, the leader may assign topics that the member does not know yet. They must cause no rejoin.
        self._joined_topics = self._membership.messages.sent_topics | {p.topic for p in assigned}
        self._membership.accept(assigned)
        self.callback = CallbackNeeded("assigned", added)
