"""CreatePartitions (37), versions 0-3: raise the number of partitions of a topic. KIP-195."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import TOPIC_DENIED, Denials, GuardResult, Rights, serve_allowed
from kohort.broker.request import NO_ERROR, AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.catalogue import PARTITIONS_MAX
from kohort.log.topics import Topic
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import topics as wire

CHECK_US: Final = 20
FIRST_VERSION_WITH_QUOTA_ERROR: Final = 3
ITEM_US: Final = 1


def create_partitions(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.CreatePartitionsRequest = request.message
    times = Counter(entry.name for entry in message.topics)
    results = []
    total = 0
    pace = Pace()
    seen: set[str] = set()
    for entry in message.topics:
        if pace.is_due(CHECK_US):
            yield
        if entry.name in seen:
            continue
        seen.add(entry.name)
        refusal = NO_ERROR
        try:
            if times[entry.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "duplicate topic in the request")
            topic = _check(state, entry)
            added = entry.count - len(topic.partitions)
            total += added
            if total > PARTITIONS_MAX:
                raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
            state.quotas.change_partitions(request, added, strict=request.version >= FIRST_VERSION_WITH_QUOTA_ERROR)
            if not message.validate_only:
                yield from _add(state, topic, entry, request.now_ms)
        except KohortError as error:
            refusal = refusal_of(error)
        results.append(wire.CreatePartitionsTopicResult(name=entry.name, **refusal.fields))
    return wire.CreatePartitionsResponse(results=results)


def _check(state: BrokerState, entry: wire.CreatePartitionsTopic) -> Topic:
    topic = state.topics.get(entry.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
    have = len(topic.partitions)
    if entry.count <= have:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"the topic has {have} partitions: the new number must be larger")
    if entry.assignments is not None:
        if len(entry.assignments) != entry.count - have:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"got {len(entry.assignments)} replica assignments for {entry.count - have} new partitions",
            )
        for assignment in entry.assignments:
            state.cluster.check_assignment(assignment.broker_ids)
    return topic


def _add(state: BrokerState, topic: Topic, entry: wire.CreatePartitionsTopic, now_ms: int) -> Steps[None]:
    present, factor = len(topic.partitions), len(state.cluster.placement(topic, 0).replicas)
    yield from state.topics.add_partitions_in_steps(entry.name, entry.count, now_ms)
    kept: list[list[int]] = [[]] * present
    named = [assignment.broker_ids for assignment in entry.assignments or ()]
    state.cluster.place_all([(topic, factor, kept + named if named else ())])


def guard_create_partitions(rights: Rights) -> Steps[GuardResult]:
    message: wire.CreatePartitionsRequest = rights.request.message
    times = Counter(topic.name for topic in message.topics)
    allowed, denied = yield from rights.authorized(
        Operation.ALTER,
        ResourceType.TOPIC,
        message.topics,
        lambda topic: topic.name if times[topic.name] == 1 else None,
    )
    refused = yield from each(
        denied, lambda topic: wire.CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_DENIED), ITEM_US
    )
    return serve_allowed(rights, allowed, Denials("topics", "results", refused), wire.CreatePartitionsResponse)


CREATE_PARTITIONS = BrokerApi(
    wire.CreatePartitionsRequest,
    create_partitions,
    guard_create_partitions,
    Cost(AnswerBound.REQUEST),
    names={"topics.name": NameKind.TOPIC},
)
