"""Protocol of a consumer group member: heartbeats have subscription, owned partitions and assignment (KIP-848).

Rules: protocol/consumer-members.md. ``reconciliation.py`` decides when to join and when to acknowledge.

    UNSUBSCRIBED ─▶ JOINING ─▶ RECONCILING ─▶ ACKNOWLEDGING ─▶ STABLE
                      ▲             ▲ another target ◀──────────┘
                      └── FENCED, STALE, FATAL: reported to the user; the next poll joins again
"""

from __future__ import annotations

from typing import Final

from kohort.client.group.consumer_heartbeat import (
    NO_ASSIGNMENT,
    HeartbeatAction,
    HeartbeatFields,
    Reconcilable,
    TopicNames,
    action_for,
    assigned_partitions,
    heartbeat_error,
    heartbeat_shape,
)
from kohort.client.group.member_states import IN_GROUP, PREVIOUS, ConsumerMemberState
from kohort.client.group.membership import (
    NO_GENERATION,
    CommitOutcome,
    Generation,
    MemberSource,
    PollDeadline,
    not_a_member,
)
from kohort.client.reading.context import ConsumerContext
from kohort.client.requests.find_coordinator import COORDINATOR_CHANNEL, CoordinatorLookup
from kohort.client.requests.source import Poll, Promise, Unsent
from kohort.clock import earliest, random_uuid
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError, UnsupportedVersion, UsageError, error_code
from kohort.model import uuid_to_text
from kohort.wire.messages import group_consumer as wire
from kohort.wire.schema import Message

HEARTBEAT: Final = "heartbeat"
NEW_TARGET_REASON: Final = "the coordinator has assigned other partitions"
DEFAULT_INTERVAL_MS: Final = 5_000
"""Heartbeat interval before the first response: Kafka's ``group.consumer.heartbeat.interval.ms``."""
_S: Final = ConsumerMemberState


