"""Heartbeats of a consumer group's member (protocol/consumer-members.md#heartbeat-fields, KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from kohort.client.group.membership import COORDINATOR_MOVED, Generation
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import Metadata
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, UnsupportedVersion
from kohort.model import TopicPartition
from kohort.wire.messages import group_consumer as wire
from kohort.wire.schema import Message

TopicIdPartition = tuple[bytes, int]


class LocalAssignment(NamedTuple):
    """Assigned partitions with topic ids, and the number of the target assignment.

    The client increments the number at each change of the target assignment, so that the member acknowledges each one.
    """

    number: int = -1
    partitions: frozenset[TopicIdPartition] = frozenset()

    @property
    def topic_ids(self) -> set[bytes]:
        return {topic_id for topic_id, _ in self.partitions}

    def updated(self, partitions: frozenset[TopicIdPartition]) -> LocalAssignment:
        if self.number >= 0 and self.partitions == partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NO_ASSIGNMENT: Final = LocalAssignment()


class Reconcilable(NamedTuple):
    local: LocalAssignment
    names: list[TopicPartition]


class TopicNames:
    """Names of assigned topics by topic id.

    The name comes from metadata. If metadata lack the topic id, it is the last known name.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._known: dict[bytes, str] = {}

    def keep(self, topic_ids: Iterable[bytes]) -> None:
        self._known = {topic_id: name for topic_id in topic_ids if (name := self.name(topic_id)) is not None}

    def name(self, topic_id: bytes) -> str | None:
        return self._metadata.topic_name(topic_id) or self._known.get(topic_id)

    def lacks(self, assignment: LocalAssignment) -> bool:
        return any(self.name(topic_id) is None for topic_id in assignment.topic_ids)

    def reconcilable(self, target: LocalAssignment) -> Reconcilable:
        names = {topic_id: name for topic_id in target.topic_ids if (name := self.name(topic_id)) is not None}
        partitions = frozenset(p for p in target.partitions if p[0] in names)
        named = sorted(TopicPartition(names[topic_id], number) for topic_id, number in partitions)
        return Reconcilable(LocalAssignment(target.number, partitions), named)


def assigned_partitions(assignment: wire.ConsumerGroupHeartbeatResponseAssignment) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)


def by_topic_id(partitions: Iterable[TopicIdPartition]) -> list[wire.ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [wire.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=t, partitions=ns) for t, ns in topics.items()]


REGEX_FROM: Final = 1


class _SentFields(NamedTuple):
    topics: frozenset[str]
    pattern: str
    owned: LocalAssignment


class HeartbeatFields:
    """Builder of a member's heartbeats.

    A heartbeat that joins the group or follows a failed heartbeat has all fields. Any other heartbeat has only the
    fields that changed.
    """

    def __init__(self, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._subscription = subscription
        self._sent: _SentFields | None = None

    def forget(self) -> None:
        """Send all fields in the next heartbeat: the coordinator may not have received the last one."""
        self._sent = None

    def differ(self, owned: LocalAssignment) -> bool:
        return self._sent != self._current_fields(owned)

    def build(
        self, generation: Generation, owned: LocalAssignment, reconciling: LocalAssignment = NO_ASSIGNMENT
    ) -> wire.ConsumerGroupHeartbeatRequest:
        """Build the member's next heartbeat.

        ``owned``: reconciled partitions. ``reconciling``: partitions whose listener callback is running.
        """
        sent, now = self._sent, self._current_fields(owned)
        self._sent = now
        joins = generation.generation_id == wire.JOINING_EPOCH
        full = joins or sent is None
        config = self._config
        same_pattern = now.pattern == (sent.pattern if sent is not None else "")
        return wire.ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=generation.member_id,
            member_epoch=generation.generation_id,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if joins else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if full else -1,
            server_assignor=config.group_remote_assignor if full else None,
            subscribed_topic_names=sorted(now.topics) if full or sent is None or sent.topics != now.topics else None,
            subscribed_topic_regex=now.pattern if not same_pattern or (full and now.pattern) else None,
            topic_partitions=(
                by_topic_id(now.owned.partitions | reconciling.partitions)
                if full or sent is None or sent.owned != now.owned
                else None
            ),
        )

    def leave(self, generation: Generation, epoch: int) -> wire.ConsumerGroupHeartbeatRequest:
        return wire.ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=generation.member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
        )

    def _current_fields(self, owned: LocalAssignment) -> _SentFields:
        pattern = self._subscription.server_pattern
        if pattern is not None:
            return _SentFields(frozenset(), pattern.pattern, owned)
        return _SentFields(self._subscription.topics, "", owned)


