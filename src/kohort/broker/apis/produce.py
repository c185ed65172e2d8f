"""Produce (0), versions 3-13: append one batch per partition. KIP-98, KIP-467, KIP-516, KIP-951.

Batches are views into the frame and are not copied. With ``acks=0`` there is no response, and a failure closes the
connection (protocol/records.md#producing). Replicas share one log, so ``acks`` 1 and -1 are the same. If
``flush.messages`` demands it, the response waits for the flush (ADR 6). A transactional batch needs an open transaction
that contains the partition (leaders.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kohort.broker.api import FREED_EARLY, AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import ID_DENIED, PASSED, TOPIC_DENIED, Denials, GuardResult, Rights, refused_by_topic
from kohort.broker.leaders import TELLS_LEADER, check_leader, endpoints_of, join_transaction, leader_now
from kohort.broker.purgatory import FlushTarget, PendingAnswer
from kohort.broker.request import AnswerInSteps, CloseConnection, Refusal, Request, Unanswered, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topic
from kohort.log.validation import intact_header
from kohort.model import ProducerIdAndEpoch
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec
from kohort.wire.messages import produce as wire
from kohort.wire.record_batch import CODEC_BITS, TRANSACTIONAL_BIT

FIRST_VERSION_WITH_ZSTD: Final = 7
FIRST_VERSION_WITH_LEADERS: Final = 10
FIRST_VERSION_WITH_ABORTABLE: Final = 11
FIRST_VERSION_THAT_JOINS: Final = 12
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
ATTRIBUTES_AT: Final = 22
"""Byte position of the attributes in a record batch (low byte)."""
TOPIC_US: Final = 1
APPEND_US: Final = 90
FIRST_APPEND_US: Final = 700
"""Estimated microseconds of the first append to a partition log, which creates the log's files."""
BYTES_PER_US: Final = 1_000
FREED: Final = wire.PartitionProduceData()
SHOWN_FAILURES: Final = 10
"""Maximum number of failed partitions that the log names when a Produce with acks=0 closes the connection."""
NO_LEADER: Final = wire.PartitionProduceResponse().current_leader
NO_RECORD_ERRORS: Final[list[wire.BatchIndexAndErrorMessage]] = []
"""Shared by all response entries, to save memory."""
ITEM_US: Final = 0.3


def produce(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ProduceRequest = request.message
    responses: list[wire.TopicProduceResponse] = []
    failures: list[str] = []
    unflushed: dict[tuple[int, int], FlushTarget] = {}
    pace = Pace()
    for entry in message.topic_data:
        partitions: list[wire.PartitionProduceResponse] = []
        for data in entry.partition_data:
            try:
                response, needed = yield from _append(state, request, entry, data)
                if needed is not None:
                    unflushed[len(responses), len(partitions)] = needed
                partitions.append(response)
            except KohortError as error:
                refusal = refusal_of(error)
                if message.acks == 0 and len(failures) < SHOWN_FAILURES:
                    failures.append(f"{entry.name or entry.topic_id.hex()}-{data.index}: {refusal}")
                partitions.append(_refused(state, request, entry, data.index, refusal))
            first = not partitions[-1].error_code and not partitions[-1].base_offset
            size = len(data.records or b"")
            if len(entry.partition_data) > FREED_EARLY:
                entry.partition_data[len(partitions) - 1] = FREED
            if pace.is_due((FIRST_APPEND_US if first else APPEND_US) + size / BYTES_PER_US):
                yield
        responses.append(
            wire.TopicProduceResponse(name=entry.name, topic_id=entry.topic_id, partition_responses=partitions)
        )
        if pace.is_due(TOPIC_US):
            yield
    if message.acks == 0:
        if failures:
            raise CloseConnection(f"Produce with acks=0 failed: {'; '.join(failures)}", "acks=0")
        return Unanswered.NEVER
    leaders = {p.current_leader.leader_id for topic in responses for p in topic.partition_responses}
    endpoints = [
        wire.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in endpoints_of(state, leaders, request.caller.listener)
    ]
    answer = wire.ProduceResponse(responses=responses, node_endpoints=endpoints)
    if not unflushed:
        return answer
    finish = partial(_after_flush, answer, unflushed)
    state.flushes.hold(PendingAnswer(request.reply_to, list(unflushed.values()), finish), request.now_ms)
    return Unanswered.LATER


def _after_flush(
    answer: wire.ProduceResponse,
    unflushed: Mapping[tuple[int, int], FlushTarget],
    failed: Mapping[PartitionLog, Refusal],
) -> wire.ProduceResponse:
    """Return the Produce response with retriable errors for partitions whose flush failed."""
    for (topic, place), (log, _) in unflushed.items():
        if log in failed:
            partitions = answer.responses[topic].partition_responses
            partitions[place] = wire.PartitionProduceResponse(
                index=partitions[place].index,
                error_code=ErrorCode.KAFKA_STORAGE_ERROR,
                base_offset=-1,
                error_message=failed[log].message,
            )
    return answer


def _refused(
    state: BrokerState, request: Request, entry: wire.TopicProduceData, index: int, refusal: Refusal
) -> wire.PartitionProduceResponse:
    leader = NO_LEADER
    if refusal.code in TELLS_LEADER and request.version >= FIRST_VERSION_WITH_LEADERS:
        by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
        topic = state.topics.by_id(entry.topic_id) if by_id else state.topics.get(entry.name)
        leader_id, leader_epoch = leader_now(state, topic, index)
        leader = wire.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    record_errors = [
        wire.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=why)
        for index, why in refusal.records
    ]
    return wire.PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=-1,
        record_errors=record_errors or NO_RECORD_ERRORS,
        error_message=refusal.message or None,
        current_leader=leader,
    )


