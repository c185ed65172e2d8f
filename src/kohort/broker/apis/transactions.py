"""AddPartitionsToTxn (24) 0-5, AddOffsetsToTxn (25) 0-4, EndTxn (26) 0-5, TxnOffsetCommit (28) 0-6.
KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kohort.broker import authorization as auth
from kohort.broker.api import ONE_NAME, PARTITIONS, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.apis.offset_commit import guard_committed_topics
from kohort.broker.group_requests import group_request
from kohort.broker.leaders import check_coordinator, join_transaction
from kohort.broker.request import Answer, AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.coordinator.offsets.commit import refuse_commit
from kohort.coordinator.outcome import APPEND_ERRORS, GroupRequest
from kohort.coordinator.transactions.decide import WITH_NEW_EPOCHS
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import ProducerIdAndEpoch, TopicPartition
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages import transactions as wire

FIRST_WITH_PRODUCER_FENCED: Final = 2
FIRST_WITH_SEVERAL: Final = 4
FIRST_WITH_ABORTABLE: Final = 4
FIRST_THAT_ENDS_WITH_NEW_EPOCHS: Final = 5
FIRST_COMMIT_THAT_ADDS: Final = 5
FIRST_COMMIT_BY_TOPIC_ID: Final = 6
OLD_CLIENT: Final = 0
ITEM_US: Final = 2.5


def _code(error: KohortError, version: int) -> ErrorCode:
    """Return the code of an error; before request version 2, PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH."""
    code = refusal_of(error).code
    is_old = code is ErrorCode.PRODUCER_FENCED and version < FIRST_WITH_PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else code


def add_partitions_to_txn(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.AddPartitionsToTxnRequest = request.message
    pace = Pace()
    if request.version >= FIRST_WITH_SEVERAL:
        results = []
        for entry in message.transactions:
            by_topic = yield from _add_partitions(state, entry, request, pace)
            name = entry.transactional_id
            results.append(wire.AddPartitionsToTxnResult(transactional_id=name, topic_results=by_topic))
        return wire.AddPartitionsToTxnResponse(results_by_transaction=results)
    only = wire.AddPartitionsToTxnTransaction(
        transactional_id=message.v3_and_below_transactional_id,
        producer_id=message.v3_and_below_producer_id,
        producer_epoch=message.v3_and_below_producer_epoch,
        topics=message.v3_and_below_topics,
    )
    by_topic = yield from _add_partitions(state, only, request, pace)
    return wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=by_topic)


def _add_partitions(
    state: BrokerState, entry: wire.AddPartitionsToTxnTransaction, request: Request, pace: Pace
) -> Steps[list[wire.AddPartitionsToTxnTopicResult]]:
    """Add all requested partitions to the transaction, or no partition at all if one of them is rejected.

    ``verify_only``: only check the partitions. As in Kafka, producers cannot add partitions of internal topics; the
    broker adds partitions of ``__consumer_offsets``.
    """
    codes: dict[TopicPartition, ErrorCode] = {}
    is_refused = False
    for topic in entry.topics:
        is_denied = _is_denied(state, request, topic.name, verify_only=entry.verify_only)
        for p in topic.partitions:
            place = TopicPartition(topic.name, p)
            code = ErrorCode.NONE
            if is_denied:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif state.topics.log(*place) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_refused = is_refused or code is not ErrorCode.NONE
            codes.setdefault(place, code)
            if pace.is_due(ITEM_US):
                yield
    if is_refused:
        others = ErrorCode.OPERATION_NOT_ATTEMPTED
        return (yield from _by_topic(entry.topics, lambda place: codes[place] or others, pace))
    producer = ProducerIdAndEpoch(entry.producer_id, entry.producer_epoch)
    refusal = ErrorCode.NONE
    try:
        check_coordinator(state, entry.transactional_id, request.now_ms)
        if entry.verify_only:
            for place in codes:
                codes[place] = _verified(state, entry.transactional_id, producer, place)
                if pace.is_due(ITEM_US):
                    yield
        else:
            transactions = state.cluster.transactions
            transactions.add(entry.transactional_id, producer, list(codes), OLD_CLIENT, request.now_ms)
    except KohortError as error:
        refusal = _code(error, request.version)
    return (yield from _by_topic(entry.topics, lambda place: refusal or codes[place], pace))


def _is_denied(state: BrokerState, request: Request, topic: str, *, verify_only: bool) -> bool:
    """Return True if the client may not add the topic to a transaction; brokers may add any topic."""
    if not verify_only and topic in state.internal_topics:
        return True
    if request.version >= FIRST_WITH_SEVERAL:
        return False
    return not auth.Rights(state, request).may(Operation.WRITE, ResourceType.TOPIC, topic)


def _verified(
    state: BrokerState, transactional_id: str, producer: ProducerIdAndEpoch, place: TopicPartition
) -> ErrorCode:
    try:
        state.cluster.transactions.verify(transactional_id, producer, place)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def _by_topic(
    topics: Sequence[wire.AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode], pace: Pace
) -> Steps[list[wire.AddPartitionsToTxnTopicResult]]:
    told = []
    for topic in topics:
        partitions = []
        for p in topic.partitions:
            code = code_of(TopicPartition(topic.name, p))
            partitions.append(wire.AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code))
            if pace.is_due(ITEM_US):
                yield
        told.append(wire.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=partitions))
    return told


def add_offsets_to_txn(state: BrokerState, request: Request) -> Answer:
    message: wire.AddOffsetsToTxnRequest = request.message
    producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    try:
        check_coordinator(state, message.transactional_id, request.now_ms)
        place = _offsets_of(state, message.group_id, request.now_ms)
        transactions = state.cluster.transactions
        transactions.add(message.transactional_id, producer, [place], OLD_CLIENT, request.now_ms)
    except KohortError as error:
        return wire.AddOffsetsToTxnResponse(error_code=_code(error, request.version))
    return wire.AddOffsetsToTxnResponse()


def _offsets_of(state: BrokerState, group_id: str, now_ms: int) -> TopicPartition:
    state.offsets_topic.ensure(now_ms)
    return TopicPartition(state.offsets_topic.name, state.coordinator.partition_of(group_id))


def end_txn(state: BrokerState, request: Request) -> Answer:
    message: wire.EndTxnRequest = request.message
    producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    version = WITH_NEW_EPOCHS if request.version >= FIRST_THAT_ENDS_WITH_NEW_EPOCHS else OLD_CLIENT
    try:
        check_coordinator(state, message.transactional_id, request.now_ms)
        transactions = state.cluster.transactions
        after = transactions.end(message.transactional_id, producer, version, request.now_ms, commit=message.committed)
    except KohortError as error:
        return wire.EndTxnResponse(error_code=_code(error, request.version))
    ended = wire.EndTxnResponse(producer_id=after.producer_id, producer_epoch=after.epoch)
    refused = wire.EndTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return state.flushes.answer(request, transactions.take_unflushed(), ended, refused)


def txn_offset_commit(state: BrokerState, request: Request) -> Answer | AnswerInSteps:
    message: wire.TxnOffsetCommitRequest = request.message
    try:
        partition = _offsets_of(state, message.group_id, request.now_ms)
        if _names_a_partition(state, message, request.version):
            join_transaction(
                state,
                request,
                ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
                partition,
                adds=request.version >= FIRST_COMMIT_THAT_ADDS,
                knows_abortable=request.version >= FIRST_WITH_ABORTABLE,
            )
    except KohortError as error:
        code = refusal_of(error).code
        entry = GroupRequest(message, request.version, request.client_id, request.client_host, request.reply_to)
        return refuse_commit(entry, APPEND_ERRORS.get(code, code)).message
    return group_request(state, request)


def _names_a_partition(state: BrokerState, message: wire.TxnOffsetCommitRequest, version: int) -> bool:
    """Return True if the TxnOffsetCommit request names at least one existing partition."""
    by_id = version >= FIRST_COMMIT_BY_TOPIC_ID
    found = ((state.topics.by_id(t.topic_id) if by_id else state.topics.get(t.name), t) for t in message.topics)
    return any(
        0 <= p.partition_index < len(topic.partitions) for topic, t in found if topic is not None for p in t.partitions
    )


def guard_add_partitions(rights: auth.Rights) -> Steps[auth.GuardResult]:
    """Require WRITE on the transactional id, or CLUSTER_ACTION from AddPartitionsToTxn version 4 on.

    The handler checks the topics: if one topic is denied, no partition is added.
    """
    message: wire.AddPartitionsToTxnRequest = rights.request.message
    if rights.request.version >= FIRST_WITH_SEVERAL:
        if rights.may_on_cluster(Operation.CLUSTER_ACTION):
            return auth.PASSED
        return auth.GuardResult(wire.AddPartitionsToTxnResponse(error_code=auth.CLUSTER_DENIED))
    if _may_write(rights, message.v3_and_below_transactional_id):
        return auth.PASSED
    refused = yield from auth.refused_by_topic(
        message.v3_and_below_topics,
        lambda topic: topic.partitions,
        lambda p: wire.AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=auth.ID_DENIED),
        lambda topic, made: wire.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=made),
    )
    return auth.GuardResult(wire.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused))


def guard_add_offsets(rights: auth.Rights) -> auth.GuardResult:
    message: wire.AddOffsetsToTxnRequest = rights.request.message
    if not _may_write(rights, message.transactional_id):
        return auth.GuardResult(wire.AddOffsetsToTxnResponse(error_code=auth.ID_DENIED))
    if not rights.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return auth.GuardResult(wire.AddOffsetsToTxnResponse(error_code=auth.GROUP_DENIED))
    return auth.PASSED


def guard_commit_in_transaction(rights: auth.Rights) -> Steps[auth.GuardResult]:
    message: wire.TxnOffsetCommitRequest = rights.request.message
    denied = None
    if not _may_write(rights, message.transactional_id):
        denied = auth.ID_DENIED
    elif not rights.may(Operation.READ, ResourceType.GROUP, message.group_id):
        denied = auth.GROUP_DENIED
    if denied is not None:
        refused = yield from _not_committed(message.topics, denied)
        return auth.GuardResult(wire.TxnOffsetCommitResponse(topics=refused))
    by_id = rights.request.version >= FIRST_COMMIT_BY_TOPIC_ID
    return (yield from guard_committed_topics(rights, _not_committed, wire.TxnOffsetCommitResponse, by_id=by_id))


def _not_committed(
    topics: list[wire.TxnOffsetCommitRequestTopic], code: ErrorCode
) -> Steps[list[wire.TxnOffsetCommitResponseTopic]]:
    return auth.refused_by_topic(
        topics,
        lambda topic: topic.partitions,
        lambda p: wire.TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code),
        lambda topic, made: wire.TxnOffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=made
        ),
    )


def guard_end(rights: auth.Rights) -> auth.GuardResult:
    message: wire.EndTxnRequest = rights.request.message
    if _may_write(rights, message.transactional_id):
        return auth.PASSED
    return auth.GuardResult(wire.EndTxnResponse(error_code=auth.ID_DENIED))


def _may_write(rights: auth.Rights, transactional_id: str) -> bool:
    return rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


ADD_PARTITIONS_TO_TXN = BrokerApi(
    wire.AddPartitionsToTxnRequest,
    add_partitions_to_txn,
    guard_add_partitions,
    Cost(
        AnswerBound.REQUEST,
    ),
    names={
        "v3_and_below_transactional_id": NameKind.TRANSACTIONAL_ID,
        "v3_and_below_topics.name": NameKind.TOPIC,
        "transactions.transactional_id": NameKind.TRANSACTIONAL_ID,
        "transactions.topics.name": NameKind.TOPIC,
    },
)
ADD_OFFSETS_TO_TXN = BrokerApi(
    wire.AddOffsetsToTxnRequest,
    add_offsets_to_txn,
    guard_add_offsets,
    ONE_NAME,
    names={"transactional_id": NameKind.TRANSACTIONAL_ID, "group_id": NameKind.GROUP},
)
END_TXN = BrokerApi(
    wire.EndTxnRequest,
    end_txn,
    guard_end,
    Cost(AnswerBound.FIXED, one_step="markers are written later"),
    names={"transactional_id": NameKind.TRANSACTIONAL_ID},
)
TXN_OFFSET_COMMIT = BrokerApi(
    wire.TxnOffsetCommitRequest,
    txn_offset_commit,
    guard_commit_in_transaction,
    Cost(AnswerBound.REQUEST, parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True)),
    names={
        "transactional_id": NameKind.TRANSACTIONAL_ID,
        "group_id": NameKind.GROUP,
        "topics.name": NameKind.TOPIC,
        "topics.topic_id": NameKind.TOPIC_ID,
    },
)
