"""Whether this node leads a partition, and who else does: what Produce, Fetch and their like ask first (KIP-951)."""

from __future__ import annotations

from kohort.broker.cluster.placement import NO_LEADER
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.log.partition import PartitionLog
from kohort.log.topics import Topic
from kohort.model import Node

TELLS_LEADER = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors beside which an answer names the leader."""


def check_leader(state: BrokerState, topic: Topic, index: int) -> None:
    """Raise ApiError NOT_LEADER_OR_FOLLOWER unless the partition, which exists, is led here."""
    if state.cluster.leader_of(topic, index) != state.node.node_id:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def check_leader_epoch(current_leader_epoch: int, log: PartitionLog) -> None:
    """Raise ApiError where a client knows another leader epoch than this (KIP-320); -1 is not checked."""
    if 0 <= current_leader_epoch != log.leader_epoch:
        behind = current_leader_epoch < log.leader_epoch
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if behind else ErrorCode.UNKNOWN_LEADER_EPOCH)


def topic_with(state: BrokerState, name: str, index: int) -> Topic:
    """Return the topic that has this partition, wherever it is led. Raises ApiError UNKNOWN_TOPIC_OR_PARTITION."""
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
    return topic


def led_log(state: BrokerState, name: str, index: int, *, current_leader_epoch: int = -1) -> PartitionLog:
    """Return the log of a partition that is led here. Raises ApiError with Kafka's code, in Kafka's order."""
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    log = topic.partitions[index]
    check_leader_epoch(current_leader_epoch, log)
    check_leader(state, topic, index)
    return log


def leader_now(state: BrokerState, topic: Topic | None, index: int) -> tuple[int, int]:
    """Return who leads, and in which epoch; (-1, -1) where there is no such partition."""
    if topic is None or not 0 <= index < len(topic.partitions):
        return NO_LEADER, -1
    return state.cluster.leader_of(topic, index), topic.partitions[index].leader_epoch


def endpoints_of(state: BrokerState, node_ids: set[int], listener: str) -> list[Node]:
    """Return where clients of a listener find these nodes."""
    known = state.cluster.nodes
    nodes = (known[node_id].at.get(listener) for node_id in sorted(node_ids) if node_id in known)
    return [node for node in nodes if node is not None]
