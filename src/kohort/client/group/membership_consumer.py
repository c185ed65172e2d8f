"""Membership of a group that the coordinator assigns, on the wire: heartbeats, which say and bring all (KIP-848).

The rules: protocol/consumer-members.md.

    UNSUBSCRIBED ─▶ JOINING ─▶ RECONCILING ─▶ ACKNOWLEDGING ─▶ STABLE
                      ▲             ▲ another target ◀──────────┘
                      └── FENCED, STALE, FATAL: the user hears of it, and joins again with its next poll

What the user is told, and when the member takes what it is assigned, is decided in ``reconciliation.py``.
"""

from __future__ import annotations

from typing import Final

from kohort.client.group.consumer_heartbeat import (
    NO_ASSIGNMENT,
    HeartbeatFields,
    Meaning,
    Reconcilable,
    TopicNames,
    assigned_partitions,
    heartbeat_error,
    heartbeat_shape,
    meaning,
)
from kohort.client.group.member_states import IN_GROUP, PREVIOUS, ConsumerMemberState
from kohort.client.group.membership import NO_GENERATION, CommitVerdict, Generation, PollClock, not_a_member
from kohort.client.reading.context import ConsumerContext
from kohort.client.requests.find_coordinator import COORDINATOR_LANE, CoordinatorLookup
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Poll, Promise, Unsent
from kohort.clock import earliest
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError, UnsupportedVersion, UsageError, error_code
from kohort.model import uuid_to_text
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.schema import Message

HEARTBEAT: Final = "heartbeat"
ANOTHER_TARGET: Final = "the coordinator has assigned other partitions"
USUAL_INTERVAL_MS: Final = 5_000
"""Between heartbeats, until a coordinator names another time: Kafka's ``group.consumer.heartbeat.interval.ms``."""
_S: Final = ConsumerMemberState


