"""OffsetForLeaderEpoch (23), versions 2-4: where an epoch ended, so that readers notice truncation. KIP-320."""

from __future__ import annotations

from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.wire.messages.epochs import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(state: BrokerState, request: Request) -> Answer:
    message: OffsetForLeaderEpochRequest = request.message
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=asked.topic, partitions=[_end(state, asked.topic, partition) for partition in asked.partitions]
            )
            for asked in message.topics
        ]
    )


def _end(state: BrokerState, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = state.topics.log(topic, asked.partition)
        if log is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if 0 <= asked.current_leader_epoch != log.leader_epoch:
            behind = asked.current_leader_epoch < log.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH)
    except KohortError as error:
        return EpochEndOffset(error_code=refusal_of(error).code, partition=asked.partition)
    epoch, end_offset = log.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
