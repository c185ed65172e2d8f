"""Membership of a consumer in its group, for either group protocol.

``Membership`` is a request source: it keeps the member alive between polls, and names the generation of each commit.
``Rebalancing`` runs inside ``poll()``. Classic groups: ``membership_classic.py`` and ``rebalance_classic.py``;
consumer groups: ``membership_consumer.py`` and ``reconciliation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Promise, RequestSource
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition

CallbackKind = Literal["revoked", "assigned", "lost"]
CommitPositions = Callable[[Collection[TopicPartition], int | None], Promise[dict[TopicPartition, OffsetAndMetadata]]]
"""Commits the positions of these partitions, until a deadline in ms."""


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """A listener callback that is due; the rebalance continues after ``acknowledge``.

    ``revoked``: still owned during the callback, so the listener can commit. ``lost``: maybe owned by another member
    already. ``assigned``: the added partitions, before the first fetch, so the listener can seek.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Callbacks of a rebalance, for ``subscribe(..., listener=)``.

    They run inside ``poll()``, ``unsubscribe()`` or ``close()``, in the thread of the call (of an ``AsyncConsumer``: in
    its task), and the rebalance waits for them. Their time counts against ``max.poll.interval.ms``. An exception does
    not stop the rebalance: the call raises the first one when the rebalance no longer needs the user.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Finish work on ``partitions`` before another member gets them.

        This consumer still owns them, so ``commit()`` works here; with auto-commit the positions were committed before.
        With an eager assignor these are all owned partitions, maybe none. With a cooperative one these are the
        partitions that move; without any it is not called.
        """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Prepare for newly assigned ``partitions``; kept partitions are not included.

        Called after every rebalance, maybe with an empty list, before the first record of a partition is returned:
        ``seek()`` and ``pause()`` apply to the first record.
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop the state of ``partitions``: the member was removed from the group.

        Other members may own them already, and commits fail. Called instead of ``on_partitions_revoked``, and only if
        partitions were owned.
        """


class Rebalancing(Protocol):
    """Steps of a rebalance inside ``poll()``, for either group protocol."""

    @property
    def callback(self) -> CallbackNeeded | None:
        """Listener callback that is due; the rebalance waits for ``acknowledge``."""

    @property
    def is_due(self) -> bool:
        """True if ``advance`` has work now."""

    @property
    def is_stable(self) -> bool:
        """True if the member has the group's assignment, and no change is in flight."""

    def advance(self, now_ms: int) -> None:
        """Advance until the user or the broker has to act."""

    def acknowledge(self) -> None:
        """Continue after the listener callback."""

    def prepare_leave(self) -> CallbackNeeded | None:
        """Return the last callback before the member leaves; drop all that is in flight."""


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
    """Error of a failed commit, and whether a retry under the new generation may succeed."""

    error: KohortError
    may_retry: bool = False


class Membership(RequestSource, Protocol):
    @property
    def generation(self) -> Generation:
        """Generation of commits."""

    @property
    def user_generation(self) -> Generation:
        """Generation of the user's partitions. It outlives the membership, so that late commits fail."""

    @property
    def incarnation(self) -> int:
        """Number of times that the group dropped this member."""

    @property
    def fetch_generation(self) -> Generation:
        """Generation of offset fetches; NO_GENERATION if they need none."""

    @property
    def is_stable(self) -> bool:
        """True if owned partitions equal the known assignment."""

    def resume_heartbeats(self) -> None:
        """Resume the heartbeats that an error paused, once the user has seen the error."""

    def enter_poll(self) -> None:
        """Stop the poll deadline while the user is in poll()."""

    def leave_poll(self, now_ms: int) -> None:
        """Start the poll deadline when poll() returns."""

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin at the next poll (KIP-568). Raises UsageError in a consumer group."""

    def leave(self, reason: str) -> Promise[None]:
        """Leave the group, if a coordinator is known, and drop the generation."""

    def commit_refusal(self) -> KohortError | None:
        """Return the error that a commit would get now, or None."""

    def on_commit_error(self, generation: Generation, error: ApiError) -> CommitOutcome:
        """Return what a commit error, sent under ``generation``, means for the caller."""


def not_a_member(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"this consumer is no longer a member of group {group_id!r}; its uncommitted records may be read again. "
        "Poll more often, or raise max.poll.interval.ms"
    )


class PollDeadline:
    """Deadline of the next poll."""

    def __init__(self, interval_ms: int) -> None:
        self.until_ms: int | None = None
        """None during poll(), and before the first one."""
        self._interval_ms = interval_ms

    def enter(self) -> None:
        self.until_ms = None

    def leave(self, now_ms: int) -> None:
        self.until_ms = now_ms + self._interval_ms

    def expired(self, now_ms: int) -> bool:
        return self.until_ms is not None and now_ms >= self.until_ms


class HeartbeatClocks:
    """Deadlines of the next heartbeat, the session and the next poll (protocol/members.md#clocks-of-a-member).

    They run from one successful JoinGroup to the next.
    """

    def __init__(self, config: ConsumerConfig, rng: Rng) -> None:
        self._config = config
        self._request = RequestState(retry_backoff(config, rng))
        self._polling = False
        self.heartbeat_at_ms = 0
        self.session_until_ms = 0
        self.poll_until_ms = 0

    def start(self, now_ms: int) -> None:
        self._request.succeeded()
        self.heartbeat_at_ms = now_ms + self._config.heartbeat_interval_ms
        self.session_until_ms = now_ms + self._config.session_timeout_ms
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """Count the interval from the request, not from the response."""
        self.heartbeat_at_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        self._request.succeeded()
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def failed(self, now_ms: int) -> None:
        self.heartbeat_at_ms = self._request.failed(now_ms)

    def enter_poll(self) -> None:
        self._polling = True

    def leave_poll(self, now_ms: int) -> None:
        self._polling = False
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_until_ms

    def poll_expired(self, now_ms: int) -> bool:
        return not self._polling and now_ms >= self.poll_until_ms

    def renew_session(self, now_ms: int) -> None:
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def wake_at_ms(self, *, may_heartbeat: bool) -> int:
        at_ms = self.session_until_ms
        if may_heartbeat and self.heartbeat_at_ms < at_ms:
            at_ms = self.heartbeat_at_ms
        if not self._polling and self.poll_until_ms < at_ms:
            at_ms = self.poll_until_ms
        return at_ms