class ConsumerMembership:
    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup) -> None:
        config = context.config
        assert config.group_id is not None
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.member_id = uuid_to_text(context.rng.getrandbits(128).to_bytes(16, "big"))
        """Made once, and kept for as long as the consumer lives (KIP-1082)."""
        self.generation = NO_GENERATION
        self.user_generation = NO_GENERATION
        """The one whose partitions the user works on. It outlives its loss: what is done under it then is refused."""
        self.life = 0
        """Grows whenever the member falls out of the group."""
        self.target = NO_ASSIGNMENT
        self.owned = NO_ASSIGNMENT
        self.is_reconciling = False
        """Whether the user is being told of a target; the next one waits until that has ended."""
        self._has_stated_owned = False
        """A heartbeat that names what is owned has not been answered: what it does not name may be another's by now."""
        self._config = config
        self._group_id: str = config.group_id
        self._subscription = context.subscription
        self._metadata = context.metadata
        self._failures = context.failures
        self._note = context.notes.warn
        self._troubles = context.troubles
        self._rebalances = context.metrics.rebalances
        self._lookup = lookup
        self._fields = HeartbeatFields(config, context.subscription)
        self._names = TopicNames(context.metadata)
        self._clock = PollClock(config.max_poll_interval_ms)
        self._request = RequestState(retry_backoff(config, context.rng))
        self._interval_ms = USUAL_INTERVAL_MS
        self._beat_at_ms = 0
        self._user_life = -1
        self._is_told = True
        """Whether the user has seen the last error."""
        self._leaves: list[tuple[ConsumerGroupHeartbeatRequest, Promise[None]]] = []
        self._looked_at: tuple[int, int, int] = (-1, -1, -1)
        self._found: Reconcilable | None = None
        self._all_named_at: tuple[int, int] = (-1, -1)

    def _go(self, state: ConsumerMemberState) -> None:
        assert state is self.state or self.state in PREVIOUS[state], f"{self.state.name} to {state.name}"
        self.state = state

    # What the reconciliation asks of it

    @property
    def may_join(self) -> bool:
        if self.state is _S.FATAL:
            return self._is_told
        return self.state in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE)

    def join(self) -> None:
        self._go(_S.JOINING)
        self.generation = Generation(JOINING_EPOCH, self.member_id)
        self.target = self.owned = NO_ASSIGNMENT
        self.is_reconciling = self._has_stated_owned = False
        # Targets are counted anew.
        self._looked_at, self._found, self._all_named_at = (-1, -1, -1), None, (-1, -1)
        self._fields.forget()
        self._request.forget_in_flight()

    def reconcilable(self) -> Reconcilable | None:
        if self.state is not _S.RECONCILING or self.is_reconciling or self._has_stated_owned:
            return None
        looked_at = (self.target.number, self.owned.number, self._metadata.version)
        if self._looked_at != looked_at:
            self._looked_at, self._found = looked_at, self._reconcilable()
        return self._found

    def _reconcilable(self) -> Reconcilable | None:
        found = self._names.reconcilable(self.target)
        if found.local == self.owned:
            return None
        unknown_alone = self.target.partitions and not found.names and self.owned == NO_ASSIGNMENT
        return None if unknown_alone else found

    def acknowledge(self, taken: Reconcilable, now_ms: int) -> None:
        self._rebalances.ended(now_ms)
        self.is_reconciling = False
        self.owned = taken.local
        self._user_life = self.life
        self.user_generation = self.generation
        self._keep_names()
        if self.state is _S.RECONCILING:
            self._go(_S.ACKNOWLEDGING)

    def prepare_leave(self) -> bool:
        """Stay a member while the revocation callback runs; return whether this is a member."""
        is_member = self.state in IN_GROUP and self.generation.generation_id > JOINING_EPOCH
        if self.state in IN_GROUP:
            self._go(_S.PREPARE_LEAVING)
        return is_member

    # What everything else asks of it

    @property
    def is_stable(self) -> bool:
        return self.state is _S.STABLE and not self._fields.differ(self.owned)

    @property
    def reads_as(self) -> Generation:
        return self.generation if self.generation.generation_id > JOINING_EPOCH else NO_GENERATION

    def enter_poll(self) -> None:
        self._clock.enter()

    def leave_poll(self, now_ms: int) -> None:
        self._clock.leave(now_ms)

    def resume_heartbeats(self) -> None:
        self._is_told = True

    def enforce_rebalance(self, reason: str) -> None:
        del reason
        raise UsageError(
            "enforce_rebalance: with the group protocol consumer the coordinator decides when to rebalance; "
            "no member can ask for it"
        )

    def leave(self, reason: str) -> Promise[None]:
        """Send the last heartbeat, if there is a coordinator. A static member announces its return."""
        del reason  # there is no room for it in this protocol
        promise: Promise[None] = Promise()
        if self.state in IN_GROUP and self._lookup.node_id is not None:
            self._leaves.append((self._goodbye(), promise))
        else:
            promise.resolve(None)
        if self.state in IN_GROUP:
            self._go(_S.LEAVING)
        self._fall_out(_S.UNSUBSCRIBED)
        return promise

    def commit_refusal(self) -> KohortError | None:
        if self.state not in IN_GROUP:
            return not_a_member(self._group_id)
        if self.generation.generation_id <= JOINING_EPOCH:
            return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, "poll() until the group is joined, then commit again")
        return None

    def judge_commit(self, generation: Generation, error: ApiError) -> CommitVerdict:
        if not self._subscription.mode.is_group:
            return CommitVerdict(error)
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            text = f"{error}: it was sent under epoch {generation.generation_id}, and the member has another by now"
            return CommitVerdict(CommitFailed(text), may_retry=True)
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            return CommitVerdict(CommitFailed(f"{error}; the group has gone on without this member"))
        return CommitVerdict(error)

    # The source

    def poll(self, now_ms: int) -> Poll:
        if self.state in IN_GROUP and self._clock.expired(now_ms):
            self._leave_for_not_polling()
        unsent = self._poll_leaves()
        if self.state not in IN_GROUP:
            return Poll(unsent)
        self._look_for_names()
        wake_at_ms = self._clock.until_ms
        node_id = self._lookup.require()
        if node_id is not None and not self._request.is_in_flight:
            due_ms = max(self._request.retry_at_ms, 0 if self._owes_heartbeat() else self._beat_at_ms)
            if due_ms <= now_ms:
                unsent.append(self._beat(node_id, now_ms))
            else:
                wake_at_ms = earliest(wake_at_ms, due_ms)
        return Poll(unsent, wake_at_ms)

    def _owes_heartbeat(self) -> bool:
        return self.state in (_S.JOINING, _S.ACKNOWLEDGING) or self._fields.differ(self.owned)

    def _beat(self, node_id: int, now_ms: int) -> Unsent:
        # What the user is being told of counts as owned: else the coordinator might give it to others at once.
        taking = self._found.local if self.is_reconciling and self._found is not None else NO_ASSIGNMENT
        request = self._fields.build(self.generation, self.owned, taking)
        self._has_stated_owned |= request.topic_partitions is not None
        self._beat_at_ms = now_ms + self._interval_ms
        if self.state is _S.ACKNOWLEDGING:
            self._go(_S.STABLE if self.owned == self.target else _S.RECONCILING)
        timeout_ms = self._config.request_timeout_ms
        unsent = Unsent(node_id, request, timeout_ms, lane=COORDINATOR_LANE, shape=heartbeat_shape)
        return self._request.sent(unsent)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if sent.context is not None:
            sent.context.resolve(None)  # a goodbye: whatever is said to it
            return
        if not self._request.ended(sent) or self.state not in IN_GROUP:
            return
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            self._request.succeeded()
            self._has_stated_owned = False
            self._troubles.mended(HEARTBEAT, f"group {self._group_id!r} answers heartbeats", now_ms)
            self._on_heartbeat(response)
            if self.state is _S.RECONCILING:
                self._rebalances.began(ANOTHER_TARGET, now_ms)
            elif self.state is _S.STABLE:
                self._rebalances.ended(now_ms)
        else:
            self._on_error(code, response.error_message, now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if sent.context is not None:
            sent.context.resolve(None)
            return
        if not self._request.ended(sent) or self.state not in IN_GROUP:
            return
        self._fields.forget()
        if error.retriable:
            self._lookup.mark_unknown()
            self._request.failed(now_ms)
        else:
            self._fail(_too_old(error) if isinstance(error, UnsupportedVersion) else error)

    # Heartbeats

    def _on_heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.heartbeat_interval_ms > 0:
            self._beat_at_ms += response.heartbeat_interval_ms - self._interval_ms
            self._interval_ms = response.heartbeat_interval_ms
        self.generation = Generation(response.member_epoch, response.member_id or self.member_id)
        if self._user_life == self.life:
            self.user_generation = self.generation
        if self.state is _S.PREPARE_LEAVING:
            return
        if response.assignment is not None:
            self._retarget(assigned_partitions(response.assignment))
        elif self.state is _S.JOINING:
            self._go(_S.STABLE)

    def _retarget(self, partitions: frozenset[tuple[bytes, int]]) -> None:
        self.target = self.target.updated(partitions)
        self._keep_names()
        if self.target != self.owned:
            self._go(_S.RECONCILING)

    def _on_error(self, code: ErrorCode, said: str | None, now_ms: int) -> None:
        self._fields.forget()
        match meaning(code, is_joining=self.state is _S.JOINING):
            case Meaning.REPEAT | Meaning.MOVED as what:
                self._troubles.refused(HEARTBEAT, code, f"a heartbeat to group {self._group_id!r}", now_ms)
                if what is Meaning.MOVED:
                    self._lookup.mark_unknown()
                self._request.failed(now_ms)
            case Meaning.DENIED:
                if self._is_told:
                    self._is_told = False
                    self._failures.append(heartbeat_error(self._config, code, said))
                self._request.failed(now_ms)
                self._request.wait_until(max(self._request.retry_at_ms, self._beat_at_ms))
            case Meaning.FENCED:
                self._note(
                    f"the coordinator of group {self._group_id!r} does not count member {self.member_id!r} in any more "
                    f"(epoch {self.generation.generation_id}, {code.name}); it joins again"
                )
                self._request.failed(now_ms)
                if self.state is _S.RECONCILING:
                    self._rebalances.failed_once(now_ms)
                self._fall_out(_S.FENCED)
            case Meaning.FATAL:
                self._fail(heartbeat_error(self._config, code, said))

    def _fail(self, error: KohortError) -> None:
        self._is_told = False
        self._failures.append(error)
        self._request.succeeded()
        self._fall_out(_S.FATAL)

    # Names of topics

    def _keep_names(self) -> None:
        self._names.keep(self.target.topic_ids | self.owned.topic_ids)
        self._subscription.want_ids(self.target.topic_ids | self.owned.topic_ids)

    def _look_for_names(self) -> None:
        if self.state is not _S.RECONCILING or self._metadata.refresh_pending:
            return
        looked_at = (self.target.number, self._metadata.version)
        if self._all_named_at != looked_at:
            if self._names.lacks(self.target):
                self._metadata.request_refresh()
            else:
                self._all_named_at = looked_at

    # The end

    def _leave_for_not_polling(self) -> None:
        limit_ms = self._config.max_poll_interval_ms
        self._note(
            f"the member left group {self._group_id!r}: more than max.poll.interval.ms ({limit_ms}) between polls"
        )
        if self._lookup.node_id is not None:
            self._leaves.append((self._goodbye(), Promise()))
        self._go(_S.LEAVING)
        self._fall_out(_S.STALE)

    def _goodbye(self) -> ConsumerGroupHeartbeatRequest:
        is_static = self._config.group_instance_id is not None
        return self._fields.leave(self.generation, LEAVING_FOR_A_WHILE_EPOCH if is_static else LEAVING_EPOCH)

    def _fall_out(self, state: ConsumerMemberState) -> None:
        self._go(state)
        self.life += 1
        self.generation = NO_GENERATION
        self.is_reconciling = False
        self._request.forget_in_flight()
        self._fields.forget()

    def _poll_leaves(self) -> list[Unsent]:
        if not self._leaves:
            return []
        node_id = self._lookup.node_id
        leaves, self._leaves = self._leaves, []
        if node_id is None:
            for _, promise in leaves:
                promise.resolve(None)
            return []
        timeout_ms = self._config.request_timeout_ms
        return [
            Unsent(node_id, request, timeout_ms, lane=COORDINATOR_LANE, context=promise) for request, promise in leaves
        ]


def _too_old(error: UnsupportedVersion) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"{error}: group.protocol=consumer needs Apache Kafka 4.0 or later, or another cluster with KIP-848 and "
        "its feature group.version; take group.protocol=classic"
    )
