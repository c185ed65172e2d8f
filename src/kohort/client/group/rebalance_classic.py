"""Rebalance of a classic group member inside ``poll()``: commit, revoke, join, accept the assignment.

Rules: protocol/members.md#rebalance-callbacks. ``ClassicMembership`` implements the protocol.

Eager: all partitions are revoked before the join. Cooperative: owned partitions stay unless the new assignment lacks
them; a member that revoked partitions rejoins at once, so that the next generation can assign them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from kohort.client.group.membership import CallbackKind, CallbackNeeded, CommitPositions
from kohort.client.group.membership_classic import ClassicMembership, MemberState
from kohort.client.reading.subscription import Mode, SubscriptionState
from kohort.client.requests.source import Promise
from kohort.model import OffsetAndMetadata, TopicPartition


class ClassicRebalance:
    """Rebalance of a classic member; ``advance`` continues it, only inside ``poll()``."""

    def __init__(
        self,
        membership: ClassicMembership,
        subscription: SubscriptionState,
        commit_timeout_ms: int,
        commit_positions: CommitPositions | None,
        *,
        cooperative: bool,
    ) -> None:
        self.callback: CallbackNeeded | None = None
        self._membership = membership
        self._subscription = subscription
        self._cooperative = cooperative
        self._commit_timeout_ms = commit_timeout_ms
        self._commit_positions = commit_positions
        self._next: Callable[[], None] | None = None
        self._commit: Promise[dict[TopicPartition, OffsetAndMetadata]] | None = None
        self._commit_until_ms = 0
        self._joined_topics: frozenset[str] | None = None
        self._revoked_eagerly = False

    @property
    def is_due(self) -> bool:
        if not self._subscription.mode.is_group or self.callback is not None:
            return False
        if self._commit is not None:
            return self._commit.done
        return self._next is not None or self._membership.new_assignment is not None or self._must_rejoin()

    @property
    def is_stable(self) -> bool:
        membership = self._membership
        idle = self.callback is None and self._next is None and self._commit is None
        stable = membership.state is MemberState.STABLE and membership.new_assignment is None
        return idle and stable and membership.rejoin_reason is None

    def advance(self, now_ms: int) -> None:
        while self._subscription.mode.is_group and self.callback is None:
            if self._commit is not None:
                if not self._commit.done and now_ms < self._commit_until_ms:
                    return
                self._commit = None
            if self._next is not None:
                step, self._next = self._next, None
                step()
            elif self._membership.new_assignment is not None:
                self._take_assignment(now_ms)
            elif self._must_rejoin():
                self._prepare(now_ms)
            else:
                return

    def acknowledge(self) -> None:
        assert self.callback is not None, "no callback is open"
        self.callback = None

    def prepare_leave(self) -> CallbackNeeded | None:
        membership = self._membership
        owned = tuple(self._subscription.assigned) if self._subscription.mode.is_group else ()
        self._next = self._commit = self.callback = self._joined_topics = None
        self._revoked_eagerly = False
        if not owned:
            return None
        safe = membership.generation.is_member and membership.state is MemberState.STABLE
        return CallbackNeeded("revoked" if safe else "lost", owned)

    def _must_rejoin(self) -> bool:
        membership, subscription = self._membership, self._subscription
        if membership.state not in (MemberState.UNJOINED, MemberState.STABLE):
            return False
        if self._joined_topics is None:
            if subscription.mode is Mode.PATTERN and not subscription.pattern_was_matched:
                return False  # the topics that match the pattern are unknown until metadata arrive
            # the rejoin reason of a subscription replaces the reason from the end of the previous membership
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
        self._next = self._revoke_before_join

    def _unsubscribed(self) -> list[TopicPartition]:
        return [p for p in self._subscription.assigned if p.topic not in self._subscription.topics]

    def _start_commit(
        self, revoked: Collection[TopicPartition], commit: Collection[TopicPartition], now_ms: int
    ) -> None:
        for partition in revoked:
            self._subscription.assigned[partition].pending_revocation = True
        if commit and self._commit_positions is not None:
            self._commit_until_ms = now_ms + self._commit_timeout_ms
            self._commit = self._commit_positions(commit, self._commit_until_ms)

    def _revoke_before_join(self) -> None:
        owned = tuple(self._subscription.assigned)
        if not self._membership.generation.is_member:
            self._revoked_eagerly = False
            self._request_callback("lost", owned, even_if_empty=False, then=lambda: self._join(keep=()))
        elif self._cooperative:
            unsubscribed = self._unsubscribed()
            keep = [p for p in owned if p not in set(unsubscribed)]
            for partition in keep:  # the user subscribed to these topics again during the offset commit
                self._subscription.assigned[partition].pending_revocation = False
            self._request_callback(
                "revoked", tuple(unsubscribed), even_if_empty=False, then=lambda: self._join(keep=keep)
            )
        else:
            again, self._revoked_eagerly = self._revoked_eagerly, True
            self._request_callback("revoked", owned, even_if_empty=not again, then=lambda: self._join(keep=()))

    def _join(self, keep: Collection[TopicPartition]) -> None:
        # The offset commit contains the positions of revoked partitions, so their state can be dropped.
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
        self._next = lambda: self._revoke(revoked, added, assigned)

    def _revoke(
        self, revoked: tuple[TopicPartition, ...], added: tuple[TopicPartition, ...], assigned: list[TopicPartition]
    ) -> None:
        if not self._membership.generation.is_member:
            return  # the membership ended during the offset commit; the next join reports its partitions as lost
        if revoked:
            names = ", ".join(map(str, revoked))
            self._membership.request_rejoin(f"partitions were revoked and can be given to others: {names}")
        self._request_callback("revoked", revoked, even_if_empty=False, then=lambda: self._adopt(added, assigned))

    def _adopt(self, added: tuple[TopicPartition, ...], assigned: list[TopicPartition]) -> None:
        if not self._membership.generation.is_member:  # the membership ended during the listener callback
            self._subscription.assign_from_group([p for p in assigned if p not in added])
            return
        self._subscription.assign_from_group(assigned)
        # the leader knows the topics that match a subscription pattern; another subscription needs a new JoinGroup
        self._joined_topics = self._membership.sent_topics | {p.topic for p in assigned}
        self._membership.accept(assigned)
        self.callback = CallbackNeeded("assigned", added)

    def _request_callback(
        self,
        kind: CallbackKind,
        partitions: tuple[TopicPartition, ...],
        *,
        even_if_empty: bool,
        then: Callable[[], None],
    ) -> None:
        self._next = then
        if partitions or even_if_empty:
            self.callback = CallbackNeeded(kind, partitions)
