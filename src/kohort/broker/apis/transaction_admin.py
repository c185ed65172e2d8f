"""DescribeTransactions (65) 0, ListTransactions (66) 0-2, WriteTxnMarkers (27) 1-2 (to end a hanging transaction).
KIP-664, KIP-994, KIP-1152.
"""

from __future__ import annotations

from typing import Any, Final

from kohort.broker import authorization as auth
from kohort.broker.api import TOO_LARGE, AnswerBound, BrokerApi, Cost, NameKind, Parts, identity
from kohort.broker.leaders import check_coordinator, led_log
from kohort.broker.request import Answer, AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.coordinator.transactions.states import NAMES
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition
from kohort.pattern import Pattern
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import transactions as wire
from kohort.wire.record_batch import Marker
from kohort.wire.schema import Message

LIST_US: Final = 6
PARTITIONS_IN_A_UNIT: Final = 25


def describe_transactions(state: BrokerState, request: Request) -> Answer:
    message: wire.DescribeTransactionsRequest = request.message
    found = [_describe(state, transactional_id, request.now_ms) for transactional_id in message.transactional_ids]
    return wire.DescribeTransactionsResponse(transaction_states=found)


def _describe(state: BrokerState, transactional_id: str, now_ms: int) -> wire.DescribedTransaction:
    try:
        check_coordinator(state, transactional_id, now_ms)
        known = state.cluster.transactions.get(transactional_id)
        if known is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except KohortError as error:
        return wire.DescribedTransaction(error_code=refusal_of(error).code, transactional_id=transactional_id)
    return wire.DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=known.state.value,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.moved(state.cluster.wall.ahead_ms).started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.epoch,
        topics=[wire.TransactionTopicData(topic=topic, partitions=ids) for topic, ids in known.by_topic.items()],
    )


def list_transactions(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ListTransactionsRequest = request.message
    transactions = state.cluster.transactions
    pattern = Pattern(message.transactional_id_pattern) if message.transactional_id_pattern else None
    topic = state.topics.get(transactions.name)
    led = range(len(topic.partitions)) if topic is not None else ()
    here = frozenset(p for p in led if topic is not None and state.cluster.leader_of(topic, p) == state.node.node_id)
    pace = Pace()
    states, producers = frozenset(message.state_filters), frozenset(message.producer_id_filters)
    found = []
    for known in (yield from transactions.of_partitions(here)):
        if (
            (not states or known.state.value in states)
            and (not producers or known.producer_id in producers)
            and (message.duration_filter < 0 or request.now_ms - known.started_ms > message.duration_filter)
            and (pattern is None or pattern.fullmatch(known.transactional_id))
        ):
            found.append(
                wire.ListedTransaction(
                    transactional_id=known.transactional_id,
                    producer_id=known.producer_id,
                    transaction_state=known.state.value,
                )
            )
        if pace.is_due(LIST_US):
            yield
    unknown = [name for name in message.state_filters if name not in NAMES]
    return wire.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def write_txn_markers(state: BrokerState, request: Request) -> Answer:
    """Write an administrator's transaction markers, to end hanging transactions.

    Without an authorizer, a marker on an internal topic must end an open transaction.
    """
    message: wire.WriteTxnMarkersRequest = request.message
    results = []
    for entry in message.markers:
        marker = Marker(entry.producer_id, entry.producer_epoch, entry.transaction_result, entry.coordinator_epoch)
        topics = [
            wire.WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    wire.WritableTxnMarkerPartitionResult(
                        partition_index=p,
                        error_code=_mark(state, TopicPartition(topic.name, p), marker, request.now_ms),
                    )
                    for p in topic.partition_indexes
                ],
            )
            for topic in entry.topics
        ]
        results.append(wire.WritableTxnMarkerResult(producer_id=entry.producer_id, topics=topics))
    return wire.WriteTxnMarkersResponse(markers=results)


def _mark(state: BrokerState, place: TopicPartition, marker: Marker, now_ms: int) -> ErrorCode:
    try:
        producers = led_log(state, place.topic, place.partition).producers
        is_guarded = place.topic in state.internal_topics and state.access is None
        if is_guarded and not producers.is_open(marker.producer_id):
            raise ApiError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{place.topic} is an internal topic without an open transaction of producer {marker.producer_id}",
            )
        producers.check_marker(marker)
        state.cluster.transactions.mark(place, marker, now_ms)
    except KohortError as error:
        return refusal_of(error).code
    return ErrorCode.NONE


