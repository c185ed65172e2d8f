"""Membership of a consumer in its group, for both group protocols.

``Membership`` is a request source: it keeps the member alive between polls, and names the generation of each commit.
``Rebalancing`` runs inside ``poll()``. Classic groups: ``membership_classic.py`` and ``rebalance_classic.py``;
consumer groups: ``membership_consumer.py`` and ``reconciliation.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from kohort.client.requests.find_coordinator import COORDINATOR_CHANNEL
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Promise, RequestSource, Unsent
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.schema import Message

CallbackKind = Literal["revoked", "assigned", "lost"]
CommitPositions = Callable[[Collection[TopicPartition], int | None], Promise[dict[TopicPartition, OffsetAndMetadata]]]
"""Function that commits the positions of partitions, with retries until a deadline in ms."""


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """Listener callback that is due; the rebalance continues after ``acknowledge``.

    ``revoked``: partitions still owned during the callback, so the listener can commit. ``lost``: partitions that
    another member may own already. ``assigned``: added partitions, before their first fetch, so the listener can seek.
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
    """Rebalance of a member inside ``poll()``, for both group protocols.

    ``callback``: listener callback to call now; the rebalance waits for ``acknowledge``. ``is_due``: True if
    ``advance`` can continue now. ``advance`` runs until it needs the user or a broker. ``prepare_leave`` returns the
    last callback before the member leaves.
    """

    @property
    def callback(self) -> CallbackNeeded | None: ...
    @property
    def is_due(self) -> bool: ...
    @property
    def is_stable(self) -> bool: ...
    def advance(self, now_ms: int) -> None: ...
    def acknowledge(self) -> None: ...
    def prepare_leave(self) -> CallbackNeeded | None: ...


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
    """Error of a failed offset commit, and True if a retry with the member's new generation may succeed."""

    error: KohortError
    may_retry: bool = False


class Membership(RequestSource, Protocol):
    """Membership in a group: a request source that keeps the member alive between polls.

    ``generation``: sent with commits; ``fetch_generation``: sent with offset fetches. ``user_generation``: generation
    of the partitions that the user reads; it remains after the membership ends, so that late commits fail.
    ``incarnation``: number of lost memberships. ``commit_refusal`` returns the error that a commit would get now.
    ``enforce_rebalance`` rejoins (KIP-568), or raises UsageError in a consumer group. ``resume_heartbeats`` restarts
    heartbeats after the user received an error that paused them.
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


class Leave(NamedTuple):
    """LeaveGroup or last heartbeat of a member, and the promise that ``leave()`` returned."""

    request: Message
    promise: Promise[None]
    channel: str = COORDINATOR_CHANNEL


def leave_requests(
    leaves: Sequence[Leave],
    node_id: int | None,
    timeout_ms: int,
    shape: Callable[[Message, int], Message] | None = None,
) -> list[Unsent]:
    """Return the members' last requests; without a known coordinator complete their promises and send nothing."""
    if node_id is None:
        for leave in leaves:
            leave.promise.resolve(None)
        return []
    return [
        Unsent(node_id, leave.request, timeout_ms, channel=leave.channel, context=leave.promise, shape=shape)
        for leave in leaves
    ]


class PollDeadline:
    def __init__(self, interval_ms: int) -> None:
        self.until_ms: int | None = None
        """Time in ms before which the user must poll again; None during ``poll()`` and before the first one."""
        self._interval_ms = interval_ms

    def enter(self) -> None:
        self.until_ms = None

    def leave(self, now_ms: int) -> None:
        self.until_ms = now_ms + self._interval_ms

    def expired(self, now_ms: int) -> bool:
        return self.until_ms is not None and now_ms >= self.until_ms


class HeartbeatClocks:
    """Deadlines of heartbeat, session and next poll (protocol/members.md#timers-of-a-member).

    Each successful JoinGroup restarts them.
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
        """Start the heartbeat interval when the heartbeat is sent, not when its response arrives."""
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
