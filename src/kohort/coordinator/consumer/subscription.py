"""ConsumerGroupHeartbeat: the checks that do not depend on the group, and the member's metadata after the heartbeat.

The rules: protocol/consumer-groups.md#heartbeats. A null field in a heartbeat means: unchanged.
"""

from __future__ import annotations

from typing import Final

from kohort.config import BrokerConfig
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.outcome import GroupRequest
from kohort.errors import ApiError, ErrorCode
from kohort.pattern import Pattern, PatternRefused
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.group_consumer import JOINING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH, ConsumerGroupHeartbeatRequest

FIRST_WITH_OWN_MEMBER_ID: Final = 1
UNCHANGED: Final = -1
CONSUMER: Final = "consumer"
SUBSCRIBED_NAMES_MAX: Final = 10_000
"""Maximum number of topic names in the subscription of one member: to sort and persist them takes some 20 ms."""
OWNED_TOPICS_MAX: Final = 100_000
RE2J_MESSAGES: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "trailing \\": "trailing backslash at end of expression",
}
"""Messages about invalid subscription patterns, as a dict: start of kohort's message -> Kafka's message."""


def check_consumer_heartbeat(request: GroupRequest, config: BrokerConfig) -> None:
    """Check the fields of a ConsumerGroupHeartbeat.

    Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR; UNSUPPORTED_VERSION if the consumer protocol is disabled.
    """
    message = request.message_as(ConsumerGroupHeartbeatRequest)
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
        raise _invalid(
            f"SubscribedTopicNames has {len(names)} names; at most {SUBSCRIBED_NAMES_MAX} are accepted. "
            "Subscribe with a regular expression."
        )
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


def updated_metadata(before: ConsumerMetadata | None, request: GroupRequest) -> ConsumerMetadata:
    """Return the member's metadata after its heartbeat: ``before`` itself if the heartbeat changes nothing."""
    message = request.message_as(ConsumerGroupHeartbeatRequest)
    if before is not None and _is_unchanged(message) and _same_client(before, request):
        return before
    was = ConsumerMetadata() if before is None else before
    names = message.subscribed_topic_names
    regex = message.subscribed_topic_regex
    metadata = ConsumerMetadata(
        instance_id=was.instance_id if message.instance_id is None else message.instance_id,
        rack_id=was.rack_id if message.rack_id is None else message.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=was.subscribed_topic_names if names is None else sorted(set(names)),
        subscribed_topic_regex=(was.subscribed_topic_regex or "") if regex is None else regex,
        rebalance_timeout_ms=(
            was.rebalance_timeout_ms if message.rebalance_timeout_ms == UNCHANGED else message.rebalance_timeout_ms
        ),
        server_assignor=was.server_assignor if message.server_assignor is None else message.server_assignor,
    )
    return before if before is not None and metadata == before else metadata


def check_regex(group: ModernGroup, before: ConsumerMetadata | None, metadata: ConsumerMetadata) -> None:
    regex = metadata.subscribed_topic_regex
    if not regex or regex in group.regex_users or (before is not None and regex == before.subscribed_topic_regex):
        return
    try:
        Pattern(regex)
    except PatternRefused as error:
        problem = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_re2j_message(error.why)}."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, problem) from None


def _re2j_message(why: str) -> str:
    return next((words for ours, words in RE2J_MESSAGES.items() if why.startswith(ours)), why)


def is_full(message: ConsumerGroupHeartbeatRequest) -> bool:
    """Return True if the heartbeat is full: it has a rebalance timeout, a subscription and owned partitions."""
    has_subscription = message.subscribed_topic_names is not None or message.subscribed_topic_regex is not None
    return message.rebalance_timeout_ms != UNCHANGED and has_subscription and message.topic_partitions is not None


def _is_unchanged(message: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        message.rebalance_timeout_ms == UNCHANGED
        and message.subscribed_topic_names is None
        and message.subscribed_topic_regex is None
        and message.server_assignor is None
        and message.instance_id is None
        and message.rack_id is None
    )


def _same_client(before: ConsumerMetadata, request: GroupRequest) -> bool:
    return (
        before.classic_member_metadata is None
        and before.client_id == request.client_id
        and before.client_host == request.client_host
    )