def guard_markers(rights: auth.Rights) -> Steps[auth.GuardResult]:
    if rights.may_on_cluster(Operation.ALTER, quietly=True) or rights.may_on_cluster(Operation.CLUSTER_ACTION):
        return auth.PASSED
    message: wire.WriteTxnMarkersRequest = rights.request.message
    pace = Pace()
    markers = []
    for marker in message.markers:
        topics = yield from auth.refused_by_topic(
            marker.topics,
            lambda topic: topic.partition_indexes,
            lambda p: wire.WritableTxnMarkerPartitionResult(partition_index=p, error_code=auth.CLUSTER_DENIED),
            lambda topic, made: wire.WritableTxnMarkerTopicResult(name=topic.name, partitions=made),
        )
        markers.append(wire.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        if pace.is_due(auth.REFUSE_US):
            yield
    return auth.GuardResult(wire.WriteTxnMarkersResponse(markers=markers))


def guard_describe_transactions(rights: auth.Rights) -> Steps[auth.GuardResult]:
    """Require DESCRIBE on each transactional id; omit topics without DESCRIBE from the response."""
    message: wire.DescribeTransactionsRequest = rights.request.message
    allowed, denied = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, message.transactional_ids
    )
    refused = yield from each(
        denied, lambda name: wire.DescribedTransaction(error_code=auth.ID_DENIED, transactional_id=name), auth.REFUSE_US
    )
    if not allowed:
        return auth.GuardResult(wire.DescribeTransactionsResponse(transaction_states=refused))
    rights.replace_fields(transactional_ids=allowed)

    def amend(answer: wire.DescribeTransactionsResponse) -> Steps[Message]:
        pace = Pace()
        for described in answer.transaction_states:
            described.topics[:] = yield from auth.filter_visible(
                described.topics,
                lambda topic: rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quietly=True),
            )
            if pace.is_due(auth.REFUSE_US):
                yield
        answer.transaction_states.extend(refused)
        return answer

    return auth.GuardResult(amend=amend)


def guard_list_transactions(rights: auth.Rights) -> auth.GuardResult:
    def amend(answer: wire.ListTransactionsResponse) -> Steps[Message]:
        answer.transaction_states[:] = yield from auth.filter_visible(
            answer.transaction_states,
            lambda listed: rights.may(
                Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, listed.transactional_id, quietly=True
            ),
        )
        return answer

    return auth.GuardResult(amend=amend)


def refuse_transactions(request: Request, _message: str) -> wire.DescribeTransactionsResponse:
    entry: wire.DescribeTransactionsRequest = request.message
    return wire.DescribeTransactionsResponse(
        transaction_states=[
            wire.DescribedTransaction(error_code=TOO_LARGE, transactional_id=name) for name in entry.transactional_ids
        ]
    )


def partitions_of_transaction(state: BrokerState, chain: tuple[Any, ...]) -> int:
    known = state.cluster.transactions.get(chain[0])
    return 0 if known is None else len(known.partitions) // PARTITIONS_IN_A_UNIT


WRITE_TXN_MARKERS = BrokerApi(
    wire.WriteTxnMarkersRequest,
    write_txn_markers,
    guard_markers,
    Cost(
        AnswerBound.REQUEST,
        parts=Parts(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"), 50, writes=True),
    ),
    names={"markers.topics.name": NameKind.TOPIC},
)
DESCRIBE_TRANSACTIONS = BrokerApi(
    wire.DescribeTransactionsRequest,
    describe_transactions,
    guard_describe_transactions,
    Cost(
        AnswerBound.UNREAD,
        once=("transactional_ids", identity),
        parts=Parts(
            ("transactional_ids",),
            ("transaction_states",),
            500,
            extra_units=partitions_of_transaction,
            refuse=refuse_transactions,
        ),
    ),
    names={"transactional_ids": NameKind.TRANSACTIONAL_ID},
)
LIST_TRANSACTIONS = BrokerApi(
    wire.ListTransactionsRequest,
    list_transactions,
    guard_list_transactions,
    Cost(AnswerBound.STATE),
    names={"transactional_id_pattern": NameKind.PATTERN},
)
