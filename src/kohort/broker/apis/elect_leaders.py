"""ElectLeaders (43), versions 0-2: elect the preferred replica, or any live one. KIP-183, KIP-460.

An unclean election loses no records, as all nodes share one storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import guard_cluster, refused_by_topic
from kohort.broker.cluster.placement import elect_any, elect_preferred
from kohort.broker.leaders import topic_with
from kohort.broker.request import AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.security.acls import Operation
from kohort.steps import STEP_US, Pace, Steps
from kohort.wire.messages import reassignments as wire
from kohort.wire.schema import Message

PREFERRED: Final = 0
UNCLEAN: Final = 1
ELECT_US: Final = 10
WRITTEN_AT_ONCE: Final = 20


def elect_leaders(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ElectLeadersRequest = request.message
    kind = message.election_type if request.version >= 1 else PREFERRED
    if kind not in {PREFERRED, UNCLEAN}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"unknown election type {kind}, expected 0 (preferred) or 1 (unclean)"
        )
    everything = message.topic_partitions is None
    requested = message.topic_partitions or [
        wire.ElectLeadersTopic(topic=topic.name, partitions=list(range(len(topic.partitions))))
        for topic in state.topics
    ]
    results = []
    pace = Pace()
    for one in requested:
        of: list[wire.ElectLeadersPartitionResult] = []
        for at in range(0, len(one.partitions), WRITTEN_AT_ONCE):
            some = _elect(state, kind, one.topic, one.partitions[at : at + WRITTEN_AT_ONCE])
            changed = any(result.error_code == ErrorCode.NONE for result in some)
            of += [r for r in some if not everything or r.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            if pace.is_due(STEP_US if changed else ELECT_US * len(some)):
                yield
        if of or not everything:
            results.append(wire.ElectLeadersTopicResult(topic=one.topic, partition_result=of))
    return wire.ElectLeadersResponse(replica_election_results=results)


def _elect(state: BrokerState, kind: int, name: str, indexes: Sequence[int]) -> list[wire.ElectLeadersPartitionResult]:
    choose = elect_preferred if kind == PREFERRED else elect_any
    results, changes = [], []
    for index in indexes:
        try:
            topic = topic_with(state, name, index)
            now = state.cluster.placement(topic, index)
            changes.append((topic, index, replace(now, leader=choose(now, state.cluster.live))))
        except KohortError as error:
            results.append(_refused(index, error))
        else:
            results.append(wire.ElectLeadersPartitionResult(partition_id=index, error_message=None))
    try:
        state.cluster.change_all(changes)
    except KohortError as error:
        return [_refused(r.partition_id, error) if r.error_code == ErrorCode.NONE else r for r in results]
    return results


def _refused(index: int, error: KohortError) -> wire.ElectLeadersPartitionResult:
    return wire.ElectLeadersPartitionResult(partition_id=index, **refusal_of(error).fields)


def _not_elected(message: wire.ElectLeadersRequest, code: int, text: str) -> Steps[Message]:
    refused = yield from refused_by_topic(
        message.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda p: wire.ElectLeadersPartitionResult(partition_id=p, error_code=code, error_message=text),
        lambda topic, made: wire.ElectLeadersTopicResult(topic=topic.topic, partition_result=made),
    )
    return wire.ElectLeadersResponse(error_code=code, replica_election_results=refused)


ELECT_LEADERS = BrokerApi(
    wire.ElectLeadersRequest,
    elect_leaders,
    guard_cluster(Operation.ALTER, _not_elected),
    Cost(AnswerBound.REQUEST),
    names={"topic_partitions.topic": NameKind.TOPIC},
)
