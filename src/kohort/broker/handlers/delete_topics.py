"""DeleteTopics (20), versions 1-6: by name, or by id from version 6 on (KIP-516).

Group offsets of the topic go with it. Deviation: the broker's own topics cannot be deleted.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.cluster.node_messages import TopicsGone
from kohort.broker.refusals import Refusal, refusal_of
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.topics import Topic
from kohort.model import NO_UUID
from kohort.steps import Pace, each
from kohort.wire.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

FIRST_VERSION_REFUSED: Final = 5
"""From which on a client is told that it changes too much (KIP-599)."""
NAME_US: Final = 0.6
FIND_US: Final = 5
TELL_US: Final = 1.5


def delete_topics(state: BrokerState, request: Request) -> AnswerInSteps:
    message: DeleteTopicsRequest = request.message
    asked = message.topics
    if request.version < 6:
        asked = yield from each(message.topic_names, lambda name: DeleteTopicState(name=name), NAME_US)
    pace = Pace()
    found: list[Topic | Refusal] = []
    names: dict[str, None] = {}
    last = Refusal(ErrorCode.NONE, "")
    """Kept once however often: a million take long to free."""
    for one in asked:
        try:
            topic = _find(state, request, one)
            if topic.name in names:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic")
            state.quotas.change_partitions(
                request, len(topic.partitions), strict=request.version >= FIRST_VERSION_REFUSED
            )
            names[topic.name] = None
            found.append(topic)
        except KohortError as error:
            refusal = refusal_of(error)
            last = last if refusal == last else refusal
            found.append(last)
        if pace.is_due(FIND_US):
            yield
    gone = yield from state.topics.delete_all(list(names), request.now_ms)
    deleted = [topic for topic in gone if isinstance(topic, Topic)]
    if deleted:
        partitions = ((topic.topic_id, index) for topic in deleted for index in range(len(topic.partitions)))
        state.cluster.tell(TopicsGone(tuple(topic.name for topic in deleted), tuple(partitions)))
    results = dict(zip(names, gone, strict=True))
    told = ((one, results[of.name] if isinstance(of, Topic) else of) for one, of in zip(asked, found, strict=True))
    return DeleteTopicsResponse(responses=(yield from each(told, lambda pair: _told(*pair), TELL_US)))


def _told(asked: DeleteTopicState, result: Topic | ApiError | Refusal) -> DeletableTopicResult:
    if isinstance(result, Topic):
        return DeletableTopicResult(name=result.name, topic_id=result.topic_id)
    return DeletableTopicResult(
        name=asked.name, topic_id=asked.topic_id, error_code=result.code, error_message=result.message or None
    )


def _find(state: BrokerState, request: Request, asked: DeleteTopicState) -> Topic:
    if not state.config.delete_topic_enable:
        code = ErrorCode.TOPIC_DELETION_DISABLED if request.version >= 3 else ErrorCode.INVALID_REQUEST
        raise ApiError(code, "delete.topic.enable is false")
    if asked.name is not None:
        if asked.topic_id != NO_UUID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
        topic, unknown = state.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif asked.topic_id == NO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "neither a name nor an id")
    else:
        topic, unknown = state.topics.by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None:
        raise ApiError(unknown, "there is no such topic")
    if topic.internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the broker")
    return topic
