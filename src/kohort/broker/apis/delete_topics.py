"""DeleteTopics (20), versions 1-6, by topic name or, from version 6 on, by topic id (KIP-516).

Committed offsets of the topic are deleted, too. Deviation from Kafka: internal topics cannot be deleted.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import DENIAL_TEXTS, PASSED, TOPIC_DENIED, Denials, GuardResult, Rights, serve_allowed
from kohort.broker.cluster.nodes import TopicsRemoved
from kohort.broker.request import AnswerInSteps, Refusal, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topics import Topic, Topics
from kohort.model import NO_UUID
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import topics as wire

FIRST_VERSION_WITH_QUOTA_ERROR: Final = 5
NAME_US: Final = 0.6
FIND_US: Final = 5
ENTRY_US: Final = 1.5
FIRST_VERSION_WITH_IDS: Final = 6
ITEM_US: Final = 1
DELETED_AT_ONCE: Final = 2_000
"""Maximum number of topics deleted with one write of the topic catalogue, in about 15 ms."""


def delete_topics(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DeleteTopicsRequest = request.message
    entries = message.topics
    if request.version < FIRST_VERSION_WITH_IDS:
        entries = yield from each(message.topic_names, lambda name: wire.DeleteTopicState(name=name), NAME_US)
    pace = Pace()
    found: list[Topic | Refusal] = []
    names: dict[str, None] = {}
    last = Refusal(ErrorCode.NONE, "")
    """Error of the previous topic. Equal errors in sequence share one object: freeing a million objects is slow."""
    for one in entries:
        try:
            topic = _find(state, request, one)
            if topic.name in names:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
            state.quotas.change_partitions(
                request, len(topic.partitions), strict=request.version >= FIRST_VERSION_WITH_QUOTA_ERROR
            )
            names[topic.name] = None
            found.append(topic)
        except KohortError as error:
            refusal = refusal_of(error)
            last = last if refusal == last else refusal
            found.append(last)
        if pace.is_due(FIND_US):
            yield
    deleted_topics: list[Topic | ApiError] = []
    while some := list(islice(names, len(deleted_topics), len(deleted_topics) + DELETED_AT_ONCE)):
        if deleted_topics:
            yield
        deleted_topics += yield from state.topics.delete_all(some, request.now_ms)
    deleted = [topic for topic in deleted_topics if isinstance(topic, Topic)]
    if deleted:
        partitions = ((topic.topic_id, index) for topic in deleted for index in range(len(topic.partitions)))
        state.cluster.tell(TopicsRemoved(tuple(topic.name for topic in deleted), tuple(partitions)))
        if len(deleted) > DELETED_AT_ONCE:
            yield
    results = dict(zip(names, deleted_topics, strict=True))
    pairs = ((one, results[of.name] if isinstance(of, Topic) else of) for one, of in zip(entries, found, strict=True))
    return wire.DeleteTopicsResponse(responses=(yield from each(pairs, lambda pair: _response(*pair), ENTRY_US)))


def _response(entry: wire.DeleteTopicState, result: Topic | ApiError | Refusal) -> wire.DeletableTopicResult:
    if isinstance(result, Topic):
        return wire.DeletableTopicResult(name=result.name, topic_id=result.topic_id)
    return wire.DeletableTopicResult(
        name=entry.name, topic_id=entry.topic_id, error_code=result.code, error_message=result.message or None
    )


def _find(state: BrokerState, request: Request, entry: wire.DeleteTopicState) -> Topic:
    if not state.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if request.version >= 3 else ErrorCode.INVALID_REQUEST
        raise ApiError(code, "delete.topic.enable is false")
    if entry.name is not None and entry.topic_id != NO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "expected the name or the id of a topic, got both")
    if entry.name is None and entry.topic_id == NO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "expected the name or the id of a topic, got neither")
    topic = _requested(state.topics, entry)
    if topic is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if entry.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise ApiError(unknown, "the topic does not exist")
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is an internal topic")
    return topic


def guard_delete_topics(rights: Rights) -> Steps[GuardResult]:
    """Require DELETE on the cluster, or DESCRIBE and DELETE on each topic.

    Without DESCRIBE on a topic that is requested by id, the response does not reveal the topic's name.
    """
    message: wire.DeleteTopicsRequest = rights.request.message
    if not rights.state.config.delete_topic_enable or rights.may_on_cluster(Operation.DELETE, quietly=True):
        return PASSED
    by_name = rights.request.version < FIRST_VERSION_WITH_IDS
    entries = message.topics
    if by_name:
        entries = yield from each(message.topic_names, lambda name: wire.DeleteTopicState(name=name), NAME_US)
    seen, hidden = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, entries, lambda topic: _deleted_name(rights, topic)
    )
    allowed, kept = yield from rights.authorized(
        Operation.DELETE, ResourceType.TOPIC, seen, lambda topic: _existing_name(rights, topic)
    )
    if not hidden and not kept:
        return PASSED
    topics = rights.state.topics
    unnamed = yield from each(hidden, _not_deleted, ITEM_US)
    named = yield from each(kept, lambda topic: _not_deleted(_requested(topics, topic) or topic), ITEM_US)
    served: list[Any] = (yield from each(allowed, lambda topic: topic.name, NAME_US)) if by_name else allowed
    denials = Denials("topic_names" if by_name else "topics", "responses", [*unnamed, *named])
    return serve_allowed(rights, served, denials, wire.DeleteTopicsResponse)


def _requested(topics: Topics, entry: wire.DeleteTopicState) -> Topic | None:
    return topics.get(entry.name) if entry.name is not None else topics.by_id(entry.topic_id)


def _deleted_name(rights: Rights, topic: wire.DeleteTopicState) -> str | None:
    if topic.name is not None:
        return topic.name if topic.topic_id == NO_UUID else None
    return rights.topic_name(topic.topic_id)


def _existing_name(rights: Rights, topic: wire.DeleteTopicState) -> str | None:
    name = _deleted_name(rights, topic)
    return name if name is not None and name in rights.state.topics else None


def _not_deleted(topic: wire.DeleteTopicState | Topic) -> wire.DeletableTopicResult:
    text = DENIAL_TEXTS[TOPIC_DENIED]
    return wire.DeletableTopicResult(
        name=topic.name, topic_id=topic.topic_id, error_code=TOPIC_DENIED, error_message=text
    )


DELETE_TOPICS = BrokerApi(
    wire.DeleteTopicsRequest,
    delete_topics,
    guard_delete_topics,
    Cost(AnswerBound.REQUEST),
    names={"topics.name": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID, "topic_names": NameKind.TOPIC},
)
