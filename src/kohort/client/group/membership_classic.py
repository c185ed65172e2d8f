"""Protocol of a classic member: join, sync, heartbeat, leave, and the reaction to each error.

Rules: protocol/members.md#error-handling. ``rebalance_classic.py`` decides when to join.

    UNJOINED ──join()──▶ PREPARING_REBALANCE ──JoinGroup──▶ COMPLETING_REBALANCE ──SyncGroup──▶ STABLE
        ▲                        ▲ retries                        │ heartbeats run                 │ heartbeats run
        └── the generation is lost (unknown member, poll expired, left) ◀──────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from kohort.assignors.spec import Assignor
from kohort.client.group.member_messages import GroupLeader, MemberMessages, leave_shape
from kohort.client.group.membership import (
    COORDINATOR_MOVED,
    NO_GENERATION,
    CommitOutcome,
    Generation,
    HeartbeatClocks,
    MemberSource,
    not_a_member,
)
from kohort.client.reading.context import ConsumerContext
from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import COORDINATOR_CHANNEL, CoordinatorLookup
from kohort.client.requests.source import Poll, Promise, Unsent
from kohort.errors import ApiError, CommitFailed, ErrorCode, KohortError, ProtocolError, UsageError, error_code
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment
from kohort.wire.messages import group_classic as wire
from kohort.wire.messages.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from kohort.wire.schema import Message

LEAVE_CHANNEL: Final = "leave"
JOINING_GROUP: Final = "joining"


class MemberState(Enum):
    UNJOINED = auto()
    PREPARING_REBALANCE = auto()
    COMPLETING_REBALANCE = auto()
    STABLE = auto()


REBALANCING: Final = (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)


class ClassicMembership(MemberSource):
    clocks: HeartbeatClocks

    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup, assignors: Sequence[Assignor]) -> None:
        super().__init__(context, lookup)
        config, subscription = context.config, context.subscription
        self.state = MemberState.UNJOINED
        self.rejoin_reason: str | None = None
        self.new_assignment: list[TopicPartition] | None = None
        self.last_assignment: tuple[list[TopicPartition], int] = ([], -1)
        """Last accepted assignment and its generation. Sticky assignors send both to the leader."""
        self.clocks = HeartbeatClocks(config, context.rng)
        self.leader = GroupLeader({a.name: a for a in assignors}, context.metadata, subscription)
        self.messages = MemberMessages(config, assignors, subscription)
        self._join_reason = ""
        self._is_incompatible = False
        """True after the coordinator rejected all of the member's assignors.

        It is reset when DescribeGroups returns the group's assignor.
        """
        self._is_leader = False
        self._heartbeat: Unsent | None = None
        self._heartbeats_paused = False

    def request_rejoin(self, reason: str) -> None:
        if self.rejoin_reason is None:
            self.rejoin_reason = reason

    def join(self) -> None:
        self._join_reason = self.rejoin_reason or ""
        self.rejoin_reason = None
        self.new_assignment = None
        self._is_incompatible = False
        self.state = MemberState.PREPARING_REBALANCE
        self._request.succeeded()

    def take_assignment(self) -> list[TopicPartition] | None:
        taken, self.new_assignment = self.new_assignment, None
        return taken

    def accept(self, partitions: list[TopicPartition]) -> None:
        self.last_assignment = (partitions, self.generation.generation_id)
        if self.generation.is_member:
            self.user_generation = self.generation

    def leave(self, reason: str) -> Promise[None]:
        """Reset the generation, and send LeaveGroup if the coordinator is known.

        A static member sends no LeaveGroup.
        """
        promise: Promise[None] = Promise()
        node_id = self._lookup.node_id
        is_dynamic_member = bool(self.generation.member_id) and self._config.group_instance_id is None
        if is_dynamic_member and node_id is not None and self.state is not MemberState.UNJOINED:
            # A broker answers a connection's requests in order: LeaveGroup would wait for the JoinGroup in flight.
            channel = LEAVE_CHANNEL if self._request.is_in_flight else COORDINATOR_CHANNEL
            request, timeout_ms = self.messages.leave(self.generation, reason), self._config.request_timeout_ms
            self._leaves.append(Unsent(node_id, request, timeout_ms, channel, context=promise, shape=leave_shape))
        else:
            promise.resolve(None)
        self._lose_generation(reason, keep_member_id=False)
        return promise

    @property
    def is_stable(self) -> bool:
        return self.state is MemberState.STABLE

    @property
    def fetch_generation(self) -> Generation:
        return NO_GENERATION

    def enforce_rebalance(self, reason: str) -> None:
        self.request_rejoin(reason)

    def commit_refusal(self) -> KohortError | None:
        if self.state is MemberState.STABLE:
            return None
        if self.state is MemberState.UNJOINED:
            return not_a_member(self._group_id)
        return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, "poll() until the rebalance is over, then commit again")

    def on_commit_error(self, generation: Generation, error: ApiError) -> CommitOutcome:
        if error.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_rejoin("a commit was answered REBALANCE_IN_PROGRESS")
        if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            return CommitOutcome(error)
        if not self._subscription.mode.is_group or self.generation != generation:
            text = "the member has rejoined since this commit: poll(), then commit again"
            return CommitOutcome(ApiError(ErrorCode.REBALANCE_IN_PROGRESS, text))
        keep = error.code is ErrorCode.ILLEGAL_GENERATION
        self._lose_membership(f"a commit was answered {error.code.name}", keep_member_id=keep)
        return CommitOutcome(CommitFailed(f"{error}; the group has rebalanced without this member"))

    def poll(self, now_ms: int) -> Poll:
        unsent = self._poll_leaves()
        if self.state is MemberState.UNJOINED:
            return Poll(unsent)
        wakes: list[int] = []
        if self.state is MemberState.PREPARING_REBALANCE:
            self._poll_join(unsent, wakes, now_ms)
        if self.state is MemberState.COMPLETING_REBALANCE:
            self._poll_sync(unsent, wakes, now_ms)
        if self.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE):
            self._poll_heartbeat(unsent, wakes, now_ms)
            unsent += self._poll_leaves()
        return Poll(unsent, min(wakes, default=None))

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        match response:
            case wire.JoinGroupResponse():
                self._count(response.error_code, now_ms)
                if self._request.ended(sent) and self.state is MemberState.PREPARING_REBALANCE:
                    self._on_join(sent.context, response, now_ms)
            case wire.SyncGroupResponse():
                self._count(response.error_code, now_ms)
                if self._request.ended(sent) and self.state is MemberState.COMPLETING_REBALANCE:
                    self._on_sync(sent.context, response, now_ms)
            case DescribeGroupsResponse():
                if self._request.ended(sent) and self.state is MemberState.PREPARING_REBALANCE:
                    self._fail(self._incompatible(response))
            case wire.HeartbeatResponse():
                self._heartbeat = None
                self._on_heartbeat(sent.context, response, now_ms)
            case wire.LeaveGroupResponse():
                sent.context.resolve(None)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        match sent.request:
            case wire.LeaveGroupRequest():
                sent.context.resolve(None)
            case wire.HeartbeatRequest():
                self._heartbeat = None
                self._lookup.mark_unknown()
                self.clocks.failed(now_ms)
            case DescribeGroupsRequest():
                if self._request.ended(sent) and self.state is MemberState.PREPARING_REBALANCE:
                    self._fail(self._incompatible(None))
            case _:
                if not self._request.ended(sent) or self.state not in REBALANCING:
                    return
                self._rebalances.failed_attempt(now_ms)
                if error.retriable:
                    self._lookup.mark_unknown()
                    self._join_again(now_ms, backoff=True)
                else:
                    self._fail(error)

    def _count(self, code: int, now_ms: int) -> None:
        if code and code != ErrorCode.MEMBER_ID_REQUIRED:
            self._rebalances.failed_attempt(now_ms)

    def _unsent(self, node_id: int, request: Message, timeout_ms: int) -> Unsent:
        return Unsent(node_id, request, timeout_ms, channel=COORDINATOR_CHANNEL, context=self.generation)

    def _poll_join(self, unsent: list[Unsent], wakes: list[int], now_ms: int) -> None:
        if not self._request.may_send(now_ms):
            wake_at_ms = self._request.wake_at_ms(now_ms)
            if wake_at_ms is not None:
                wakes.append(wake_at_ms)
            return
        node_id = self._lookup.require()
        if node_id is None:
            return
        if self._is_incompatible:
            question = DescribeGroupsRequest(groups=[self._group_id])
            unsent.append(self._request.sent(self._unsent(node_id, question, self._config.request_timeout_ms)))
            return
        self._rebalances.began(self._join_reason, now_ms)
        request = self.messages.join(self.generation, self.last_assignment, self._join_reason)
        unsent.append(self._request.sent(self._unsent(node_id, request, self.messages.join_timeout_ms)))

    def _on_join(self, sent_as: Generation, response: wire.JoinGroupResponse, now_ms: int) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            self._outages.recovered(JOINING_GROUP, f"group {self._group_id!r} is joined", now_ms)
            self._joined(response, now_ms)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.generation = Generation(member_id=response.member_id)
            self._join_again(now_ms, backoff=False)
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS or code in COORDINATOR_MOVED:
            self._outages.report_code(JOINING_GROUP, code, f"joining group {self._group_id!r}", now_ms)
            if code in COORDINATOR_MOVED:
                self._lookup.mark_unknown()
            self._join_again(now_ms, backoff=True)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again(now_ms, backoff=False)
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            if self.generation == sent_as:
                self._lose_membership("JoinGroup was answered UNKNOWN_MEMBER_ID", keep_member_id=False)
            else:
                self._join_again(now_ms, backoff=False)
        elif code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._is_incompatible = True
        else:
            self._fail(answer_error(self._config, code, f"joining group {self._group_id!r}"))

    def _incompatible(self, described: DescribeGroupsResponse | None) -> ApiError:
        self._is_incompatible = False
        group = next((group for group in described.groups if not group.error_code), None) if described else None
        uses = "its members share another one"
        if group is not None and group.protocol_type not in ("", PROTOCOL_TYPE):
            uses = f"the group has protocol type {group.protocol_type!r}, not {PROTOCOL_TYPE!r}"
        elif group is not None and group.protocol_data:
            uses = f"the group uses {group.protocol_data}"
        text = (
            f"group {self._group_id!r} accepts none of the assignors of this member"
            f" ({', '.join(self.messages.assignor_names)}): {uses};"
            f" give all members a common entry in partition.assignment.strategy"
        )
        return ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)

    def _joined(self, response: wire.JoinGroupResponse, now_ms: int) -> None:
        if response.protocol_type not in (None, PROTOCOL_TYPE):
            text = f"group {self._group_id!r} has protocol type {response.protocol_type!r}"
            self._fail(ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text))
            return
        self.generation = Generation(response.generation_id, response.member_id, response.protocol_name)
        self.leader.resign()
        self._is_leader = response.leader == response.member_id
        if self._is_leader:
            name, skip = response.protocol_name or "", response.skip_assignment
            try:
                self.leader.elect(name, response.members, skip_assignment=skip, now_ms=now_ms)
            except (ApiError, ProtocolError) as error:
                self._fail(error)
                return
        self.state = MemberState.COMPLETING_REBALANCE
        self._heartbeats_paused = False
        self._request.succeeded()
        self.clocks.start(now_ms)

    def _poll_sync(self, unsent: list[Unsent], wakes: list[int], now_ms: int) -> None:
        if self._request.is_in_flight:
            return
        try:
            assignments = self.leader.assignments(now_ms) if self._is_leader else []
        except UsageError as error:  # a custom assignor of the user raised the error
            self._fail(error)
            return
        if assignments is None:
            wakes.append(self.leader.deadline_ms)
            return
        node_id = self._lookup.require()
        if node_id is None:
            self._join_again(now_ms, backoff=False)
            return
        request = self.messages.sync(self.generation, assignments)
        unsent.append(self._request.sent(self._unsent(node_id, request, self._config.request_timeout_ms)))

    def _on_sync(self, sent_as: Generation, response: wire.SyncGroupResponse, now_ms: int) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            self._synced(sent_as, response)
            if self.state is MemberState.STABLE:
                self._rebalances.ended(now_ms)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_reason = "the group began another rebalance before this one was complete"
            self._join_again(now_ms, backoff=False)
        elif code in COORDINATOR_MOVED:
            self._lookup.mark_unknown()
            self._join_again(now_ms, backoff=True)
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            keep = code is ErrorCode.ILLEGAL_GENERATION
            self._lose_membership(f"SyncGroup was answered {code.name}", keep_member_id=keep)
        else:
            self._fail(answer_error(self._config, code, f"syncing with group {self._group_id!r}"))

    def _synced(self, sent_as: Generation, response: wire.SyncGroupResponse) -> None:
        type_fits = response.protocol_type in (None, PROTOCOL_TYPE)
        if not type_fits or response.protocol_name not in (None, sent_as.protocol_name):
            received = f"{response.protocol_type!r} and {response.protocol_name!r}"
            text = f"protocol type and name in SyncGroup, {received}, are not those of the member's JoinGroup"
            self._fail(ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text))
            return
        try:
            self.new_assignment = parse_assignment(bytes(response.assignment)).partitions
        except ProtocolError as error:
            self._fail(error)
            return
        self.state = MemberState.STABLE

    def _poll_heartbeat(self, unsent: list[Unsent], wakes: list[int], now_ms: int) -> None:
        clocks = self.clocks
        if clocks.poll_expired(now_ms):
            limit = self._config.max_poll_interval_ms
            reason = f"consumer poll timeout has expired: more than max.poll.interval.ms ({limit}) between polls"
            self._notes.warn(f"the member left group {self._group_id!r}: {reason}")
            self.leave(reason)
            return
        if clocks.session_expired(now_ms):
            self._lookup.mark_unknown()
            clocks.renew_session(now_ms)
        node_id = self._lookup.require()
        may_heartbeat = node_id is not None and self._heartbeat is None and not self._heartbeats_paused
        if may_heartbeat and clocks.heartbeat_at_ms <= now_ms:
            assert node_id is not None
            request = self.messages.heartbeat(self.generation)
            self._heartbeat = self._unsent(node_id, request, self._config.request_timeout_ms)
            unsent.append(self._heartbeat)
            clocks.sent(now_ms)
            may_heartbeat = False
        wakes.append(clocks.wake_at_ms(may_heartbeat=may_heartbeat))

    def _on_heartbeat(self, sent_as: Generation, response: wire.HeartbeatResponse, now_ms: int) -> None:
        code = error_code(response.error_code)
        current = self.generation == sent_as and self.state in (MemberState.STABLE, MemberState.COMPLETING_REBALANCE)
        if code is ErrorCode.NONE:
            self.clocks.received(now_ms)
        elif code in COORDINATOR_MOVED:
            self._lookup.mark_unknown()
            self.clocks.failed(now_ms)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.clocks.received(now_ms)
            if current and self.state is MemberState.STABLE:
                self.request_rejoin("group is already rebalancing")
        elif not current:
            pass  # ignore the response: the heartbeat was sent in an earlier generation
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            keep = code is ErrorCode.ILLEGAL_GENERATION
            self._lose_membership(f"a heartbeat was answered {code.name}", keep_member_id=keep)
        else:
            self._heartbeats_paused = True
            self._failures.append(answer_error(self._config, code, f"a heartbeat to group {self._group_id!r}"))

    def resume_heartbeats(self) -> None:
        self._heartbeats_paused = False

    def _join_again(self, now_ms: int, *, backoff: bool) -> None:
        self.state = MemberState.PREPARING_REBALANCE
        if backoff:
            self._request.failed(now_ms)

    def _lose_membership(self, reason: str, *, keep_member_id: bool) -> None:
        generation = self.generation
        self._notes.warn(
            f"member {generation.member_id!r} lost generation {generation.generation_id} of group {self._group_id!r}: "
            f"{reason}; it joins again"
        )
        self._lose_generation(reason, keep_member_id=keep_member_id)

    def _lose_generation(self, reason: str, *, keep_member_id: bool) -> None:
        """Reset the generation. The next poll joins the group again.

        The member id is reset, too, unless ``keep_member_id`` is set.
        """
        self.state = MemberState.UNJOINED
        self.incarnation += 1
        self.generation = Generation(member_id=self.generation.member_id if keep_member_id else "")
        self.new_assignment = None
        self._request.forget_in_flight()
        self.leader.resign()
        self.rejoin_reason = reason

    def _fail(self, error: KohortError) -> None:
        self.state = MemberState.UNJOINED
        self.leader.resign()
        self.request_rejoin(self._join_reason or "the last join failed")
        self._failures.append(error)
