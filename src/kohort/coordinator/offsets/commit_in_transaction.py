"""TxnOffsetCommit (28) v0-5: offsets that count once the transaction is committed (KIP-98, KIP-447, KIP-890).

That the transaction is open, and that these offsets are part of it, is known before anyone comes here. A group's rules
are those of Kafka: a request that names a member must come from one of this generation; older clients name none, and
may commit.
"""

from __future__ import annotations

from kohort.coordinator.classic.fencing import note_fenced
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.context import Context
from kohort.coordinator.offsets.commit import is_too_long, own_code, value_of
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


def decide_commit_in_transaction(groups: ClassicGroups, request: GroupRequest, ctx: Context) -> Outcome:
    """Write one record per accepted partition, all in one batch of the producer; the other partitions say why not."""
    message = request.message
    assert isinstance(message, TxnOffsetCommitRequest)
    group = groups.by_id.get(message.group_id)
    out = Outcome(round_changed=False, producer=ProducerIdAndEpoch(message.producer_id, message.producer_epoch))
    group_code = ErrorCode.NONE
    try:
        _check_member(group, message)
    except ApiError as error:
        group_code = error.code
        if group is not None:
            note_fenced(group, request, error, ctx, out)
    topics = [_commit_topic(topic, group_code, message, ctx, out) for topic in message.topics if topic.partitions]
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
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=own_code(p) or code)
                for p in topic.partitions
            ],
        )
        for topic in of.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _check_member(group: ClassicGroup | None, message: TxnOffsetCommitRequest) -> None:
    generation_id = message.generation_id
    if group is None:
        if generation_id >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION, "there is no such group")
        return
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return  # whatever member it names: as with a commit outside of transactions
    if generation_id >= 0 or message.member_id or message.group_instance_id is not None:
        group.check_member(message.member_id, message.group_instance_id)
        group.check_generation(generation_id)


def _commit_topic(
    topic: TxnOffsetCommitRequestTopic,
    group_code: ErrorCode,
    message: TxnOffsetCommitRequest,
    ctx: Context,
    out: Outcome,
) -> TxnOffsetCommitResponseTopic:
    count = ctx.topics.partition_count(topic.name)
    results = []
    for p in topic.partitions:
        code = group_code
        if count is None or not 0 <= p.partition_index < count:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif code is ErrorCode.NONE and is_too_long(p.committed_metadata, ctx.config.offset_metadata_max_bytes):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        elif code is ErrorCode.NONE:
            value = value_of(p, topic.name, NO_RETENTION, ctx.topics, ctx.now_ms)
            out.records.append(OffsetCommitted(message.group_id, topic.name, p.partition_index, value))
        results.append(TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code))
    return TxnOffsetCommitResponseTopic(name=topic.name, partitions=results)
