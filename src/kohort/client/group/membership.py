"""Membership of a consumer in its group, for either group protocol.

A membership has two parts. ``Membership`` is a source: it keeps the consumer in the group between polls, and gives the
generation of each commit. ``Rebalancing`` runs inside ``poll()``. Classic groups: ``membership_classic.py`` and
``rebalance_classic.py``; consumer groups: ``membership_consumer.py`` and ``reconciliation.py``.
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
"""Commits where the consumer stands in these partitions, before a deadline."""


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """The user's listener is to be told; the rebalance goes on when the face has acknowledged it.

    ``revoked``: still owned while the listener runs, so that it can commit. ``lost``: somebody else may own them
    already. ``assigned``: the newly added ones, before they are fetched, so that the listener can seek.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Hears of rebalances: what ``subscribe(..., listener=)`` takes.

    Every method is called inside ``poll()``, ``unsubscribe()`` or ``close()``, in the thread that called it (of an
    ``AsyncConsumer``: in its task), and the rebalance goes on when it returns. Its time counts against
    ``max.poll.interval.ms``. An exception does not stop the rebalance: the first one is raised by the call that the
    listener ran in, once the rebalance can do without the user.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Finish with ``partitions`` before somebody else gets them.

        Called while this consumer still owns them, so what was done can be committed here: ``commit()`` waits until it
        is written. With auto-commit that has been tried before. With an eager assignor these are all that it owns, and
        the list may be empty; with a cooperative one those that move, and it is not called where none does.
        """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Prepare for ``partitions``, which were not owned before; what stays is not among them.

        Called after every rebalance, with an empty list too, and before any record of them is handed out:
        ``seek()`` and ``pause()`` hold from the first record on.
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop what is held for ``partitions``: the group has gone on without this member.

        Others may own them already, and a commit is refused. Called in place of ``on_partitions_revoked``, and not
        where nothing was owned.
        """


class Rebalancing(Protocol):
    """Steps of a rebalance that run inside ``poll()``, for either group protocol.

    A callback is a value: the face runs the listener and acknowledges, then the rebalance goes on.
    """

    @property
    def callback(self) -> CallbackNeeded | None:
        """Listener callback that is due; the membership waits for ``acknowledge``."""

    @property
    def is_due(self) -> bool:
        """True if ``advance`` has work now."""

    @property
    def is_stable(self) -> bool:
        """True if the assignment is that of the group, and no change is in flight."""

    def advance(self, now_ms: int) -> None:
        """Advance until the user or the broker has to act."""

    def acknowledge(self) -> None:
        """Note that the listener ran, or that there is none."""

    def prepare_leave(self) -> CallbackNeeded | None:
        """Return the last callback of the listener before the member leaves; drop all that is in flight."""


COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Generation(NamedTuple):
    """Who this member is, in which round of a classic group; in other groups ``generation_id`` is the member epoch."""

    generation_id: int = -1
    member_id: str = ""
    protocol_name: str | None = None

    @property
    def is_member(self) -> bool:
        return self.generation_id >= 0 and bool(self.member_id)


NO_GENERATION: Final = Generation()


class CommitVerdict(NamedTuple):
    """What a refused commit means: the error for who waits for it, unless there is time to try again, as the member
    that it is by then."""

    error: KohortError
    may_retry: bool = False


class Membership(RequestSource, Protocol):
    @property
    def generation(self) -> Generation:
        """Under which offsets are committed now."""

    @property
    def user_generation(self) -> Generation:
        """The one whose partitions the user works on. It outlives its loss: what is done under it then is refused."""

    @property
    def life(self) -> int:
        """Grows whenever the group has gone on without this member, which then begins anew."""

    @property
    def reads_as(self) -> Generation:
        """Under which offsets are read; NO_GENERATION where everybody may."""

    @property
    def is_stable(self) -> bool:
        """Whether it has what the group has assigned to it, as far as it knows."""

    def resume_heartbeats(self) -> None:
        """Send heartbeats again, once the engine is kicked: the user has seen the error that held them."""

    def enter_poll(self) -> None:
        """Stop the clock of the user, who is in poll()."""

    def leave_poll(self, now_ms: int) -> None:
        """Start the clock of the user, whose own work begins."""

    def enforce_rebalance(self, reason: str) -> None:
        """Rejoin at the next poll (KIP-568). Raises UsageError where no member can ask for it."""

    def leave(self, reason: str) -> Promise[None]:
        """Say goodbye if there is anyone to say it to, and forget the generation."""

    def commit_refusal(self) -> KohortError | None:
        """Return why a commit would be wrong now, or None."""

    def judge_commit(self, generation: Generation, error: ApiError) -> CommitVerdict:
        """Return what the answer to a commit, sent under ``generation``, means to who waits for it."""


def not_a_member(group_id: str) -> CommitFailed:
    return CommitFailed(
        f"this consumer is not a member of group {group_id!r} any more; what it did not commit may be "
        "read again by others. Poll more often, or raise max.poll.interval.ms"
    )


class PollClock:
    """How long the user may still work before the next poll."""

    def __init__(self, interval_ms: int) -> None:
        self.until_ms: int | None = None
        """None while the user is in poll(), and before the first one."""
        self._interval_ms = interval_ms

    def enter(self) -> None:
        self.until_ms = None

    def leave(self, now_ms: int) -> None:
        self.until_ms = now_ms + self._interval_ms

    def expired(self, now_ms: int) -> bool:
        return self.until_ms is not None and now_ms >= self.until_ms


class HeartbeatClocks:
    """Deadlines of the next heartbeat, the session and the next poll (protocol/members.md#clocks-of-a-member).

    They run from one successful JoinGroup to the next; the membership acts on them.
    """

    def __init__(self, config: ConsumerConfig, rng: Rng) -> None:
        self._config = config
        self._request = RequestState(retry_backoff(config, rng))
        self._polling = False
        self.beat_at_ms = 0
        self.session_until_ms = 0
        self.poll_until_ms = 0

    def start(self, now_ms: int) -> None:
        self._request.succeeded()
        self.beat_at_ms = now_ms + self._config.heartbeat_interval_ms
        self.session_until_ms = now_ms + self._config.session_timeout_ms
        self.poll_until_ms = now_ms + self._config.max_poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """Count the interval from here, not from the answer."""
        self.beat_at_ms = now_ms + self._config.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        self._request.succeeded()
        self.session_until_ms = now_ms + self._config.session_timeout_ms

    def failed(self, now_ms: int) -> None:
        self.beat_at_ms = self._request.failed(now_ms)

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

    def wake_at_ms(self, *, may_beat: bool) -> int:
        at_ms = self.session_until_ms
        if may_beat and self.beat_at_ms < at_ms:
            at_ms = self.beat_at_ms
        if not self._polling and self.poll_until_ms < at_ms:
            at_ms = self.poll_until_ms
        return at_ms
