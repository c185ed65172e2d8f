"""CreateTopics (19), versions 2-7. KIP-464 (defaults), KIP-525 (topic options in the response).

A replica is a node that may lead the partition. Manual assignments list node ids.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import CHECK_US as RIGHTS_US
from kohort.broker.authorization import TOPIC_DENIED, GuardResult, Rights
from kohort.broker.option_changes import levels_of_logs
from kohort.broker.request import AnswerInSteps, Refusal, Request, refusal_of
from kohort.broker.settings import topic_settings
from kohort.broker.state import BrokerState
from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.catalogue import PARTITIONS_MAX
from kohort.log.topics import NewTopic, Topic
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import topics as wire
from kohort.wire.schema import Message

DEFAULT: Final = -1
FIRST_VERSION_WITH_QUOTA_ERROR: Final = 6
COUNT_US: Final = 0.3
CHECK_US: Final = 20
ENTRY_US: Final = 500
"""Estimated microseconds to describe all options of one created topic."""
NO_CONFIGS: Final[list[wire.CreatableTopicConfigs]] = []
"""Empty list that the entries of all rejected topics share, to save memory; no code changes it."""
ITEM_US: Final = 1


def create_topics(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.CreateTopicsRequest = request.message
    if (yield from _is_excessive(state, message)):
        excess = ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        refused = yield from each(message.topics, lambda entry: _refused(entry.name, excess), CHECK_US)
        return wire.CreateTopicsResponse(topics=refused)
    times = Counter(entry.name for entry in message.topics)
    results: list[wire.CreatableTopicResult] = []
    seen: set[str] = set()
    valid: dict[int, _Wanted] = {}
    """Topics to create, as a dict: index of the entry in ``results`` to topic."""
    pace = Pace()
    for entry in message.topics:
        if entry.name not in seen:
            seen.add(entry.name)
            try:
                if times[entry.name] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "duplicate topic in the request")
                want = _check(state, entry)
                _count(state, request, want)
                if message.validate_only:
                    results.append(_accepted(state, want, state.topics.check_new(want.new), bytes(16)))
                else:
                    valid[len(results)] = want
                    results.append(wire.CreatableTopicResult(name=entry.name))
            except KohortError as error:
                results.append(_refused(entry.name, error))
                if pace.is_due(ENTRY_US):
                    yield
        if pace.is_due(ENTRY_US if message.validate_only else CHECK_US):
            yield
    made = yield from _create(state, list(valid.values()), pace, request.now_ms)
    for place, result in zip(valid, made, strict=True):
        results[place] = result
    return wire.CreateTopicsResponse(topics=results)


def _is_excessive(state: BrokerState, message: wire.CreateTopicsRequest) -> Steps[bool]:
    """Return True if the request creates more partitions than Kafka allows in one request."""
    total = 0
    pace = Pace()
    for entry in message.topics:
        if entry.assignments:
            total += len(entry.assignments)
        else:
            total += state.config.num_partitions if entry.num_partitions == DEFAULT else max(entry.num_partitions, 0)
        if total > PARTITIONS_MAX:
            return True
        if pace.is_due(COUNT_US):
            yield
    return False


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Topic to create: its entry in a CreateTopics request passed the checks."""

    new: NewTopic
    factor: int
    assignments: list[list[int]]


def _refused(name: str, error: KohortError) -> wire.CreatableTopicResult:
    return wire.CreatableTopicResult(name=name, configs=NO_CONFIGS, **refusal_of(error).fields)


def _check(state: BrokerState, entry: wire.CreatableTopic) -> _Wanted:
    if entry.name in state.internal_topics and entry.name not in state.topics:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{entry.name} is an internal topic: the broker creates it")
    count = _partition_count(state, entry)
    assignments = [a.broker_ids for a in sorted(entry.assignments, key=lambda a: a.partition_index)]
    factor = len(assignments[0]) if assignments else state.cluster.check_replication(entry.replication_factor)
    overrides = {c.name: c.value for c in entry.configs}
    missing = [name for name, value in overrides.items() if value is None]
    if missing:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"options without a value: {', '.join(missing)}")
    return _Wanted(NewTopic(entry.name, count, overrides), factor, assignments)