class ConsumerMembership(MemberSource):
    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup) -> None:
        super().__init__(context, lookup)
        config = context.config
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.member_id = uuid_to_text(random_uuid(context.rng))
        """Member id, generated once per consumer (KIP-1082)."""
        self.target = NO_ASSIGNMENT
        self.owned = NO_ASSIGNMENT
        self.is_reconciling = False
        """True while callbacks of a target assignment run; a newer target assignment waits for them."""
        self._owned_is_in_flight = False
        """True after a heartbeat with owned partitions, until the next successful response to a heartbeat.

        No reconciliation starts meanwhile.
        """
        self._fields = HeartbeatFields(config, context.subscription)
        self._names = TopicNames(context.metadata)
        self.clocks = PollDeadline(config)
        self._interval_ms = DEFAULT_INTERVAL_MS
        self._heartbeat_at_ms = 0
        self._user_incarnation = -1
        self._error_was_raised = True
        self._reconcilable_for: tuple[int, int, int] = (-1, -1, -1)
        self._reconcilable_now: Reconcilable | None = None
        self._all_named_at: tuple[int, int] = (-1, -1)

    def _go(self, state: ConsumerMemberState) -> None:
        assert state is self.state or self.state in PREVIOUS[state], f"{self.state.name} to {state.name}"
        self.state = state

    @property
    def may_join(self) -> bool:
        if self.state is _S.FATAL:
            return self._error_was_raised
        return self.state in (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE)

    def join(self) -> None:
        self._go(_S.JOINING)
        self.generation = Generation(wire.JOINING_EPOCH, self.member_id)
        self.target = self.owned = NO_ASSIGNMENT
        self.is_reconciling = self._owned_is_in_flight = False
        # A new membership numbers its target assignments from 0 again, so forget the previous numbers.
        self._reconcilable_for, self._reconcilable_now, self._all_named_at = (-1, -1, -1), None, (-1, -1)
        self._fields.forget()
        self._request.forget_in_flight()

    def reconcilable(self) -> Reconcilable | None:
        if self.state is not _S.RECONCILING or self.is_reconciling or self._owned_is_in_flight:
            return None
        versions = (self.target.number, self.owned.number, self._metadata.version)
        if self._reconcilable_for != versions:
            self._reconcilable_for, self._reconcilable_now = versions, self._reconcilable()
        return self._reconcilable_now

    def _reconcilable(self) -> Reconcilable | None:
        found = self._names.reconcilable(self.target)
        if found.local == self.owned:
            return None
        unknown_alone = self.target.partitions and not found.names and self.owned == NO_ASSIGNMENT
        return None if unknown_alone else found

    def acknowledge(self, reconciled: Reconcilable, now_ms: int) -> None:
        self._rebalances.ended(now_ms)
        self.is_reconciling = False
        self.owned = reconciled.local
        self._user_incarnation = self.incarnation
        self.user_generation = self.generation
        self._keep_names()
        if self.state is _S.RECONCILING:
            self._go(_S.ACKNOWLEDGING)

    def prepare_leave(self) -> bool:
        """Stay in the group until the callback for revoked partitions ends; return True if the consumer is a member."""
        is_member = self.state in IN_GROUP and self.generation.generation_id > wire.JOINING_EPOCH
        if self.state in IN_GROUP:
            self._go(_S.PREPARE_LEAVING)
        return is_member

    @property
    def is_stable(self) -> bool:
        return self.state is _S.STABLE and not self._fields.differ(self.owned)

    @property
    def fetch_generation(self) -> Generation:
        return self.generation if self.generation.generation_id > wire.JOINING_EPOCH else NO_GENERATION

    def resume_heartbeats(self) -> None:
        self._error_was_raised = True

    def enforce_rebalance(self, reason: str) -> None:
        del reason
        raise UsageError("enforce_rebalance: with group.protocol=consumer the coordinator decides when to rebalance")

    def leave(self, reason: str) -> Promise[None]:
        """Send the member's last heartbeat if the coordinator is known; a static member uses epoch -2."""
        del reason  # ConsumerGroupHeartbeat has no reason field
        promise: Promise[None] = Promise()
        if self.state in IN_GROUP:
            self._send_leave(promise)
            self._go(_S.LEAVING)
        else:
            promise.resolve(None)
        self._lose_membership(_S.UNSUBSCRIBED)
        return promise

    def commit_refusal(self) -> KohortError | None:
        if self.state not in IN_GROUP:
            return not_a_member(self._group_id)
        if self.generation.generation_id <= wire.JOINING_EPOCH:
            return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, "poll() until the group is joined, then commit again")
        return None

    def on_commit_error(self, generation: Generation, error: ApiError) -> CommitOutcome:
        if not self._subscription.mode.is_group:
            return CommitOutcome(error)
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            text = f"{error}: sent under epoch {generation.generation_id}, which is outdated"
            return CommitOutcome(CommitFailed(text), may_retry=True)
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            return CommitOutcome(CommitFailed(f"{error}; the group has removed this member"))
        return CommitOutcome(error)

    def poll(self, now_ms: int) -> Poll:
        if self.state in IN_GROUP and self.clocks.poll_expired(now_ms):
            self._leave_for_not_polling()
        unsent = self._poll_leaves()
        if self.state not in IN_GROUP:
            return Poll(unsent)
        self._request_names()
        wake_at_ms = self.clocks.poll_until_ms
        node_id = self._lookup.require()
        if node_id is not None and not self._request.is_in_flight:
            must_send = self.state in (_S.JOINING, _S.ACKNOWLEDGING) or self._fields.differ(self.owned)
            due_ms = max(self._request.retry_at_ms, 0 if must_send else self._heartbeat_at_ms)
            if due_ms <= now_ms:
                unsent.append(self._send_heartbeat(node_id, now_ms))
            else:
                wake_at_ms = earliest(wake_at_ms, due_ms)
        return Poll(unsent, wake_at_ms)

    def _send_heartbeat(self, node_id: int, now_ms: int) -> Unsent:
        # Report partitions as owned while their callback runs; else the coordinator could assign them to other members.
        reconciling = (
            self._reconcilable_now.local
            if self.is_reconciling and self._reconcilable_now is not None
            else NO_ASSIGNMENT
        )
        request = self._fields.build(self.generation, self.owned, reconciling)
        self._owned_is_in_flight |= request.topic_partitions is not None
        self._heartbeat_at_ms = now_ms + self._interval_ms
        if self.state is _S.ACKNOWLEDGING:
            self._go(_S.STABLE if self.owned == self.target else _S.RECONCILING)
        timeout_ms = self._config.request_timeout_ms
        unsent = Unsent(node_id, request, timeout_ms, channel=COORDINATOR_CHANNEL, shape=heartbeat_shape)
        return self._request.sent(unsent)

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.ConsumerGroupHeartbeatResponse)
        if sent.context is not None:
            sent.context.resolve(None)  # any response to the last heartbeat, even an error, ends the membership
            return
        if not self._request.ended(sent) or self.state not in IN_GROUP:
            return
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            self._request.succeeded()
            self._owned_is_in_flight = False
            self._outages.recovered(HEARTBEAT, f"heartbeats to group {self._group_id!r} succeed again", now_ms)
            self._on_heartbeat(response)
            if self.state is _S.RECONCILING:
                self._rebalances.began(NEW_TARGET_REASON, now_ms)
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
            self._fail(_with_advice(error) if isinstance(error, UnsupportedVersion) else error)

    def _on_heartbeat(self, response: wire.ConsumerGroupHeartbeatResponse) -> None:
        if response.heartbeat_interval_ms > 0:
            self._heartbeat_at_ms += response.heartbeat_interval_ms - self._interval_ms
            self._interval_ms = response.heartbeat_interval_ms
        self.generation = Generation(response.member_epoch, response.member_id or self.member_id)
        if self._user_incarnation == self.incarnation:
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

    def _on_error(self, code: ErrorCode, message: str | None, now_ms: int) -> None:
        self._fields.forget()
        match action_for(code, is_joining=self.state is _S.JOINING):
            case HeartbeatAction.RETRY | HeartbeatAction.FIND_COORDINATOR as action:
                self._outages.report_code(HEARTBEAT, code, f"a heartbeat to group {self._group_id!r}", now_ms)
                if action is HeartbeatAction.FIND_COORDINATOR:
                    self._lookup.mark_unknown()
                self._request.failed(now_ms)
            case HeartbeatAction.DENIED:
                if self._error_was_raised:
                    self._error_was_raised = False
                    self._failures.append(heartbeat_error(self._config, code, message))
                self._request.failed(now_ms)
                self._request.retry_at_ms = max(self._request.retry_at_ms, self._heartbeat_at_ms)
            case HeartbeatAction.FENCED:
                self._notes.warn(
                    f"the coordinator of group {self._group_id!r} fenced member {self.member_id!r} "
                    f"(epoch {self.generation.generation_id}, {code.name}); it joins again"
                )
                self._request.failed(now_ms)
                if self.state is _S.RECONCILING:
                    self._rebalances.failed_attempt(now_ms)
                self._lose_membership(_S.FENCED)
            case HeartbeatAction.FATAL:
                self._fail(heartbeat_error(self._config, code, message))

    def _fail(self, error: KohortError) -> None:
        self._error_was_raised = False
        self._failures.append(error)
        self._request.succeeded()
        self._lose_membership(_S.FATAL)

    def _keep_names(self) -> None:
        self._names.keep(self.target.topic_ids | self.owned.topic_ids)
        self._subscription.track_ids(self.target.topic_ids | self.owned.topic_ids)

    def _request_names(self) -> None:
        if self.state is not _S.RECONCILING or self._metadata.refresh_pending:
            return
        versions = (self.target.number, self._metadata.version)
        if self._all_named_at != versions:
            if self._names.lacks(self.target):
                self._metadata.request_refresh()
            else:
                self._all_named_at = versions

    def _leave_for_not_polling(self) -> None:
        limit_ms = self._config.max_poll_interval_ms
        self._notes.warn(
            f"the member left group {self._group_id!r}: more than max.poll.interval.ms ({limit_ms}) between polls"
        )
        self._send_leave(Promise())
        self._go(_S.LEAVING)
        self._lose_membership(_S.STALE)

    def _send_leave(self, promise: Promise[None]) -> None:
        if self._lookup.node_id is None:
            promise.resolve(None)
            return
        is_static = self._config.group_instance_id is not None
        epoch = wire.LEAVING_FOR_A_WHILE_EPOCH if is_static else wire.LEAVING_EPOCH
        request, timeout_ms = self._fields.leave(self.generation, epoch), self._config.request_timeout_ms
        self._leaves.append(Unsent(self._lookup.node_id, request, timeout_ms, COORDINATOR_CHANNEL, context=promise))

    def _lose_membership(self, state: ConsumerMemberState) -> None:
        self._go(state)
        self.incarnation += 1
        self.generation = NO_GENERATION
        self.is_reconciling = False
        self._request.forget_in_flight()
        self._fields.forget()


def _with_advice(error: UnsupportedVersion) -> UnsupportedVersion:
    return UnsupportedVersion(
        f"{error}: group.protocol=consumer needs Apache Kafka 4.0 or later, or another cluster with KIP-848 and "
        "its feature group.version; take group.protocol=classic"
    )
