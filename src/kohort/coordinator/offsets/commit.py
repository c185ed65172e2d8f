"""OffsetCommit (8) v2-10: KIP-211, KIP-320, KIP-345, KIP-848 (v9), topic ids (v10). TxnOffsetCommit (28) v0-6:
offsets that the end of a transaction commits (KIP-98, KIP-447, KIP-890), topic ids from v6 (KIP-1319).

The rules: protocol/offsets.md#offsetcommit, protocol/offsets.md#offsets-in-transactions. The caller has checked that a
transaction is open and includes the group's ``__consumer_offsets`` partition.

Deviation from Kafka: the response keeps the request's order of topics, and omits topics that have no partitions.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kohort.coordinator.context import Context
from kohort.coordinator.offsets.committing import (
    Committer,
    Committing,
    check_commit,
    existing_places,
    note_refused,
    note_unfenced,
)
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply, TopicsView
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.model import NO_UUID, ProducerIdAndEpoch
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

CommitRequest = OffsetCommitRequest | TxnOffsetCommitRequest
CommitPartition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
NO_RETENTION: Final = -1


class _Api(NamedTuple):
    """Response classes of OffsetCommit or of TxnOffsetCommit, and the versions in which the two APIs differ."""

    response: Any
    topic: Any
    partition: Any
    first_with_group_id_not_found: int
    first_with_topic_ids: int


_APIS: Final[dict[type, _Api]] = {
    OffsetCommitRequest: _Api(OffsetCommitResponse, OffsetCommitResponseTopic, OffsetCommitResponsePartition, 9, 10),
    TxnOffsetCommitRequest: _Api(
        TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition, 6, 6
    ),
}


def decide_commit(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Commit the offsets of all valid partitions in one append. Each invalid partition gets an error of its own."""
    message = request.message_as(OffsetCommitRequest)
    out = Outcome(round_changed=False)
    member, group_code = None, ErrorCode.NONE
    try:
        member = _committer(groups, request, message, message.generation_id_or_member_epoch, ctx)
    except ApiError as error:
        group_code = error.code
        note_refused(groups, message.group_id, request, error, ctx, out)
    answer = _commit_topics(request, message, group_code, message.retention_time_ms, ctx, out)
    if member is not None and group_code is ErrorCode.NONE:
        member.note_commit(request.connection, ctx.now_ms)
        note_progress(member, groups.offsets.get(message.group_id), out, ctx.now_ms)
    elif group_code is ErrorCode.NONE:
        note_unfenced(request, message.group_id, groups.offsets.get(message.group_id), ctx, out)
    out.replies.append(answer)
    return out


