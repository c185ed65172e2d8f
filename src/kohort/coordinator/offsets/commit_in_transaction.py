"""TxnOffsetCommit (28) v0-6: offsets that count once the transaction is committed (KIP-98, KIP-447, KIP-890), by topic
ids from v6 on (KIP-1319).

That the transaction is open, and that these offsets are part of it, is known before anyone comes here. A group's rules
are those of Kafka: a request that names a member must come from one of this generation; older clients name none, and
may commit.
"""

from __future__ import annotations

from kohort.coordinator.context import Context
from kohort.coordinator.offsets.commit import committed_places, is_too_long, note_progress, own_code, value_of
from kohort.coordinator.offsets.committing import Committer, Committing, check_commit, note_refused, note_unfenced
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.model import ProducerIdAndEpoch
from kohort.wire.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

NO_RETENTION = -1
FIRST_WITH_TOPIC_IDS = 6
"""And with GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""


def decide_commit_in_transaction(groups: Groups, request: GroupRequest, ctx: Context) -> Outcome:
    """Write one record per accepted partition, all in one batch of the producer; the other partitions say why not."""
    message = request.message
    assert isinstance(message, TxnOffsetCommitRequest)
    out = Outcome(round_changed=False, producer=ProducerIdAndEpoch(message.producer_id, message.producer_epoch))
    group_code, member = ErrorCode.NONE, None
    try:
        member = _committer(groups, request, message, ctx)
    except ApiError as error:
        stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and request.api_version < FIRST_WITH_TOPIC_IDS
        group_code = ErrorCode.ILLEGAL_GENERATION if stale else error.code
        note_refused(groups, message.group_id, request, error, ctx, out)
    topics = [_commit_topic(topic, group_code, request, ctx, out) for topic in message.topics if topic.partitions]
    if member is not None:
        # It says that the member works, and no more: the request came from its producer, and renews no session.
        member.commits += 1
        member.last_commit_ms = ctx.now_ms
        note_progress(member, groups.offsets.get(message.group_id), out, ctx.now_ms)
    if not message.member_id and message.generation_id < 0:
        note_unfenced(request, message.group_id, groups.offsets.get(message.group_id), ctx, out)
    out.replies.append(Reply(request, TxnOffsetCommitResponse(topics=topics)))
    return out


def refuse_commit_in_transaction(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a TxnOffsetCommit with ``code`` for every partition."""
    message = asked.message
    assert isinstance(message, TxnOffsetCommitRequest)
    return Reply(asked, _with_code(message, code))


def withdraw_commit_in_transaction(reply: Reply, code: ErrorCode) -> Reply:
    """Turn an answer into one with ``code`` for every partition that was accepted."""
    assert isinstance(reply.message, TxnOffsetCommitResponse)
    return Reply(reply.asked, _with_code(reply.message, code))


def _with_code(of: TxnOffsetCommitRequest | TxnOffsetCommitResponse, code: ErrorCode) -> TxnOffsetCommitResponse:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=own_code(p) or code)
                for p in topic.partitions
            ],
        )
        for topic in of.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _committer(
    groups: Groups, request: GroupRequest, message: TxnOffsetCommitRequest, ctx: Context
) -> Committer | None:
    """Return the member that commits, or None where none is named. Raises ApiError if it may not."""
    version = request.api_version
    by_id = version >= FIRST_WITH_TOPIC_IDS
    commit = Committing(
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        version,
        committed_places(message, ctx, by_id=by_id),
        in_transaction=True,
    )
    code = ErrorCode.GROUP_ID_NOT_FOUND if by_id else ErrorCode.ILLEGAL_GENERATION
    return check_commit(groups, message.group_id, commit, code)


def _commit_topic(
    topic: TxnOffsetCommitRequestTopic,
    group_code: ErrorCode,
    request: GroupRequest,
    ctx: Context,
    out: Outcome,
) -> TxnOffsetCommitResponseTopic:
    message = request.message
    assert isinstance(message, TxnOffsetCommitRequest)
    by_id = request.api_version >= FIRST_WITH_TOPIC_IDS
    name = ctx.topics.topic_name(topic.topic_id) if by_id else topic.name
    count = None if name is None else ctx.topics.partition_count(name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = []
    for p in topic.partitions:
        code = group_code
        if count is None or not 0 <= p.partition_index < count:
            code = missing
        elif code is ErrorCode.NONE and is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        elif code is ErrorCode.NONE:
            assert name is not None
            value = value_of(p, name, NO_RETENTION, ctx.topics, ctx.now_ms)
            out.records.append(OffsetCommitted(message.group_id, name, p.partition_index, value))
        results.append(TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code))
    return TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)
