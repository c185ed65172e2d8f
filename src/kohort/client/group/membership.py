"""Membership of a consumer in its group, for both group protocols.

``Membership`` is a request source: it keeps the member alive between polls, and names the generation of each commit.
``Rebalancing`` runs inside ``poll()``. Classic groups: ``membership_classic.py`` and ``rebalance_classic.py``;
consumer groups: ``membership_consumer.py`` and ``reconciliation.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from kohort.client.reading.context import ConsumerContext, ConsumerSource
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.find_coordinator import CoordinatorLookup
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Promise, RequestSource, Unsent
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition

CallbackKind = Literal["revoked", "assigned", "lost"]
CommitPositions = Callable[[Collection[TopicPartition], int | None], Promise[dict[TopicPartition, OffsetAndMetadata]]]
"""Function that commits the positions of partitions. It retries until a deadline in ms."""


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """A listener callback to run. The rebalance continues after ``acknowledge``.

    ``revoked``: partitions that the consumer owns during the callback, so the listener can commit. ``lost``: partitions
    that another member may already own. ``assigned``: added partitions before their first fetch, so the listener can
    seek.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Callbacks of a rebalance, for ``subscribe(..., listener=)``.

    They run inside ``poll()``, ``unsubscribe()`` or ``close()``, in the thread that calls the method (of an
    ``AsyncConsumer``: in its task). The rebalance waits until they return, and their duration counts against
    ``max.poll.interval.ms``. An exception in a callback does not stop the rebalance. The method raises the first
    exception after the last callback.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Finish work on ``partitions`` before another member gets them.

        The consumer still owns the partitions, so ``commit()`` works here. With auto-commit the positions are already
        committed. With an eager assignor ``partitions`` are all owned partitions, and may be empty. With a cooperative
        assignor they are the revoked partitions only, and the callback is not called if none is revoked.
        """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Prepare for newly assigned ``partitions``. Partitions that the consumer keeps are not included.

        Called after every rebalance, even with an empty list. No record of the partitions has been returned yet, so
        ``seek()`` and ``pause()`` apply from the first record on.
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop the state of ``partitions``: the member was removed from the group.

        Other members may already own the partitions, so commits fail. Called in place of ``on_partitions_revoked``, but
        not if the member owned no partitions.
        """


class Rebalancing(ABC):
    """Rebalance of a member inside ``poll()``; base class for both group protocols.

    It commits the offsets of revoked partitions, calls the listener, and then joins the group or acknowledges the
    assignment.
    """

    def __init__(
        self, subscription: SubscriptionState, commit_timeout_ms: int, commit_positions: CommitPositions | None
    ) -> None:
        self.callback: CallbackNeeded | None = None
        """Listener callback to call now; the rebalance waits for ``acknowledge``."""
        self._subscription = subscription
        self._commit_timeout_ms = commit_timeout_ms
        self._commit_positions = commit_positions
        self._commit: Promise[dict[TopicPartition, OffsetAndMetadata]] | None = None
        self._commit_until_ms = 0
        self._next: Callable[[int], None] | None = None
        """Function that continues the rebalance after the offset commit or the listener callback."""

    @property
    @abstractmethod
    def is_stable(self) -> bool: ...

    @property
    @abstractmethod
    def _may_start(self) -> bool:
        """True if a join, a revocation or an assignment is due."""

    @abstractmethod
    def _start(self, now_ms: int) -> bool:
        """Start the join, revocation or assignment that is due; return False if none is due."""

    @abstractmethod
    def _stop(self) -> bool:
        """Reset the rebalance before the member leaves; return True if the member still owns its partitions."""

    @property
    def _has_lost_membership(self) -> bool:
        """True if the membership has ended since the rebalance began. The rebalance must then stop."""
        return False

    @property
    def is_due(self) -> bool:
        """True if ``advance`` can continue the rebalance now."""
        if not self._subscription.mode.is_group or self.callback is not None:
            return False
        if self._has_lost_membership:
            return True
        if self._commit is not None:
            return self._commit.done
        return self._next is not None or self._may_start

    def advance(self, now_ms: int) -> None:
        """Continue the rebalance until it waits for a listener callback or for a broker."""
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
            elif not self._start(now_ms):
                return

    def acknowledge(self) -> None:
        assert self.callback is not None, "no callback is open"
        self.callback = None

    def prepare_leave(self) -> CallbackNeeded | None:
        """Stop the rebalance, and return the listener callback to run before the member leaves the group."""
        owned = tuple(self._subscription.assigned) if self._subscription.mode.is_group else ()
        self._next = self._commit = self.callback = None
        is_member = self._stop()
        return CallbackNeeded("revoked" if is_member else "lost", owned) if owned else None

    def _start_commit(
        self, revoked: Collection[TopicPartition], commit: Collection[TopicPartition], now_ms: int
    ) -> None:
        for partition in revoked:
            self._subscription.assigned[partition].pending_revocation = True
        if commit and self._commit_positions is not None:
            self._commit_until_ms = now_ms + self._commit_timeout_ms
            self._commit = self._commit_positions(commit, self._commit_until_ms)

    def _request_callback(
        self,
        kind: CallbackKind,
        partitions: Collection[TopicPartition],
        *,
        then: Callable[[int], None],
        even_if_empty: bool = False,
    ) -> None:
        self._then(then)
        if partitions or even_if_empty:
            self.callback = CallbackNeeded(kind, tuple(partitions))

    def _then(self, step: Callable[[int], None]) -> None:
        self._next = step


COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Generation(NamedTuple):
    """Member id and generation of a classic group; in a consumer group ``generation_id`` is the member epoch."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_member(self) -> bool:
        return self.generation_id >= 0 and bool(self.member_id)


NO_GENERATION: Final = Generation()


class CommitOutcome(NamedTuple):
    """Error of a failed offset commit. ``may_retry``: a retry with the member's new generation may succeed."""

    error: KohortError
    may_retry: bool = False


class Membership(RequestSource, Protocol):
    """Membership in a group: a request source that keeps the member alive between polls.

    ``generation`` is sent with commits, ``fetch_generation`` with OffsetFetch. ``user_generation`` is the generation of
    the partitions that the user reads. It remains after the membership ends, so that late commits fail.
    ``incarnation``: number of memberships that were lost. ``commit_refusal`` returns the error that a commit would get
    now. ``enforce_rebalance`` rejoins the group (KIP-568), or raises UsageError in a consumer group.
    ``resume_heartbeats`` restarts heartbeats after an error that paused them was raised to the user.
    """

    @property
    def generation(self) -> Generation: ...
    @property
    def user_generation(self) -> Generation: ...
    @property
    def fetch_generation(self) -> Generation: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def is_stable(self) -> bool: ...
    def resume_heartbeats(self) -> None: ...
    def enter_poll(self) -> None: ...
    def leave_poll(self, now_ms: int) -> None: ...
    def enforce_rebalance(self, reason: str) -> None: ...
    def leave(self, reason: str) -> Promise[None]: ...
    def commit_refusal(self) -> KohortError | None: ...
    def on_commit_error(self, generation: Generation, error: ApiError) -> CommitOutcome: ...


def not_a_member(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"this consumer is no longer a member of group {group_id!r}; its uncommitted records may be read again. "
        "Poll more often, or raise max.poll.interval.ms"
    )


class PollDeadline:
    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self.poll_until_ms: int | None = None
        """Deadline in ms for the user's next poll. None during ``poll()``, and before the first poll."""

    def enter_poll(self) -> None:
        self.poll_until_ms = None

    def leave_poll(self, now_ms: int) -> None:
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def poll_expired(self, now_ms: int) -> bool:
        return self.poll_until_ms is not None and now_ms >= self.poll_until_ms


class MemberSource(ConsumerSource):
    """Base class of the memberships of both group protocols."""

    clocks: PollDeadline

    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup) -> None:
        super().__init__(context)
        self.generation = NO_GENERATION
        self.user_generation = NO_GENERATION
        self.incarnation = 0
        self._lookup = lookup
        self._request = RequestState(retry_backoff(context.config, context.rng))
        self._rebalances = context.metrics.rebalances
        self._leaves: list[Unsent] = []
        """LeaveGroup requests or last heartbeats that wait to be sent.

        The ``context`` of each request is the promise that ``leave()`` returned.
        """

    def enter_poll(self) -> None:
        self.clocks.enter_poll()

    def leave_poll(self, now_ms: int) -> None:
        self.clocks.leave_poll(now_ms)

    def _poll_leaves(self) -> list[Unsent]:
        """Return the pending requests to leave the group. Without a coordinator, complete their promises instead."""
        leaves, self._leaves = self._leaves, []
        node_id = self._lookup.node_id
        for leave in leaves:
            if node_id is None:
                leave.context.resolve(None)
            else:
                leave.node_id = node_id
        return [] if node_id is None else leaves


class HeartbeatClocks(PollDeadline):
    """Deadlines of heartbeat, session and next poll (protocol/members.md#timers-of-a-member).

    Each successful JoinGroup restarts them.
    """

    def __init__(self, config: ConsumerConfig, rng: Rng) -> None:
        super().__init__(config)
        self._request = RequestState(retry_backoff(config, rng))
        self.heartbeat_at_ms = 0
        self.session_until_ms = 0

    def start(self, now_ms: int) -> None:
        self.sent(now_ms)
        self.received(now_ms)
        if self.poll_until_ms is not None:
            self.leave_poll(now_ms)

    def sent(self, now_ms: int) -> None:
        """Start the heartbeat interval at the time of sending, not at the time of the response."""
        self.heartbeat_at_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        self._request.succeeded()
        self.renew_session(now_ms)

    def failed(self, now_ms: int) -> None:
        self.heartbeat_at_ms = self._request.failed(now_ms)

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_until_ms

    def renew_session(self, now_ms: int) -> None:
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def wake_at_ms(self, *, may_heartbeat: bool) -> int:
        at_ms = self.session_until_ms
        if may_heartbeat and self.heartbeat_at_ms < at_ms:
            at_ms = self.heartbeat_at_ms
        if self.poll_until_ms is not None and self.poll_until_ms < at_ms:
            at_ms = self.poll_until_ms
        return at_ms
