"""Consumer groups that are not there: Kafka's words for it."""

from __future__ import annotations

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.errors import ApiError, ErrorCode


def check_consumer_group(groups: ConsumerGroups, group_id: str) -> ModernGroup:
    """Return a consumer group. Raises GROUP_ID_NOT_FOUND."""
    group = groups.consumer.get(group_id)
    if group is None:
        raise not_found(other_kind(group_id) if group_id in groups.by_id else f"Group {group_id} not found.")
    return group


def other_kind(group_id: str) -> str:
    """Return the words for a group that is there, and a classic one."""
    return f"Group {group_id} is not a consumer group."


def not_found(problem: str) -> ApiError:
    """Return GROUP_ID_NOT_FOUND with these words."""
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, problem)
