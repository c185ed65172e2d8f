"""The refusal of each group API: where its errors stand, and which of a storage error's codes a client may see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kohort.coordinator.outcome import GroupRequest, Reply
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kohort.wire.schema import Message

OF_STORAGE: Final = {
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


def code_of(error: KohortError) -> ErrorCode:
    """What members are told of ``error``; whatever is not a broker's answer is the storage's fault."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
    return OF_STORAGE.get(code, code)


def refusal(asked: GroupRequest, code: ErrorCode) -> Reply:
    """The answer to ``asked`` that says ``code`` and nothing else."""
    build = REFUSALS[type(asked.message)]
    return Reply(asked, build(asked.message, asked.api_version, code))


def join_refusal(asked: GroupRequest, code: ErrorCode, member_id: str) -> Reply:
    """JoinGroup's refusal, naming the member id that the client should know."""
    name = None if asked.api_version >= 7 else ""
    return Reply(asked, JoinGroupResponse(error_code=code, protocol_name=name, member_id=member_id))


def refused(reply: Reply, code: ErrorCode) -> Reply:
    """What becomes of ``reply`` when the records behind it could not be appended."""
    if isinstance(reply.message, OffsetCommitResponse):
        return Reply(reply.asked, _offset_commit(reply.message, reply.asked.api_version, code))
    if isinstance(reply.message, TxnOffsetCommitResponse):
        return Reply(reply.asked, _offset_commit_in_transaction(reply.message, reply.asked.api_version, code))
    return refusal(reply.asked, code)


def _join(message: JoinGroupRequest, version: int, code: ErrorCode) -> Message:
    name = None if version >= 7 else ""
    return JoinGroupResponse(error_code=code, protocol_name=name, member_id=message.member_id)


def _offset_commit(of: OffsetCommitRequest | OffsetCommitResponse, _version: int, code: ErrorCode) -> Message:
    """``code`` for every partition that is asked for, or was accepted."""
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=_own_code(p) or code)
                for p in topic.partitions
            ],
        )
        for topic in of.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _offset_commit_in_transaction(
    of: TxnOffsetCommitRequest | TxnOffsetCommitResponse, _version: int, code: ErrorCode
) -> Message:
    """The same, for a commit in a transaction."""
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=_own_code(p) or code)
                for p in topic.partitions
            ],
        )
        for topic in of.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _own_code(partition: Message) -> int:
    """What the partition of an answer was refused for; 0 in a request."""
    return int(getattr(partition, "error_code", 0))


def _offset_fetch(message: OffsetFetchRequest, version: int, code: ErrorCode) -> Message:
    """From v8 an error stands with each group, from v2 at the top, before that with each partition.

    The rules: protocol/offsets.md#offsetfetch.
    """
    if version >= 8:
        groups = [OffsetFetchResponseGroup(group_id=g.group_id, error_code=code) for g in message.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= 2:
        return OffsetFetchResponse(error_code=code)
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=p, committed_offset=-1, metadata="", error_code=code)
                for p in topic.partition_indexes
            ],
        )
        for topic in message.topics or []
    ]
    return OffsetFetchResponse(topics=topics)


def _describe_groups(message: DescribeGroupsRequest, _version: int, code: ErrorCode) -> Message:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=g, error_code=code) for g in message.groups])


def _delete_groups(message: DeleteGroupsRequest, _version: int, code: ErrorCode) -> Message:
    names = dict.fromkeys(message.groups_names)
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=g, error_code=code) for g in names])


REFUSALS: Final[dict[type[Message], Callable[[Any, int, ErrorCode], Message]]] = {
    JoinGroupRequest: _join,
    SyncGroupRequest: lambda _message, _version, code: SyncGroupResponse(error_code=code),
    HeartbeatRequest: lambda _message, _version, code: HeartbeatResponse(error_code=code),
    LeaveGroupRequest: lambda _message, _version, code: LeaveGroupResponse(error_code=code),
    OffsetCommitRequest: _offset_commit,
    TxnOffsetCommitRequest: _offset_commit_in_transaction,
    OffsetFetchRequest: _offset_fetch,
    OffsetDeleteRequest: lambda _message, _version, code: OffsetDeleteResponse(error_code=code),
    ListGroupsRequest: lambda _message, _version, code: ListGroupsResponse(error_code=code),
    DescribeGroupsRequest: _describe_groups,
    DeleteGroupsRequest: _delete_groups,
}
