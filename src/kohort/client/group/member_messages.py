"""What a member of a classic group says: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The rules: protocol/members.md#subscription-and-assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.assignors.spec import Assignor
from kohort.client.group.membership import Generation
from kohort.client.reading.subscription import SubscriptionState
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, build_subscription
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.schema import Message

REASON_MAX: Final = 255
JOIN_GRACE_MS: Final = 5000
"""A JoinGroup is parked for up to the rebalance timeout; the answer gets this much longer."""
LEAVE_BY_LIST_FROM: Final = 3


Adopted = tuple[list[TopicPartition], int]
"""An assignment that was taken, and its generation."""


class MemberMessages:
    """Builds one member's requests."""

    def __init__(self, config: ConsumerConfig, assignors: Sequence[Assignor], subscription: SubscriptionState) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._assignors = assignors
        self.assignor_names = tuple(assignor.name for assignor in assignors)
        self._subscription = subscription
        self._cooperative = all(a.cooperative for a in assignors)
        self.said_topics: frozenset[str] = frozenset()
        """What the last JoinGroup said that is subscribed to: one that is sent again says what holds by then."""
        self.join_timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_GRACE_MS)

    def join(self, generation: Generation, adopted: Adopted, reason: str) -> JoinGroupRequest:
        """Build a JoinGroup. ``reason``: why, in words, for the group's journal (KIP-800)."""
        config = self._config
        self.said_topics = self._subscription.topics
        return JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(
                    name=assignor.name, metadata=build_subscription(self._said_to(assignor, generation, adopted))
                )
                for assignor in self._assignors
            ],
            reason=reason[:REASON_MAX] or None,
        )

    def _said_to(self, assignor: Assignor, generation: Generation, adopted: Adopted) -> Subscription:
        """Return what this member tells the leader. Eager members own nothing any more when they join."""
        partitions, generation_id = adopted
        return Subscription(
            topics=list(self._subscription.topics),
            user_data=assignor.user_data(partitions, generation_id),
            owned_partitions=list(self._subscription.assigned) if self._cooperative else [],
            generation_id=generation_id if generation.is_member else -1,
            rack_id=self._config.client_rack or None,
        )

    def sync(self, generation: Generation, assignments: list[SyncGroupRequestAssignment]) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol_name,
            assignments=assignments,
        )

    def heartbeat(self, generation: Generation) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )

    def leave(self, generation: Generation, reason: str) -> LeaveGroupRequest:
        identity = MemberIdentity(
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            reason=reason[:REASON_MAX],
        )
        return LeaveGroupRequest(group_id=self._group_id, members=[identity])


def leave_shape(request: Message, version: int) -> Message:
    """Let the member leave alone before version 3 (KIP-345)."""
    assert isinstance(request, LeaveGroupRequest)
    if version >= LEAVE_BY_LIST_FROM:
        return request
    return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
