"""Checks before records are read or written: leader of the partition, transaction that contains the partition.

Some errors name the leader (KIP-951). A client of transaction version 2 adds a partition to its transaction by writing
to the partition; an older client must add the partition before it writes (KIP-890). So no record arrives after the end
of its transaction.
"""

from __future__ import annotations

from kohort.broker.cluster.placement import NO_LEADER
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.coordinator.transactions.decide import WITH_NEW_EPOCHS
from kohort.errors import ApiError, ErrorCode
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topic
from kohort.model import Node, ProducerIdAndEpoch, TopicPartition

TELLS_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Error codes whose responses name the partition's leader (KIP-951)."""


def check_leader(state: BrokerState, topic: Topic, index: int) -> None:
    """Raise NOT_LEADER_OR_FOLLOWER unless this node leads the partition."""
    if state.cluster.leader_of(topic, index) != state.node.node_id:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def check_leader_epoch(current_leader_epoch: int, log: PartitionLog) -> None:
    """Raise ApiError if the client expects a different leader epoch (KIP-320); -1 means any epoch."""
    if 0 <= current_leader_epoch != log.leader_epoch:
        behind = current_leader_epoch < log.leader_epoch
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH)


def topic_with(state: BrokerState, name: str, index: int) -> Topic:
    """Return the topic that has partition ``index``. Raises UNKNOWN_TOPIC_OR_PARTITION."""
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {name}-{index} does not exist")
    return topic


def led_log(state: BrokerState, name: str, index: int, *, current_leader_epoch: int = -1) -> PartitionLog:
    """Return the log of a partition that this node leads. Raises ApiError; the checks are in Kafka's order."""
    topic = topic_with(state, name, index)
    log = topic.partitions[index]
    check_leader_epoch(current_leader_epoch, log)
    check_leader(state, topic, index)
    return log


def leader_now(state: BrokerState, topic: Topic | None, index: int) -> tuple[int, int]:
    """Return node id and epoch of a partition's leader, (-1, -1) for an unknown partition."""
    if topic is None or not 0 <= index < len(topic.partitions):
        return NO_LEADER, -1
    return state.cluster.leader_of(topic, index), topic.partitions[index].leader_epoch


def endpoints_of(state: BrokerState, node_ids: set[int], listener: str) -> list[Node]:
    known = state.cluster.nodes
    nodes = (known[node_id].at.get(listener) for node_id in sorted(node_ids) if node_id in known)
    return [node for node in nodes if node is not None]


def transaction_coordinator(state: BrokerState, transactional_id: str, now_ms: int) -> int:
    transactions = state.cluster.transactions
    return state.cluster.leader_of(transactions.ensure(now_ms), transactions.partition_of(transactional_id))


def check_coordinator(state: BrokerState, transactional_id: str, now_ms: int) -> None:
    """Raise ApiError if this node is not the coordinator of the transactional id, or the id is empty."""
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    if transaction_coordinator(state, transactional_id, now_ms) != state.node.node_id:
        raise ApiError(ErrorCode.NOT_COORDINATOR, f"another node coordinates {transactional_id!r}")


def join_transaction(
    state: BrokerState,
    request: Request,
    producer: ProducerIdAndEpoch,
    partition: TopicPartition,
    *,
    adds: bool,
    knows_abortable: bool,
) -> None:
    """Add a partition to a producer's open transaction, or without ``adds`` check that the transaction contains it.

    Raises ApiError with the code for Produce and TxnOffsetCommit. ``knows_abortable``: the request's version has the
    error TRANSACTION_ABORTABLE.
    """
    transactional_id = request.message.transactional_id
    if not transactional_id:
        refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        raise ApiError(refused, "a transactional batch needs a transactional id in the request")
    transactions = state.cluster.transactions
    try:
        if adds:
            transactions.add(transactional_id, producer, [partition], WITH_NEW_EPOCHS, request.now_ms)
        else:
            transactions.verify(transactional_id, producer, partition)
    except ApiError as error:
        code = error.code
        if code is ErrorCode.PRODUCER_FENCED:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        elif code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
            code = ErrorCode.INVALID_TXN_STATE
        elif code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE) and not adds:
            # clients that do not know TRANSACTION_ABORTABLE retry after NOT_ENOUGH_REPLICAS
            code = ErrorCode.NOT_ENOUGH_REPLICAS
        raise ApiError(code, error.message) from error