def decide_commit_in_transaction(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Commit offsets in a transaction (TxnOffsetCommit). Requests before v3 have no member id."""
    message = request.message_as(TxnOffsetCommitRequest)
    out = Outcome(round_changed=False, producer=ProducerIdAndEpoch(message.producer_id, message.producer_epoch))
    member, group_code = None, ErrorCode.NONE
    try:
        member = _committer(groups, request, message, message.generation_id, ctx)
    except ApiError as error:
        by_id = request.api_version >= _APIS[TxnOffsetCommitRequest].first_with_topic_ids
        stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and not by_id
        group_code = ErrorCode.ILLEGAL_GENERATION if stale else error.code
        note_refused(groups, message.group_id, request, error, ctx, out)
    answer = _commit_topics(request, message, group_code, NO_RETENTION, ctx, out)
    if member is not None:
        # TxnOffsetCommit comes from a producer, so it does not renew the consumer's session.
        member.commits += 1
        member.last_commit_ms = ctx.now_ms
        note_progress(member, groups.offsets.get(message.group_id), out, ctx.now_ms)
    if not message.member_id and message.generation_id < 0:
        note_unfenced(request, message.group_id, groups.offsets.get(message.group_id), ctx, out)
    out.replies.append(answer)
    return out


def refuse_commit(request: GroupRequest, code: ErrorCode) -> Reply:
    return Reply(request, _with_code(request, request.message, code))


def withdraw_commit(reply: Reply, code: ErrorCode) -> Reply:
    return Reply(reply.request, _with_code(reply.request, reply.message, code))


def _with_code(request: GroupRequest, of: Any, code: ErrorCode) -> Any:
    api = _APIS[type(request.message)]
    topics = []
    for topic in of.topics:
        codes = ((p.partition_index, getattr(p, "error_code", 0) or code) for p in topic.partitions)
        partitions = [api.partition(partition_index=partition, error_code=error) for partition, error in codes]
        topics.append(api.topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return api.response(topics=topics)


def _committer(
    groups: Groups, request: GroupRequest, message: CommitRequest, epoch: int, ctx: Context
) -> Committer | None:
    version, api = request.api_version, _APIS[type(message)]
    by_id = version >= api.first_with_topic_ids
    named = (
        (ctx.topics.topic_name(topic.topic_id) if by_id else topic.name, p.partition_index)
        for topic in message.topics
        for p in topic.partitions
        if not is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes)
    )
    commit = Committing(
        message.member_id,
        message.group_instance_id,
        epoch,
        version,
        existing_places(named, ctx.topics),
        in_transaction=isinstance(message, TxnOffsetCommitRequest),
    )
    missing = version >= api.first_with_group_id_not_found
    code = ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.ILLEGAL_GENERATION
    return check_commit(groups, message.group_id, commit, code)


def _commit_topics(
    request: GroupRequest, message: CommitRequest, group_code: ErrorCode, retention_ms: int, ctx: Context, out: Outcome
) -> Reply:
    api = _APIS[type(message)]
    by_id = request.api_version >= api.first_with_topic_ids
    topics = []
    for topic in message.topics:
        if not topic.partitions:
            continue
        name = ctx.topics.topic_name(topic.topic_id) if by_id else topic.name
        count = None if name is None else ctx.topics.partition_count(name)
        results = []
        for p in topic.partitions:
            if name is None:
                code = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                code = _partition_error(p, count, group_code, ctx)
                if code is ErrorCode.NONE:
                    value = value_of(p, name, retention_ms, ctx.topics, ctx.now_ms)
                    out.records.append(OffsetCommitted(message.group_id, name, p.partition_index, value))
            results.append(api.partition(partition_index=p.partition_index, error_code=code))
        topics.append(api.topic(name=topic.name, topic_id=topic.topic_id, partitions=results))
    return Reply(request, api.response(topics=topics))


def _partition_error(p: CommitPartition, count: int | None, group_code: ErrorCode, ctx: Context) -> ErrorCode:
    if count is None or not 0 <= p.partition_index < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if group_code is ErrorCode.NONE and is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return group_code


def value_of(p: CommitPartition, name: str, retention_ms: int, topics: TopicsView, now_ms: int) -> OffsetCommitValue:
    metadata = p.committed_metadata or ""
    if retention_ms != -1:
        # An expiry time needs version 1 of the offset record, which lacks leader epoch and topic id.
        return OffsetCommitValue(
            offset=p.committed_offset,
            metadata=metadata,
            commit_timestamp=now_ms,
            expire_timestamp=now_ms + retention_ms,
        )
    return OffsetCommitValue(
        offset=p.committed_offset,
        leader_epoch=p.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp=now_ms,
        topic_id=topics.topic_id(name) or NO_UUID,
    )


def is_too_long(metadata: str | None, limit: int) -> bool:
    """Return True if the metadata text of a commit exceeds ``limit``, counted in UTF-16 units as in Kafka."""
    if metadata is None or 2 * len(metadata) <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def note_progress(member: Committer, offsets: GroupOffsets | None, out: Outcome, now_ms: int) -> None:
    """Record the time of a member's commit if the commit moves an offset forward."""
    for record in out.records:
        assert isinstance(record, OffsetCommitted)
        assert record.value is not None
        before = None if offsets is None else offsets.get(record.topic, record.partition)
        if before is None or before.offset < record.value.offset:
            member.last_progress_ms = now_ms
            return
