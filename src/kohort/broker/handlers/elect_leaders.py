"""ElectLeaders (43), versions 0-2: let the first replica lead again, or anyone where nobody does. KIP-183, KIP-460.

An unclean election loses nothing here, as the nodes share one storage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kohort.broker.cluster.placement import elect_any, elect_preferred
from kohort.broker.leaders import topic_with
from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.wire.messages.reassignments import (
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
)

PREFERRED: Final = 0
UNCLEAN: Final = 1


def elect_leaders(state: BrokerState, request: Request) -> Answer:
    message: ElectLeadersRequest = request.message
    kind = message.election_type if request.version >= 1 else PREFERRED
    if kind not in {PREFERRED, UNCLEAN}:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"election type {kind}")
    if message.topic_partitions is None:
        everything = [(topic.name, list(range(len(topic.partitions)))) for topic in state.topics]
        results = [(name, _elect_all(state, kind, name, indexes)) for name, indexes in everything]
        results = [(name, [r for r in of if r.error_code != ErrorCode.ELECTION_NOT_NEEDED]) for name, of in results]
        results = [(name, of) for name, of in results if of]
    else:
        results = [(t.topic, _elect_all(state, kind, t.topic, t.partitions)) for t in message.topic_partitions]
    return ElectLeadersResponse(
        replica_election_results=[ElectLeadersTopicResult(topic=name, partition_result=of) for name, of in results]
    )


def _elect_all(state: BrokerState, kind: int, name: str, indexes: list[int]) -> list[ElectLeadersPartitionResult]:
    return [_elect(state, kind, name, index) for index in indexes]


def _elect(state: BrokerState, kind: int, name: str, index: int) -> ElectLeadersPartitionResult:
    try:
        topic = topic_with(state, name, index)
        now = state.cluster.placement(topic, index)
        choose = elect_preferred if kind == PREFERRED else elect_any
        state.cluster.change(topic, index, replace(now, leader=choose(now, state.cluster.live)))
    except KohortError as error:
        refusal = refusal_of(error)
        return ElectLeadersPartitionResult(
            partition_id=index, error_code=refusal.code, error_message=refusal.message or None
        )
    return ElectLeadersPartitionResult(partition_id=index, error_message=None)