def _append(
    state: BrokerState, request: Request, entry: wire.TopicProduceData, data: wire.PartitionProduceData
) -> Steps[tuple[wire.PartitionProduceResponse, FlushTarget | None]]:
    """Append a batch; return the partition's response entry, and the log offset to flush before the response."""
    topic, batch = _check(state, request, entry, data)
    log = topic.partitions[data.index]
    prepared = None
    if log.decompresses_batches:
        prepared = yield from log.prepare(batch, request.now_ms)
        # check again: the topic may have been deleted during the decompression of the batch
        topic, batch = _check(state, request, entry, data)
        if topic.partitions[data.index] is not log:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    in_transaction = len(batch) > ATTRIBUTES_AT and bool(batch[ATTRIBUTES_AT] & TRANSACTIONAL_BIT)
    if in_transaction:
        _join_transaction(state, request, log, batch)
    now_ms = request.now_ms
    appended = log.append(batch, now_ms) if prepared is None else log.append_prepared(prepared, now_ms)
    if not appended.duplicate:
        state.purgatory.appended((topic.topic_id, data.index), len(batch), undecided=in_transaction)
    response = wire.PartitionProduceResponse(
        index=data.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=appended.log_start_offset,
    )
    return response, (log, appended.last_offset) if appended.awaits_flush else None


def _check(
    state: BrokerState, request: Request, entry: wire.TopicProduceData, data: wire.PartitionProduceData
) -> tuple[Topic, Buffer]:
    """Check that this node may append to a partition; return the topic and the batch. Raises ApiError."""
    message: wire.ProduceRequest = request.message
    topic = _topic(state, request, entry)
    if not 0 <= data.index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if message.acks not in {-1, 0, 1}:
        raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={message.acks}: expected -1, 0 or 1")
    if topic.internal:  # also for client id __admin_client, unlike Kafka: any client can set this id
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
    check_leader(state, topic, data.index)
    batch = data.records
    if batch is None:
        raise ApiError(ErrorCode.INVALID_RECORD, "the partition has no batch; expected exactly one")
    assert not isinstance(batch, list), "a decoded Produce request holds one buffer per partition"
    if request.version < FIRST_VERSION_WITH_ZSTD:
        _check_codec(batch)
    return topic, batch


def _topic(state: BrokerState, request: Request, entry: wire.TopicProduceData) -> Topic:
    by_id = request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topic = state.topics.by_id(entry.topic_id) if by_id else state.topics.get(entry.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _join_transaction(state: BrokerState, request: Request, log: PartitionLog, batch: Buffer) -> None:
    """Raise ApiError unless the producer's transaction is open and includes the partition."""
    header = intact_header(batch)
    join_transaction(
        state,
        request,
        ProducerIdAndEpoch(header.producer_id, header.producer_epoch),
        log.tp,
        adds=request.version >= FIRST_VERSION_THAT_JOINS,
        knows_abortable=request.version >= FIRST_VERSION_WITH_ABORTABLE,
    )


def _check_codec(batch: Buffer) -> None:
    """Raise ApiError for a zstd batch if the Produce version is too old for zstd (KIP-110)."""
    if intact_header(batch).attributes & CODEC_BITS == Codec.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd-compressed batches need Produce version 7 or later"
        )


def guard_produce(rights: Rights) -> Steps[GuardResult]:
    """Require WRITE on each topic, and on the transactional id if a batch is transactional."""
    message: wire.ProduceRequest = rights.request.message
    name = message.transactional_id
    if (yield from _is_transactional(message)) and (
        name is None or not rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    ):
        refused = yield from _refused_topics(message.topic_data, ID_DENIED)
        return GuardResult(wire.ProduceResponse(responses=refused), closing=_closing(message, refused))
    by_id = rights.request.version >= FIRST_VERSION_WITH_TOPIC_IDS
    allowed, denied = yield from rights.authorized(Operation.WRITE, ResourceType.TOPIC, message.topic_data, by_id=by_id)
    if not denied:
        return PASSED
    refused = yield from _refused_topics(denied, TOPIC_DENIED)
    if not allowed:
        return GuardResult(wire.ProduceResponse(responses=refused), closing=_closing(message, refused))
    rights.replace_fields(topic_data=allowed)
    return GuardResult(amend=Denials("topic_data", "responses", refused).add, closing=_closing(message, refused))


def _is_transactional(message: wire.ProduceRequest) -> Steps[bool]:
    pace = Pace()
    for topic in message.topic_data:
        for data in topic.partition_data:
            batch: Any = data.records
            if batch is not None and len(batch) > ATTRIBUTES_AT and batch[ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
                return True
            if pace.is_due(ITEM_US):
                yield
    return False


def _refused_topics(topics: list[wire.TopicProduceData], code: ErrorCode) -> Steps[list[wire.TopicProduceResponse]]:
    return refused_by_topic(
        topics,
        lambda topic: topic.partition_data,
        lambda data: wire.PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1),
        lambda topic, made: wire.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=made
        ),
    )


def _closing(message: wire.ProduceRequest, refused: list[wire.TopicProduceResponse]) -> str | None:
    """Return the reason to close a connection after a denied Produce with acks=0; None for other acks."""
    if message.acks != 0:
        return None
    first = refused[0]
    code = ErrorCode(first.partition_responses[0].error_code) if first.partition_responses else TOPIC_DENIED
    return f"Produce with acks=0 failed: {first.name or first.topic_id.hex()}: {code.name}"


PRODUCE = BrokerApi(
    wire.ProduceRequest,
    produce,
    guard_produce,
    Cost(AnswerBound.REQUEST),
    names={"topic_data.name": NameKind.TOPIC, "topic_data.topic_id": NameKind.TOPIC_ID},
)
