"""OffsetCommit (8) v2-10: KIP-211, KIP-320, KIP-345, KIP-848 (v9), topic ids (v10).

The rules: protocol/offsets.md#offsetcommit.

Deviation from Kafka: the answer keeps the request's order of topics. A topic without partitions is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable

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
from kohort.model import NO_UUID
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from kohort.wire.schema import Message

FIRST_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_WITH_TOPIC_IDS = 10


def decide_commit(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Write one record per accepted partition, all at once; the other partitions say why not."""
    message = request.message
    assert isinstance(message, OffsetCommitRequest)
    out = Outcome(round_changed=False)
    member, group_code = None, ErrorCode.NONE
    try:
        member = _committer(groups, request, message, ctx)
    except ApiError as error:
        group_code = error.code
        note_refused(groups, message.group_id, request, error, ctx, out)
    topics = [_commit_topic(t, group_code, request, message, ctx, out) for t in message.topics if t.partitions]
    if member is not None and group_code is ErrorCode.NONE:
        member.note_commit(request.connection, ctx.now_ms)
        note_progress(member, groups.offsets.get(message.group_id), out, ctx.now_ms)
    elif group_code is ErrorCode.NONE:
        note_unfenced(request, message.group_id, groups.offsets.get(message.group_id), ctx, out)
    out.replies.append(Reply(request, OffsetCommitResponse(topics=topics)))
    return out


def refuse_commit(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer an OffsetCommit with ``code`` for every partition."""
    message = asked.message
    assert isinstance(message, OffsetCommitRequest)
    return Reply(asked, _with_code(message, code))


def withdraw_commit(reply: Reply, code: ErrorCode) -> Reply:
    """Turn an answer into one with ``code`` for every partition that was accepted."""
    assert isinstance(reply.message, OffsetCommitResponse)
    return Reply(reply.asked, _with_code(reply.message, code))


def _with_code(of: OffsetCommitRequest | OffsetCommitResponse, code: ErrorCode) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=own_code(p) or code)
                for p in topic.partitions
            ],
        )
        for topic in of.topics
    ]
    return OffsetCommitResponse(topics=topics)


def own_code(partition: Message) -> int:
    """Return what a partition of an answer was refused for; 0 for one of a request."""
    return int(getattr(partition, "error_code", 0))


def committed_places(
    message: OffsetCommitRequest | TxnOffsetCommitRequest, ctx: Context, *, by_id: bool
) -> Iterable[tuple[bytes, int]]:
    """Return topic id and partition of all that a commit is about, and that can be committed."""
    asked = (
        (ctx.topics.topic_name(topic.topic_id) if by_id else topic.name, p.partition_index)
        for topic in message.topics
        for p in topic.partitions
        if not is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes)
    )
    return existing_places(asked, ctx.topics)


def _committer(groups: Groups, request: GroupRequest, message: OffsetCommitRequest, ctx: Context) -> Committer | None:
    """Return the member that commits, or None for a commit from outside of the group. Raises ApiError if it may not."""
    version = request.api_version
    commit = Committing(
        message.member_id,
        message.group_instance_id,
        message.generation_id_or_member_epoch,
        version,
        committed_places(message, ctx, by_id=version >= FIRST_WITH_TOPIC_IDS),
    )
    missing = version >= FIRST_WITH_GROUP_ID_NOT_FOUND
    code = ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.ILLEGAL_GENERATION
    return check_commit(groups, message.group_id, commit, code)


def _commit_topic(
    topic: OffsetCommitRequestTopic,
    group_code: ErrorCode,
    request: GroupRequest,
    message: OffsetCommitRequest,
    ctx: Context,
    out: Outcome,
) -> OffsetCommitResponseTopic:
    by_id = request.api_version >= FIRST_WITH_TOPIC_IDS
    name = ctx.topics.topic_name(topic.topic_id) if by_id else topic.name
    count = None if name is None else ctx.topics.partition_count(name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if by_id and name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = []
    for p in topic.partitions:
        code = group_code
        if count is None or not 0 <= p.partition_index < count:
            code = missing
        elif code is ErrorCode.NONE and is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        elif code is ErrorCode.NONE:
            assert name is not None
            value = value_of(p, name, message.retention_time_ms, ctx.topics, ctx.now_ms)
            out.records.append(OffsetCommitted(message.group_id, name, p.partition_index, value))
        results.append(OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)


def value_of(
    p: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    name: str,
    retention_ms: int,
    topics: TopicsView,
    now_ms: int,
) -> OffsetCommitValue:
    """Return what is written of one partition of a request."""
    metadata = p.committed_metadata or ""
    if retention_ms != -1:
        # Only version 1 of the record has an expiry, and it has no epoch and no topic id: what cannot be read back
        # after a restart is not kept before it either.
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
    """Tell whether metadata is longer than ``limit``. Kafka compares the option, named bytes, with the length of a Java
    string: UTF-16 units."""
    if metadata is None or 2 * len(metadata) <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def note_progress(member: Committer, offsets: GroupOffsets | None, out: Outcome, now_ms: int) -> None:
    """Note the evidence for the journal that a member that commits, and moves forward, is at work."""
    for record in out.records:
        assert isinstance(record, OffsetCommitted)
        assert record.value is not None
        before = None if offsets is None else offsets.get(record.topic, record.partition)
        if before is None or before.offset < record.value.offset:
            member.last_progress_ms = now_ms
            return
