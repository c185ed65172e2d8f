"""OffsetForLeaderEpoch (23), versions 2-4: where an epoch ended, so that readers notice truncation. KIP-320."""

from __future__ import annotations

from kohort.broker.leaders import led_log
from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import KohortError
from kohort.wire.messages.list_offsets import (
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
        log = led_log(state, topic, asked.partition, current_leader_epoch=asked.current_leader_epoch)
    except KohortError as error:
        return EpochEndOffset(error_code=refusal_of(error).code, partition=asked.partition)
    epoch, end_offset = log.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