def heartbeat_shape(request: Message, version: int) -> Message:
    """Rewrite ConsumerGroupHeartbeat for version 0; raise UnsupportedVersion if it has a subscription pattern."""
    assert isinstance(request, wire.ConsumerGroupHeartbeatRequest)
    if version >= REGEX_FROM or request.subscribed_topic_regex is None:
        return request
    if request.subscribed_topic_regex:
        raise UnsupportedVersion(
            "the cluster does not support SubscriptionPattern (Apache Kafka 4.0 does): subscribe with re.compile()"
        )
    return wire.ConsumerGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=request.subscribed_topic_names,
        server_assignor=request.server_assignor,
        topic_partitions=request.topic_partitions,
    )


class HeartbeatAction(Enum):
    RETRY = auto()
    FIND_COORDINATOR = auto()
    """Look up the group's coordinator, then repeat the heartbeat."""
    DENIED = auto()
    """Raise the authorization error to the user, but keep sending heartbeats: an admin may add the ACL."""
    FENCED = auto()
    """Report all partitions as lost and join the group again."""
    FATAL = auto()
    """Raise the error to the user and end the membership."""


def action_for(code: ErrorCode, *, is_joining: bool) -> HeartbeatAction:
    """Return the member's reaction to an error code in a heartbeat response.

    GROUP_ID_NOT_FOUND is fatal only if the member is joining; a joined member joins again.
    """
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatAction.RETRY
    if code in COORDINATOR_MOVED:
        return HeartbeatAction.FIND_COORDINATOR
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return HeartbeatAction.DENIED
    if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        return HeartbeatAction.FENCED
    if code is ErrorCode.GROUP_ID_NOT_FOUND and not is_joining:
        return HeartbeatAction.FENCED
    return HeartbeatAction.FATAL


def heartbeat_error(config: ConsumerConfig, code: ErrorCode, message: str | None) -> ApiError:
    group, instance = f"group {config.group_id!r}", f"group.instance.id={config.group_instance_id!r}"
    reason = f": {message}" if message else ""
    match code:
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            text = (
                f"{instance} is in use in {group}: close the consumer that has it, or wait until its session expires "
                "(group.consumer.session.timeout.ms on the broker, consumer.session.timeout.ms of the group)"
            )
        case ErrorCode.FENCED_INSTANCE_ID:
            text = f"another consumer of {group} uses {instance}: set a different value for each consumer"
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            text = f"group.remote.assignor={config.group_remote_assignor!r} cannot be used in {group}{reason}"
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            text = f"{group} is full (group.consumer.max.size on the broker){reason}"
        case ErrorCode.GROUP_ID_NOT_FOUND:
            text = (
                f"{group} cannot be joined with group.protocol=consumer{reason}; "
                "set group.protocol=classic or another group.id"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            text = f"the broker does not support group.protocol=consumer{reason}; set group.protocol=classic"
        case ErrorCode.INVALID_REGULAR_EXPRESSION:
            text = f"the cluster cannot parse the subscription pattern of {group}{reason}"
        case _:
            text = f"a heartbeat to {group}{reason}"
    return answer_error(config, code, text)
