"""DeleteRecords (21), versions 0-2: raise the log start offset; offset -1 means the high watermark. KIP-107."""

from __future__ import annotations

from typing import Final

from kohort.broker.api import PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import TOPIC_DENIED, TopicsRule
from kohort.broker.leaders import check_leader, topic_with
from kohort.broker.request import Answer, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.security.acls import Operation
from kohort.wire.messages import topics as wire

HIGH_WATERMARK: Final = -1


def delete_records(state: BrokerState, request: Request) -> Answer:
    message: wire.DeleteRecordsRequest = request.message
    return wire.DeleteRecordsResponse(
        topics=[
            wire.DeleteRecordsTopicResult(
                name=entry.name, partitions=[_delete(state, entry.name, p) for p in entry.partitions]
            )
            for entry in message.topics
        ]
    )


def _delete(state: BrokerState, name: str, entry: wire.DeleteRecordsPartition) -> wire.DeleteRecordsPartitionResult:
    try:
        topic = topic_with(state, name, entry.partition_index)
        log = topic.partitions[entry.partition_index]
        if topic.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
        if "delete" not in topic.config.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"topic {name}: DeleteRecords needs cleanup.policy=delete")
        offset = log.high_watermark if entry.offset == HIGH_WATERMARK else entry.offset
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        check_leader(state, topic, entry.partition_index)
        log.delete_records_before(offset)
    except KohortError as error:
        return wire.DeleteRecordsPartitionResult(
            partition_index=entry.partition_index, low_watermark=-1, error_code=refusal_of(error).code
        )
    return wire.DeleteRecordsPartitionResult(partition_index=entry.partition_index, low_watermark=log.log_start_offset)


DELETE_RECORDS = BrokerApi(
    wire.DeleteRecordsRequest,
    delete_records,
    TopicsRule(
        Operation.DELETE,
        wire.DeleteRecordsResponse,
        lambda p: wire.DeleteRecordsPartitionResult(
            partition_index=p.partition_index, low_watermark=-1, error_code=TOPIC_DENIED
        ),
        lambda topic, made: wire.DeleteRecordsTopicResult(name=topic.name, partitions=made),
    ),
    Cost(AnswerBound.REQUEST, parts=Parts(PARTITIONS, PARTITIONS, 50, writes=True)),
    names={"topics.name": NameKind.TOPIC},
)
