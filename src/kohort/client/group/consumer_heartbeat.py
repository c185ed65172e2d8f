"""Heartbeats of a consumer group (KIP-848): fields of a request, assignment in an answer, meaning of its errors.

The rules: protocol/consumer-members.md#what-a-heartbeat-says,
protocol/consumer-members.md#what-errors-mean-to-a-member.
"""

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
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponseAssignment,
)
from kohort.wire.schema import Message

TopicIdPartition = tuple[bytes, int]


class LocalAssignment(NamedTuple):
    """Partitions by topic id, and the number of their target assignment.

    Each changed target has a number of its own, so that the member acknowledges each one.
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
    """Names of assigned topics: as metadata has them, or as they were last known to be."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._known: dict[bytes, str] = {}

    def keep(self, topic_ids: Iterable[bytes]) -> None:
        self._known = {topic_id: name for topic_id in topic_ids if (name := self.of(topic_id)) is not None}

    def of(self, topic_id: bytes) -> str | None:
        return self._metadata.topic_name(topic_id) or self._known.get(topic_id)

    def lacks(self, assignment: LocalAssignment) -> bool:
        return any(self.of(topic_id) is None for topic_id in assignment.topic_ids)

    def reconcilable(self, target: LocalAssignment) -> Reconcilable:
        names = {topic_id: name for topic_id in target.topic_ids if (name := self.of(topic_id)) is not None}
        partitions = frozenset(p for p in target.partitions if p[0] in names)
        named = sorted(TopicPartition(names[topic_id], number) for topic_id, number in partitions)
        return Reconcilable(LocalAssignment(target.number, partitions), named)


def assigned_partitions(assignment: ConsumerGroupHeartbeatResponseAssignment) -> frozenset[TopicIdPartition]:
    return frozenset((topic.topic_id, number) for topic in assignment.topic_partitions for number in topic.partitions)


def by_topic_id(partitions: Iterable[TopicIdPartition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=t, partitions=ns) for t, ns in topics.items()]


REGEX_FROM: Final = 1
HEARTBEAT_FIELDS: Final = tuple(spec.name for spec in ConsumerGroupHeartbeatRequest.FIELDS)


class _Told(NamedTuple):
    topics: frozenset[str]
    pattern: str
    owned: LocalAssignment


class HeartbeatFields:
    """Builder of one member's heartbeats: all fields in a join and after a failure, else the changed ones."""

    def __init__(self, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._subscription = subscription
        self._told: _Told | None = None

    def forget(self) -> None:
        """Send all fields in the next heartbeat: the coordinator may have missed the last one."""
        self._told = None

    def differ(self, owned: LocalAssignment) -> bool:
        return self._told != self._to_tell(owned)

    def build(
        self, generation: Generation, owned: LocalAssignment, taking: LocalAssignment = NO_ASSIGNMENT
    ) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat; ``owned`` is what the member has taken, and given up the rest, ``taking`` what its
        user is being told of."""
        told, now = self._told, self._to_tell(owned)
        self._told = now
        joins = generation.generation_id == JOINING_EPOCH
        full = joins or told is None
        config = self._config
        same_pattern = now.pattern == (told.pattern if told is not None else "")
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=generation.member_id,
            member_epoch=generation.generation_id,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if joins else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if full else -1,
            server_assignor=config.group_remote_assignor if full else None,
            subscribed_topic_names=sorted(now.topics) if full or told is None or told.topics != now.topics else None,
            subscribed_topic_regex=now.pattern if not same_pattern or (full and now.pattern) else None,
            topic_partitions=(
                by_topic_id(now.owned.partitions | taking.partitions)
                if full or told is None or told.owned != now.owned
                else None
            ),
        )

    def leave(self, generation: Generation, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=generation.member_id,
            member_epoch=epoch,
            instance_id=self._config.group_instance_id,
        )

    def _to_tell(self, owned: LocalAssignment) -> _Told:
        subscription = self._subscription
        pattern = subscription.server_pattern
        if pattern is not None:
            return _Told(frozenset(), pattern.pattern, owned)
        return _Told(subscription.topics, "", owned)


def heartbeat_shape(request: Message, version: int) -> Message:
    """Leave out the word that clears a pattern where the cluster can have none. Raises UnsupportedVersion for a pattern
    there."""
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    if version >= REGEX_FROM or request.subscribed_topic_regex is None:
        return request
    if request.subscribed_topic_regex:
        raise UnsupportedVersion(
            "the cluster matches no SubscriptionPattern (Apache Kafka does from 4.0 on): "
            "subscribe to a pattern of Python's re, which this client matches itself"
        )
    fields = {name: getattr(request, name) for name in HEARTBEAT_FIELDS if name != "subscribed_topic_regex"}
    return ConsumerGroupHeartbeatRequest(**fields)


class Meaning(Enum):
    REPEAT = auto()
    """The coordinator cannot answer now."""
    MOVED = auto()
    """It is another node by now."""
    DENIED = auto()
    """The user is to know, and the heartbeats go on: the right may be given, or the subscription changed."""
    FENCED = auto()
    """The group has gone on without this member, which joins again."""
    FATAL = auto()
    """No repetition mends it."""


def meaning(code: ErrorCode, *, is_joining: bool) -> Meaning:
    """Return what to do about ``code``. A group that is gone can be made again by who joins; whoever cannot join it at
    all is told so."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return Meaning.REPEAT
    if code in COORDINATOR_MOVED:
        return Meaning.MOVED
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Meaning.DENIED
    if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        return Meaning.FENCED
    if code is ErrorCode.GROUP_ID_NOT_FOUND and not is_joining:
        return Meaning.FENCED
    return Meaning.FATAL


def heartbeat_error(config: ConsumerConfig, code: ErrorCode, said: str | None) -> ApiError:
    group, instance = f"group {config.group_id!r}", f"group.instance.id={config.group_instance_id!r}"
    reason = f": {said}" if said else ""
    match code:
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            text = (
                f"{instance} is in use in {group}: close the consumer that has it, or wait until its session is over "
                "(group.consumer.session.timeout.ms on the broker, consumer.session.timeout.ms of the group)"
            )
        case ErrorCode.FENCED_INSTANCE_ID:
            text = f"another consumer of {group} has taken {instance}: give each consumer one of its own"
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            text = f"group.remote.assignor={config.group_remote_assignor!r} cannot be used in {group}{reason}"
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            text = f"{group} is full (group.consumer.max.size on the broker){reason}"
        case ErrorCode.GROUP_ID_NOT_FOUND:
            text = (
                f"{group} cannot be joined with the group protocol consumer{reason}; "
                "take group.protocol=classic, or another group.id"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            text = f"the broker does not serve the group protocol consumer{reason}; take group.protocol=classic"
        case ErrorCode.INVALID_REGULAR_EXPRESSION:
            text = f"the cluster cannot read the pattern that {group} is subscribed to{reason}"
        case _:
            text = f"a heartbeat to {group}{reason}"
    return answer_error(config, code, text)
