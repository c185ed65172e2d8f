"""Follow what other nodes of the cluster did (cluster/node_messages.py), and what it did to those who wait."""

from __future__ import annotations

from collections import deque

from kohort.broker.cluster.node_messages import (
    BrokerOptionsChanged,
    LeadersMoved,
    NodeMessage,
    PartitionAppended,
    TopicsGone,
    TransactionMarked,
)
from kohort.broker.group_requests import release
from kohort.broker.state import BrokerState
from kohort.coordinator.records import TransactionEnded


def follow(state: BrokerState, inbox: deque[NodeMessage], now_ms: int) -> bool:
    """Take note of what is in ``inbox``, in order; whether there was something."""
    messages = list(inbox)
    inbox.clear()
    for one in messages:
        match one:
            case BrokerOptionsChanged():
                state.reconfigure()
            case LeadersMoved(partitions=partitions):
                state.purgatory.changed(partitions)
                release(state, state.offsets_topic.follow(now_ms), now_ms)
            case TopicsGone(names=names, partitions=partitions):
                state.purgatory.changed(partitions)
                release(state, state.offsets_topic.load_rest(now_ms), now_ms)
                state.coordinator.topics_deleted(names, now_ms)
            case PartitionAppended(partition=partition, size=size):
                state.purgatory.appended(partition, size)
            case TransactionMarked(topic=topic, partition=partition):
                state.purgatory.changed([partition])
                if topic == state.offsets_topic.name:
                    ended = TransactionEnded(one.producer_id, one.committed)
                    state.coordinator.transaction_ended(partition[1], ended)
    return bool(messages)
