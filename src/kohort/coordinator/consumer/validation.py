"""What a ConsumerGroupHeartbeat is refused for before anyone looks at its group, in Kafka's order and words.

The rules: protocol/consumer-groups.md#heartbeats.
"""

from __future__ import annotations

from typing import Final

from kohort.config import BrokerConfig
from kohort.coordinator.outcome import GroupRequest
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)

FIRST_WITH_OWN_MEMBER_ID: Final = 1
UNCHANGED: Final = -1
"""A rebalance timeout that is as it was."""
CONSUMER: Final = "consumer"
SUBSCRIBED_NAMES_MAX: Final = 10_000
"""Most topic names of one member: sorting, counting and writing them takes some 20 ms."""
OWNED_TOPICS_MAX: Final = 100_000
"""Most topics that a heartbeat reports as owned."""


def check_consumer_heartbeat(request: GroupRequest, config: BrokerConfig) -> None:
    """Raise INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, or UNSUPPORTED_VERSION where the protocol is switched off."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    if CONSUMER not in config.group_coordinator_rebalance_protocols:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.")
    _check_names(message, request.api_version)
    _check_sizes(message)
    if message.member_epoch == JOINING_EPOCH:
        _check_join(message)
    elif message.member_epoch == LEAVING_FOR_A_WHILE_EPOCH and message.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif message.member_epoch < LEAVING_FOR_A_WHILE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    assignor = message.server_assignor
    if assignor is not None and assignor not in config.consumer_assignors:
        known = ", ".join(config.consumer_assignors)
        problem = f"ServerAssignor {assignor} is not supported. Supported assignors: {known}."
        raise ApiError(ErrorCode.UNSUPPORTED_ASSIGNOR, problem)


def _check_names(message: ConsumerGroupHeartbeatRequest, version: int) -> None:
    if not message.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    needs_id = version >= FIRST_WITH_OWN_MEMBER_ID or message.member_epoch != JOINING_EPOCH
    if needs_id and not message.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if message.instance_id is not None and not message.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if message.rack_id is not None and not message.rack_id.strip():
        raise _invalid("RackId can't be empty.")


def _check_sizes(message: ConsumerGroupHeartbeatRequest) -> None:
    names, owned = message.subscribed_topic_names or (), message.topic_partitions or ()
    if len(names) > SUBSCRIBED_NAMES_MAX:
        problem = f"SubscribedTopicNames has {len(names)} names; at most {SUBSCRIBED_NAMES_MAX} are accepted."
        raise _invalid(f"{problem} Subscribe by a regular expression.")
    if len(owned) > OWNED_TOPICS_MAX:
        raise _invalid(f"TopicPartitions has {len(owned)} topics; at most {OWNED_TOPICS_MAX} are accepted.")


def _check_join(message: ConsumerGroupHeartbeatRequest) -> None:
    if message.rebalance_timeout_ms == UNCHANGED:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if message.topic_partitions is None or message.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if message.subscribed_topic_names is None and message.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, problem)
