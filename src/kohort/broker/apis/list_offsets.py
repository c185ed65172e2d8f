"""ListOffsets (2), versions 1-11. KIP-79, KIP-734 (max timestamp), KIP-405 (tiered storage).

The broker has no tiered storage: the earliest local offset is the log start offset, and tiered offsets are -1.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import TOPIC_DENIED, TopicsRule
from kohort.broker.leaders import led_log
from kohort.broker.request import AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.partition import PartitionLog
from kohort.security.acls import Operation
from kohort.steps import Pace
from kohort.wire.messages import list_offsets as wire

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE_VERSION: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
READ_COMMITTED: Final = 1
FIRST_VERSION_WITH_EPOCHS: Final = 4
TOPIC_US: Final = 2
FIND_US: Final = 5
LOOK_UP_US: Final = 300


def list_offsets(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ListOffsetsRequest = request.message
    topics = []
    pace = Pace()
    for requested in message.topics:
        counts = Counter(partition.partition_index for partition in requested.partitions)
        partitions = []
        for partition in requested.partitions:
            try:
                if counts[partition.partition_index] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "duplicate partition in the request")
                partitions.append(_find(state, request, requested.name, partition))
            except KohortError as error:
                partitions.append(
                    wire.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=refusal_of(error).code
                    )
                )
            if pace.is_due(FIND_US if partition.timestamp < 0 and partition.timestamp != MAX_TIMESTAMP else LOOK_UP_US):
                yield
        if pace.is_due(TOPIC_US):
            yield
        topics.append(wire.ListOffsetsTopicResponse(name=requested.name, partitions=partitions))
    return wire.ListOffsetsResponse(topics=topics)


def _find(
    state: BrokerState, request: Request, name: str, requested: wire.ListOffsetsPartition
) -> wire.ListOffsetsPartitionResponse:
    log = led_log(state, name, requested.partition_index, current_leader_epoch=requested.current_leader_epoch)
    if requested.timestamp < EARLIEST_PENDING_UPLOAD or request.version < SINCE_VERSION.get(requested.timestamp, 0):
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"ListOffsets version {request.version} does not support timestamp {requested.timestamp}",
        )
    if name in state.internal_topics:
        # create the internal topic if missing; for `__kohort_journal`, also write delayed entries
        state.internal_topics[name](request.now_ms)
    offset, timestamp, epoch = _offset(
        log, requested.timestamp, committed=request.message.isolation_level == READ_COMMITTED
    )
    return wire.ListOffsetsPartitionResponse(
        partition_index=requested.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if request.version >= FIRST_VERSION_WITH_EPOCHS else -1,
    )


def _offset(log: PartitionLog, timestamp: int, *, committed: bool) -> tuple[int, int, int]:
    """Return offset, timestamp and leader epoch for a requested timestamp; each is -1 if unknown."""
    if timestamp == LATEST:
        return (log.last_stable_offset if committed else log.high_watermark), -1, log.leader_epoch
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return log.log_start_offset, -1, log.leader_epoch
    if timestamp in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return -1, -1, -1
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.find_by_time(timestamp)
    if found is None or (committed and found.offset >= log.last_stable_offset):
        return -1, -1, -1
    return found.offset, found.timestamp_ms, found.leader_epoch


LIST_OFFSETS = BrokerApi(
    wire.ListOffsetsRequest,
    list_offsets,
    TopicsRule(
        Operation.DESCRIBE,
        wire.ListOffsetsResponse,
        lambda p: wire.ListOffsetsPartitionResponse(partition_index=p.partition_index, error_code=TOPIC_DENIED),
        lambda topic, made: wire.ListOffsetsTopicResponse(name=topic.name, partitions=made),
    ),
    Cost(AnswerBound.REQUEST),
    names={"topics.name": NameKind.TOPIC},
)
