"""What producers ask of their transactions, and what administrators ask about them: WRITE, and DESCRIBE, on the
transactional id; and the topics and groups that are part of it.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.guards.guard import (
    PASSED,
    REFUSE_US,
    Checking,
    Denials,
    Guarded,
    kept,
    refused_by_topic,
    without,
)
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListTransactionsResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
FIRST_ADD_FOR_BROKERS: Final = 4
FIRST_COMMIT_WITH_TOPIC_IDS: Final = 6
NO_ID: Final = -1


def guard_init_producer_id(checking: Checking) -> Guarded:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on some topic (KIP-679)."""
    message: InitProducerIdRequest = checking.request.message
    code = DENIED
    if message.transactional_id is not None:
        if _may_write(checking, message.transactional_id):
            return PASSED
    else:
        code = CLUSTER_DENIED
        if checking.may_on_cluster(Operation.IDEMPOTENT_WRITE, quietly=True) or checking.may_on_some(
            Operation.WRITE, ResourceType.TOPIC
        ):
            return PASSED
    return Guarded(InitProducerIdResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_ID))


def guard_add_partitions(checking: Checking) -> Steps[Guarded]:
    """WRITE on the transactional id; from version 4 on CLUSTER_ACTION. The topics are looked at in the handler, where
    one that is refused leaves all others undone."""
    message: AddPartitionsToTxnRequest = checking.request.message
    if checking.request.version >= FIRST_ADD_FOR_BROKERS:
        if checking.may_on_cluster(Operation.CLUSTER_ACTION):
            return PASSED
        return Guarded(AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED))
    if _may_write(checking, message.v3_and_below_transactional_id):
        return PASSED
    refused = yield from refused_by_topic(
        message.v3_and_below_topics,
        lambda topic: topic.partitions,
        lambda p: AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=DENIED),
        lambda topic, made: AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=made),
    )
    return Guarded(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=refused))


def guard_add_offsets(checking: Checking) -> Guarded:
    """WRITE on the transactional id, READ on the group."""
    message: AddOffsetsToTxnRequest = checking.request.message
    if not _may_write(checking, message.transactional_id):
        return Guarded(AddOffsetsToTxnResponse(error_code=DENIED))
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(AddOffsetsToTxnResponse(error_code=GROUP_DENIED))
    return PASSED


def guard_commit_in_transaction(checking: Checking) -> Steps[Guarded]:
    """WRITE on the transactional id, READ on the group and on each topic."""
    message: TxnOffsetCommitRequest = checking.request.message
    if not _may_write(checking, message.transactional_id):
        return Guarded(TxnOffsetCommitResponse(topics=(yield from _not_committed(message.topics, DENIED))))
    if not checking.may(Operation.READ, ResourceType.GROUP, message.group_id):
        return Guarded(TxnOffsetCommitResponse(topics=(yield from _not_committed(message.topics, GROUP_DENIED))))
    by_id = checking.request.version >= FIRST_COMMIT_WITH_TOPIC_IDS
    allowed, denied = yield from checking.sifted(
        Operation.READ,
        ResourceType.TOPIC,
        message.topics,
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    refused = yield from _not_committed(denied, TOPIC_DENIED)
    return without(checking, allowed, Denials("topics", "topics", refused), TxnOffsetCommitResponse)


def _not_committed(
    topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode
) -> Steps[list[TxnOffsetCommitResponseTopic]]:
    return refused_by_topic(
        topics,
        lambda topic: topic.partitions,
        lambda p: TxnOffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code),
        lambda topic, made: TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )


def guard_end(checking: Checking) -> Guarded:
    """WRITE on the transactional id."""
    message: EndTxnRequest = checking.request.message
    if _may_write(checking, message.transactional_id):
        return PASSED
    return Guarded(EndTxnResponse(error_code=DENIED))


def _may_write(checking: Checking, transactional_id: str) -> bool:
    return checking.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def guard_markers(checking: Checking) -> Steps[Guarded]:
    """ALTER or CLUSTER_ACTION on the cluster."""
    if checking.may_on_cluster(Operation.ALTER, quietly=True) or checking.may_on_cluster(Operation.CLUSTER_ACTION):
        return PASSED
    message: WriteTxnMarkersRequest = checking.request.message
    pace = Pace()
    markers = []
    for marker in message.markers:
        topics = yield from refused_by_topic(
            marker.topics,
            lambda topic: topic.partition_indexes,
            lambda p: WritableTxnMarkerPartitionResult(partition_index=p, error_code=CLUSTER_DENIED),
            lambda topic, made: WritableTxnMarkerTopicResult(name=topic.name, partitions=made),
        )
        markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
        if pace.is_due(REFUSE_US):
            yield
    return Guarded(WriteTxnMarkersResponse(markers=markers))


def guard_describe_transactions(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each transactional id; topics that the caller may not describe are left out of it."""
    message: DescribeTransactionsRequest = checking.request.message
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, message.transactional_ids, lambda name: name
    )
    refused = yield from each(
        denied, lambda name: DescribedTransaction(error_code=DENIED, transactional_id=name), REFUSE_US
    )
    if not allowed:
        return Guarded(DescribeTransactionsResponse(transaction_states=refused))
    checking.keep(transactional_ids=allowed)

    def amend(answer: DescribeTransactionsResponse) -> Steps[Message]:
        pace = Pace()
        for described in answer.transaction_states:
            described.topics[:] = yield from kept(
                described.topics,
                lambda topic: checking.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.topic, quietly=True),
            )
            if pace.is_due(REFUSE_US):
                yield
        answer.transaction_states.extend(refused)
        return answer

    return Guarded(amend=amend)


def guard_list_transactions(checking: Checking) -> Guarded:
    """DESCRIBE on each transactional id: others are left out."""

    def may_see(transactional_id: str) -> bool:
        return checking.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, quietly=True)

    def amend(answer: ListTransactionsResponse) -> Steps[Message]:
        answer.transaction_states[:] = yield from kept(
            answer.transaction_states, lambda listed: may_see(listed.transactional_id)
        )
        return answer

    return Guarded(amend=amend)