def _count(state: BrokerState, request: Request, want: _Wanted) -> None:
    """Count a new topic's partitions for the client's mutation quota. Raises ApiError if the quota is exceeded."""
    if state.quotas.in_flight:
        state.topics.check_new(want.new)
        state.quotas.change_partitions(
            request, want.new.partitions, strict=request.version >= FIRST_VERSION_WITH_QUOTA_ERROR
        )


def _create(
    state: BrokerState, valid: list[_Wanted], pace: Pace, now_ms: int
) -> Steps[list[wire.CreatableTopicResult]]:
    made = yield from state.topics.create_all([want.new for want in valid], now_ms)
    there = [(topic, want) for topic, want in zip(made, valid, strict=True) if isinstance(topic, Topic)]
    unplaced: Refusal | None = None
    try:
        state.cluster.place_all([(topic, want.factor, want.assignments) for topic, want in there])
    except ApiError as error:
        unplaced = refusal_of(error)
    results = []
    for topic, want in zip(made, valid, strict=True):
        if isinstance(topic, ApiError):
            results.append(_refused(want.new.name, topic))
        elif unplaced is not None:
            results.append(wire.CreatableTopicResult(name=topic.name, **unplaced.fields))
        else:
            results.append(_accepted(state, want, topic.config, topic.topic_id))
        if pace.is_due(ENTRY_US):
            yield
    return results


def _accepted(state: BrokerState, want: _Wanted, config: TopicConfig, topic_id: bytes) -> wire.CreatableTopicResult:
    return wire.CreatableTopicResult(
        name=want.new.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=want.new.partitions,
        replication_factor=want.factor,
        configs=[
            wire.CreatableTopicConfigs(name=s.name, value=s.value, config_source=s.source)
            for s in topic_settings(levels_of_logs(state), config, want.new.overrides)
        ],
    )


def _partition_count(state: BrokerState, entry: wire.CreatableTopic) -> int:
    if not entry.assignments:
        return state.config.num_partitions if entry.num_partitions == DEFAULT else entry.num_partitions
    if entry.num_partitions != DEFAULT or entry.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "manual replica assignments need num_partitions=-1 and replication_factor=-1"
        )
    indexes = sorted(a.partition_index for a in entry.assignments)
    if indexes != list(range(len(indexes))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"replica assignments: expected partitions 0 to {len(indexes) - 1}, got {indexes}",
        )
    for assignment in entry.assignments:
        state.cluster.check_assignment(assignment.broker_ids)
    if len({len(a.broker_ids) for a in entry.assignments}) > 1:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "all partitions of a topic must have the same number of replicas"
        )
    return len(indexes)


def guard_create_topics(rights: Rights) -> Steps[GuardResult]:
    """Require CREATE on the cluster or on each topic; omit options from the response without DESCRIBE_CONFIGS.

    The handler rejects duplicate topics.
    """
    message: wire.CreateTopicsRequest = rights.request.message
    refused: list[wire.CreatableTopicResult] = []
    allowed = message.topics
    if not rights.may_on_cluster(Operation.CREATE, quietly=True):
        times = Counter(topic.name for topic in message.topics)
        allowed, denied = yield from rights.authorized(
            Operation.CREATE,
            ResourceType.TOPIC,
            message.topics,
            lambda topic: topic.name if times[topic.name] == 1 else None,
        )
        refused = yield from each(
            denied,
            lambda topic: wire.CreatableTopicResult(
                name=topic.name, error_code=TOPIC_DENIED, error_message="Authorization failed."
            ),
            ITEM_US,
        )
    if not allowed:
        return GuardResult(wire.CreateTopicsResponse(topics=refused))
    rights.replace_fields(topics=allowed)

    def amend(answer: wire.CreateTopicsResponse) -> Steps[Message]:
        pace = Pace()
        for topic in answer.topics:
            if not topic.error_code and not rights.may(
                Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quietly=True
            ):
                _hide(topic)
            if pace.is_due(RIGHTS_US):
                yield
        answer.topics.extend(refused)
        return answer

    return GuardResult(amend=amend)


def _hide(topic: wire.CreatableTopicResult) -> None:
    hidden = {"topic_config_error_code": TOPIC_DENIED, "num_partitions": -1, "replication_factor": -1, "configs": []}
    for field, value in hidden.items():
        setattr(topic, field, value)


CREATE_TOPICS = BrokerApi(wire.CreateTopicsRequest, create_topics, guard_create_topics, Cost(AnswerBound.REQUEST))
