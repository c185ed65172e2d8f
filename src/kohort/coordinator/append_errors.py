"""What members are told when the records behind an answer cannot be appended."""

from __future__ import annotations

from typing import Final

from kohort.errors import ApiError, ErrorCode, KohortError

APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""What members are told when an append fails with the code on the left (protocol/groups.md#storage-errors)."""


def append_error(error: KohortError) -> ErrorCode:
    """Return what members are told of ``error``; whatever is not a broker's answer is the storage's fault."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
    return APPEND_ERRORS.get(code, code)
