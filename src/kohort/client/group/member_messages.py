"""Requests of a classic group member (protocol/members.md#subscription-and-assignment)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics
from kohort.client.group.membership import Generation
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, UnsupportedVersion
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    build_assignment,
    build_subscription,
    parse_subscription,
)
from kohort.wire.messages import group_classic as wire
from kohort.wire.schema import Message

METADATA_WAIT_MS: Final = 10_000
"""Maximum time in ms that a group leader waits for metadata. After that it assigns only topics with metadata."""


class GroupLeader:
    """Task of a member that was elected leader of a classic group. The task ends with the next join.

    The leader computes the assignments when it has metadata of every subscribed topic. Then it detects changes of the
    topics' partitions.
    """

    def __init__(self, assignors: Mapping[str, Assignor], metadata: Metadata, subscription: SubscriptionState) -> None:
        self._assignors = assignors
        self._metadata = metadata
        self._subscription = subscription
        self._assignor: Assignor | None = None
        self._members: list[MemberSubscription] = []
        self.deadline_ms = 0
        self._seen: SubscribedTopics | None = None
        self._seen_version = -1

    def elect(
        self, protocol_name: str, members: Sequence[wire.JoinGroupResponseMember], *, skip_assignment: bool, now_ms: int
    ) -> None:
        assignor = self._assignors.get(protocol_name)
        if assignor is None:
            text = f"the group chose assignor {protocol_name!r}, which this member does not have"
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        self._assignor = None if skip_assignment else assignor
        self._members = [_member(m) for m in members]
        self.deadline_ms = now_ms + METADATA_WAIT_MS
        self._subscription.set_group_topics({topic for member in self._members for topic in member.topics})

    def resign(self) -> None:
        self._members = []
        self._assignor = self._seen = None
        self._seen_version = -1
        if self._subscription.group_topics:
            self._subscription.set_group_topics(())

    def assignments(self, now_ms: int) -> list[wire.SyncGroupRequestAssignment] | None:
        """Return the members' assignments for SyncGroup.

        Returns None until metadata arrive, and [] if the coordinator asks the leader to skip the assignment (KIP-814).
        """
        if self._lacks_metadata() and now_ms < self.deadline_ms:
            return None
        self._seen = self._topics()
        if self._assignor is None:
            return []
        assignment = self._assignor.assign(self._seen, self._members)
        return [
            wire.SyncGroupRequestAssignment(member_id=member_id, assignment=build_assignment(Assignment(partitions)))
            for member_id, partitions in assignment.items()
        ]

    def is_out_of_date(self) -> bool:
        """True if partitions or racks of the group's topics have changed since the leader's assignment."""
        if self._seen is None or self._seen_version == self._metadata.version:
            return False
        self._seen_version = self._metadata.version
        return self._topics() != self._seen

    def _lacks_metadata(self) -> bool:
        metadata = self._metadata
        return any(metadata.topic(t) is None and metadata.error(t) is None for t in self._subscription.group_topics)

    def _topics(self) -> SubscribedTopics:
        topics, partition_count = self._subscription.group_topics, self._metadata.partition_count
        counts = {name: count for name in topics if (count := partition_count(name)) is not None}
        return SubscribedTopics(counts, self._racks(counts) if any(m.rack for m in self._members) else {})

    def _racks(self, counts: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
        racks: dict[TopicPartition, frozenset[str]] = {}
        for name in counts:
            info = self._metadata.topic(name)
            for number, partition in (info.partitions if info is not None else {}).items():
                nodes = [self._metadata.node(node_id) for node_id in partition.replicas]
                racks[TopicPartition(name, number)] = frozenset(n.rack for n in nodes if n is not None and n.rack)
        return racks


def _member(member: wire.JoinGroupResponseMember) -> MemberSubscription:
    subscription = parse_subscription(member.metadata)
    return MemberSubscription(
        member_id=member.member_id,
        topics=tuple(subscription.topics),
        instance_id=member.group_instance_id,
        owned=tuple(subscription.owned_partitions),
        generation=None if subscription.generation_id < 0 else subscription.generation_id,
        rack=subscription.rack_id or "",
        user_data=subscription.user_data,
    )


REASON_MAX: Final = 255
"""Maximum length of a reason in JoinGroup and LeaveGroup, as in Kafka's clients (KIP-800)."""
JOIN_GRACE_MS: Final = 5000
"""Time in ms that a JoinGroup waits beyond the rebalance timeout. The coordinator responds when that timeout ends."""
LEAVE_BY_LIST_FROM: Final = 3
LastAssignment = tuple[list[TopicPartition], int]


class MemberMessages:
    def __init__(self, config: ConsumerConfig, assignors: Sequence[Assignor], subscription: SubscriptionState) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._assignors = assignors
        self.assignor_names = tuple(assignor.name for assignor in assignors)
        self._subscription = subscription
        self._cooperative = all(a.cooperative for a in assignors)
        self.sent_topics: frozenset[str] = frozenset()
        self.join_timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_GRACE_MS)

    def join(self, generation: Generation, last_assignment: LastAssignment, reason: str) -> wire.JoinGroupRequest:
        """Build a JoinGroup request. The broker logs ``reason`` (KIP-800)."""
        config = self._config
        self.sent_topics = self._subscription.topics
        return wire.JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.max_poll_interval_ms,
            member_id=generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                wire.JoinGroupRequestProtocol(
                    name=assignor.name,
                    metadata=build_subscription(self._subscription_metadata(assignor, generation, last_assignment)),
                )
                for assignor in self._assignors
            ],
            reason=reason[:REASON_MAX] or None,
        )

    def _subscription_metadata(
        self, assignor: Assignor, generation: Generation, last_assignment: LastAssignment
    ) -> Subscription:
        """Build the subscription that the group leader receives. With an eager assignor it has no owned partitions."""
        partitions, generation_id = last_assignment
        return Subscription(
            topics=list(self._subscription.topics),
            user_data=assignor.user_data(partitions, generation_id),
            owned_partitions=list(self._subscription.assigned) if self._cooperative else [],
            generation_id=generation_id if generation.is_member else -1,
            rack_id=self._config.client_rack or None,
        )

    def sync(self, generation: Generation, assignments: list[wire.SyncGroupRequestAssignment]) -> wire.SyncGroupRequest:
        return wire.SyncGroupRequest(
            group_id=self._group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol_name,
            assignments=assignments,
        )

    def heartbeat(self, generation: Generation) -> wire.HeartbeatRequest:
        return wire.HeartbeatRequest(
            group_id=self._group_id,
            generation_id=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )

    def leave(self, generation: Generation, reason: str) -> wire.LeaveGroupRequest:
        identity = wire.MemberIdentity(
            member_id=generation.member_id, group_instance_id=self._config.group_instance_id, reason=reason[:REASON_MAX]
        )
        return wire.LeaveGroupRequest(group_id=self._group_id, members=[identity])


def leave_shape(request: Message, version: int) -> Message:
    """Rewrite LeaveGroup for versions below 3, which remove a single member by its member id (KIP-345).

    Raises UnsupportedVersion for several members, and for an instance id.
    """
    assert isinstance(request, wire.LeaveGroupRequest)
    if version >= LEAVE_BY_LIST_FROM:
        return request
    first, *others = request.members
    if others or first.group_instance_id is not None:
        raise UnsupportedVersion("this broker (Kafka before 2.4) removes one member at a time, by its member id")
    return wire.LeaveGroupRequest(group_id=request.group_id, member_id=first.member_id)
