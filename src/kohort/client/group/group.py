"""What only a consumer with a ``group.id`` has, put together: membership, rebalances, commits, committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from kohort.assignors.builtin import assignors_named, is_cooperative
from kohort.client.group.commits import Commits
from kohort.client.group.committed import CommittedOffsets
from kohort.client.group.membership import (
    NO_GENERATION,
    CallbackNeeded,
    CommitVerdict,
    Generation,
    Membership,
    Rebalancing,
)
from kohort.client.group.membership_classic import ClassicMembership
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.group.rebalance_classic import ClassicRebalance
from kohort.client.group.reconciliation import Reconciliation
from kohort.client.reading.context import ConsumerContext
from kohort.client.reading.subscription import PartitionState, SubscriptionState
from kohort.client.requests.find_coordinator import COORDINATOR_LANE, CoordinatorKey, CoordinatorLookup
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import IDLE, Poll, Promise, RequestSource, Unsent
from kohort.errors import ApiError, ErrorCode, KohortError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.version import VERSION
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.schema import Message

FEATURE: Final = "group.version"
"""Its level 1 says that the cluster has agreed on the consumer protocol."""
HEARTBEAT_FROM: Final = 1
"""The first version of ConsumerGroupHeartbeat that is final."""


class GroupProtocol(NamedTuple):
    membership: Membership
    rebalance: Rebalancing


def serves_consumer_protocol(answer: ApiVersionsResponse) -> bool:
    key = ConsumerGroupHeartbeatRequest.API_KEY
    has_api = any(api.api_key == key and api.max_version >= HEARTBEAT_FROM for api in answer.api_keys)
    return has_api and any(f.name == FEATURE and f.max_version_level >= 1 for f in answer.finalized_features)


class ProtocolChoice:
    """Membership of ``group.protocol=auto``: the coordinator's ApiVersions choose the protocol, once.

    Before the choice the consumer has no membership.
    """

    def __init__(
        self,
        context: ConsumerContext,
        lookup: CoordinatorLookup,
        classic: Callable[[], GroupProtocol],
        consumer: Callable[[], GroupProtocol],
    ) -> None:
        config = context.config
        self.made: GroupProtocol | None = None
        self.is_classic = False
        self._context = context
        self._lookup = lookup
        self._classic, self._consumer = classic, consumer
        self._request = RequestState(retry_backoff(config, context.rng))
        self._is_wanted = False
        self._is_polling = False

    # The choice

    @property
    def is_wanted(self) -> bool:
        return self._is_wanted

    def want(self) -> None:
        self._is_wanted = True

    def poll(self, now_ms: int) -> Poll:
        if self.made is not None:
            return self.made.membership.poll(now_ms)
        if not self._is_wanted:
            return IDLE
        if not self._request.may_send(now_ms):
            return Poll(wake_at_ms=self._request.wake_at_ms(now_ms))
        node_id = self._lookup.require()
        if node_id is None:
            return IDLE
        request = ApiVersionsRequest(client_software_name="kohort", client_software_version=VERSION)
        timeout_ms = self._context.config.request_timeout_ms
        return Poll([self._request.sent(Unsent(node_id, request, timeout_ms, lane=COORDINATOR_LANE))])

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        if not isinstance(response, ApiVersionsResponse):
            assert self.made is not None, "nothing else is asked before"
            self.made.membership.on_response(sent, response, now_ms)
        elif self._request.ended(sent) and not response.error_code:
            self._choose(response)
        else:
            self._request.failed(now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if self.made is not None:
            self.made.membership.on_failure(sent, error, now_ms)
            return
        self._request.ended(sent)
        self._lookup.mark_unknown()
        self._request.failed(now_ms)

    def _choose(self, answer: ApiVersionsResponse) -> None:
        is_served = serves_consumer_protocol(answer)
        self.made = self._consumer() if is_served else self._classic()
        self.is_classic = not is_served
        why = "the coordinator serves it" if is_served else "the coordinator does not serve the protocol consumer"
        name = "consumer" if is_served else "classic"
        group_id = self._context.config.group_id
        self._context.notes.tell(f"group {group_id!r} is joined with the group protocol {name}: {why}")
        if self._is_polling:
            self.made.membership.enter_poll()

    # The membership

    @property
    def generation(self) -> Generation:
        return NO_GENERATION if self.made is None else self.made.membership.generation

    @property
    def user_generation(self) -> Generation:
        return NO_GENERATION if self.made is None else self.made.membership.user_generation

    @property
    def reads_as(self) -> Generation:
        return NO_GENERATION if self.made is None else self.made.membership.reads_as

    @property
    def life(self) -> int:
        return 0 if self.made is None else self.made.membership.life

    @property
    def is_stable(self) -> bool:
        return self.made is not None and self.made.membership.is_stable

    def resume_heartbeats(self) -> None:
        if self.made is not None:
            self.made.membership.resume_heartbeats()

    def enter_poll(self) -> None:
        self._is_polling = True
        if self.made is not None:
            self.made.membership.enter_poll()

    def leave_poll(self, now_ms: int) -> None:
        self._is_polling = False
        if self.made is not None:
            self.made.membership.leave_poll(now_ms)

    def enforce_rebalance(self, reason: str) -> None:
        if self.made is not None:
            self.made.membership.enforce_rebalance(reason)

    def leave(self, reason: str) -> Promise[None]:
        self._is_wanted = False
        if self.made is not None:
            return self.made.membership.leave(reason)
        promise: Promise[None] = Promise()
        promise.resolve(None)
        return promise

    def commit_refusal(self) -> KohortError | None:
        if self.made is not None:
            return self.made.membership.commit_refusal()
        return ApiError(ErrorCode.REBALANCE_IN_PROGRESS, "poll() until the group is joined, then commit again")

    def judge_commit(self, generation: Generation, error: ApiError) -> CommitVerdict:
        return CommitVerdict(error) if self.made is None else self.made.membership.judge_commit(generation, error)


class ChosenRebalance:
    def __init__(self, choice: ProtocolChoice, subscription: SubscriptionState) -> None:
        self._choice = choice
        self._subscription = subscription

    @property
    def _made(self) -> Rebalancing | None:
        return None if self._choice.made is None else self._choice.made.rebalance

    @property
    def callback(self) -> CallbackNeeded | None:
        return None if self._made is None else self._made.callback

    @property
    def is_due(self) -> bool:
        if self._made is not None:
            return self._is_pattern_in_vain or self._made.is_due
        return self._subscription.mode.is_group and not self._choice.is_wanted

    @property
    def is_stable(self) -> bool:
        return self._made is not None and self._made.is_stable

    def advance(self, now_ms: int) -> None:
        """Go as far as is possible without the user and without the broker.

        Raises UsageError for a subscription that the protocol chosen cannot keep.
        """
        if self._is_pattern_in_vain:
            raise UsageError(
                "the coordinator of this group does not serve the group protocol consumer, and matches no "
                "SubscriptionPattern: unsubscribe(), and give a pattern of Python's re"
            )
        if self._made is not None:
            self._made.advance(now_ms)
        elif self._subscription.mode.is_group:
            self._choice.want()

    @property
    def _is_pattern_in_vain(self) -> bool:
        return self._choice.is_classic and self._subscription.server_pattern is not None

    def acknowledge(self) -> None:
        assert self._made is not None, "no callback is open"
        self._made.acknowledge()

    def prepare_leave(self) -> CallbackNeeded | None:
        return None if self._made is None else self._made.prepare_leave()


class Group(NamedTuple):
    membership: Membership
    rebalance: Rebalancing
    commits: Commits
    committed: CommittedOffsets
    lookup: CoordinatorLookup

    @property
    def sources(self) -> list[RequestSource]:
        return [self.membership, self.commits, self.committed, self.lookup]


def group_of(context: ConsumerContext, no_offset: Callable[[TopicPartition, PartitionState], None]) -> Group:
    """Put together what a consumer with a group needs; ``no_offset`` is told of partitions where nothing is
    committed."""
    config = context.config
    assert config.group_id is not None
    key = CoordinatorKey(config.group_id)
    lookup = CoordinatorLookup(key, config, context.metadata, context.rng, context.failures.append, context.troubles)
    parts = _Parts(context, lookup)
    if config.group_protocol == "auto":
        choice = ProtocolChoice(context, lookup, parts.classic, parts.consumer)
        protocol = GroupProtocol(choice, ChosenRebalance(choice, context.subscription))
    else:
        protocol = parts.consumer() if config.group_protocol == "consumer" else parts.classic()
    parts.commits = Commits(context, lookup, protocol.membership)
    committed = CommittedOffsets(context, lookup, protocol.membership, no_offset)
    return Group(*protocol, parts.commits, committed, lookup)


class _Parts:
    """Makes the membership of either protocol. ``commits`` is there before any of them is used."""

    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup) -> None:
        self.commits: Commits | None = None
        self._context = context
        self._lookup = lookup

    def classic(self) -> GroupProtocol:
        context, config = self._context, self._context.config
        assignors = assignors_named(config.partition_assignment_strategy)
        membership = ClassicMembership(context, self._lookup, assignors)
        rebalance = ClassicRebalance(
            membership,
            context.subscription,
            cooperative=is_cooperative(assignors),
            commit_timeout_ms=config.max_poll_interval_ms,
            commit_positions=self._commit_before_revocation if config.enable_auto_commit else None,
        )
        return GroupProtocol(membership, rebalance)

    def consumer(self) -> GroupProtocol:
        context, config = self._context, self._context.config
        membership = ConsumerMembership(context, self._lookup)
        rebalance = Reconciliation(
            membership,
            context.subscription,
            commit_timeout_ms=config.max_poll_interval_ms,
            commit_positions=self._commit_before_revocation if config.enable_auto_commit else None,
        )
        return GroupProtocol(membership, rebalance)

    def _commit_before_revocation(
        self, partitions: Collection[TopicPartition], deadline_ms: int | None
    ) -> Promise[dict[TopicPartition, OffsetAndMetadata]]:
        assert self.commits is not None, "the group is put together"
        return self.commits.commit_positions(partitions, deadline_ms, before_revocation=True)
