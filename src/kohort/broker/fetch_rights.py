"""Which topics of a Fetch its caller may not read: READ on each, or CLUSTER_ACTION for a replica."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kohort.broker.authorization import may, may_on_cluster
from kohort.broker.fetch_sessions import SessionPartition, TopicKey
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.messages.fetch import FetchRequest

LOOK_US: Final = 0.3


def denied_topics(
    state: BrokerState, request: Request, wanted: Sequence[SessionPartition]
) -> Steps[frozenset[TopicKey]]:
    """Return those of the topics that may not be read; of an id that no topic has, the reader hears just that."""
    message: FetchRequest = request.message
    is_replica = max(message.replica_id, message.replica_state.replica_id) >= 0
    if is_replica and may_on_cluster(state, request, Operation.CLUSTER_ACTION):
        return frozenset()
    pace = Pace()
    known: dict[TopicKey, bool] = {}
    for one in wanted:
        if one.topic not in known:
            known[one.topic] = _may_read(state, request, one.topic, is_replica=is_replica)
        if pace.is_due(LOOK_US):
            yield
    return frozenset(key for key, is_allowed in known.items() if not is_allowed)


def _may_read(state: BrokerState, request: Request, key: TopicKey, *, is_replica: bool) -> bool:
    if isinstance(key, bytes):
        topic = state.topics.by_id(key)
        if topic is None:
            return True
        key = topic.name
    return not is_replica and may(state, request, Operation.READ, ResourceType.TOPIC, key)
