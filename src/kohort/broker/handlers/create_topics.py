"""CreateTopics (19), versions 2-7. KIP-464 (defaults), KIP-525 (the answer tells the configuration).

A replica is a node that may lead; a topic has as many as there are nodes up, at most. Assignments by hand name nodes.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.broker.topic_settings import topic_settings
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DEFAULT: Final = -1


def create_topics(state: BrokerState, request: Request) -> Answer:
    message: CreateTopicsRequest = request.message
    times = Counter(asked.name for asked in message.topics)
    results: list[CreatableTopicResult] = []
    for asked in message.topics:
        if times[asked.name] > 1:
            if all(r.name != asked.name for r in results):
                twice = ApiError(ErrorCode.INVALID_REQUEST, "the topic is named twice in one request")
                results.append(_refused(asked, twice))
            continue
        try:
            results.append(_create(state, asked, request.now_ms, validate_only=message.validate_only))
        except KohortError as error:
            results.append(_refused(asked, error))
    return CreateTopicsResponse(topics=results)


def _refused(asked: CreatableTopic, error: KohortError) -> CreatableTopicResult:
    refusal = refusal_of(error)
    return CreatableTopicResult(name=asked.name, error_code=refusal.code, error_message=refusal.message or None)


def _create(state: BrokerState, asked: CreatableTopic, now_ms: int, *, validate_only: bool) -> CreatableTopicResult:
    if asked.name in state.own_topics and asked.name not in state.topics:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{asked.name} belongs to the broker, which makes it itself")
    count = _partition_count(state, asked)
    assignments = [a.broker_ids for a in sorted(asked.assignments, key=lambda a: a.partition_index)]
    factor = len(assignments[0]) if assignments else state.cluster.check_replication(asked.replication_factor)
    overrides = {c.name: c.value for c in asked.configs}
    missing = [name for name, value in overrides.items() if value is None]
    if missing:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{', '.join(missing)}: a value is missing")
    if validate_only:
        config = state.topics.check_new(asked.name, count, overrides)
        topic_id = bytes(16)
    else:
        topic = state.topics.create(asked.name, count, overrides, now_ms)
        state.cluster.place(topic, factor, assignments)
        config, topic_id = topic.config, topic.topic_id
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=count,
        replication_factor=factor,
        configs=[
            CreatableTopicConfigs(name=s.name, value=s.value, config_source=s.source)
            for s in topic_settings(state.config, config, overrides)
        ],
    )


def _partition_count(state: BrokerState, asked: CreatableTopic) -> int:
    if not asked.assignments:
        return state.config.num_partitions if asked.num_partitions == DEFAULT else asked.num_partitions
    if asked.num_partitions != DEFAULT or asked.replication_factor != DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "an assignment by hand goes with partitions and replication factor of -1"
        )
    indexes = sorted(a.partition_index for a in asked.assignments)
    if indexes != list(range(len(indexes))):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions are numbered from 0 without gaps")
    for assignment in asked.assignments:
        state.cluster.check_assignment(assignment.broker_ids)
    if len({len(a.broker_ids) for a in asked.assignments}) > 1:
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions of one topic have as many replicas each")
    return len(indexes)
