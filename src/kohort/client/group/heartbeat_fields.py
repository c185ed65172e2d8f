"""What a heartbeat of KIP-848 says: everything when the member joins, or after a failure; else only what has changed.

The rules: protocol/consumer-members.md#what-a-heartbeat-says.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kohort.client.group.membership import Generation
from kohort.client.group.target_assignment import NO_ASSIGNMENT, LocalAssignment, by_topic_id
from kohort.client.reading.subscription import SubscriptionState
from kohort.config.client import ConsumerConfig
from kohort.errors import UnsupportedVersion
from kohort.wire.messages.group_consumer import JOINING_EPOCH, ConsumerGroupHeartbeatRequest
from kohort.wire.schema import Message

REGEX_FROM: Final = 1
HEARTBEAT_FIELDS: Final = tuple(spec.name for spec in ConsumerGroupHeartbeatRequest.FIELDS)


class _Told(NamedTuple):
    """What the coordinator was told last."""

    topics: frozenset[str]
    pattern: str
    owned: LocalAssignment


class HeartbeatFields:
    """Builds one member's heartbeats, and remembers what they said."""

    def __init__(self, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._subscription = subscription
        self._told: _Told | None = None

    def forget(self) -> None:
        """Say everything with the next heartbeat: it is not known what the coordinator has heard."""
        self._told = None

    def differ(self, owned: LocalAssignment) -> bool:
        """Tell whether there is something that the coordinator has not been told."""
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
        """Return the goodbye, with the epoch that says for how long."""
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
