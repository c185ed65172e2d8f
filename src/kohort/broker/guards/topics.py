"""Metadata, CreateTopics, DeleteTopics, CreatePartitions: what topics there are."""

from __future__ import annotations

from typing import Final

from kohort.broker.authorization import CHECK_US
from kohort.broker.guards.guard import PASSED, Checking, Denials, Guarded, without
from kohort.errors import ErrorCode
from kohort.model import NO_UUID
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, SpreadDict, Steps, counted, each, emptied
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from kohort.wire.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
WORDS: Final = "Topic authorization failed."
CREATION_WORDS: Final = "Authorization failed."
FIRST_METADATA_THAT_MAY_ASK_FOR_NOTHING: Final = 1
FIRST_METADATA_BY_ID: Final = 12
FIRST_METADATA_THAT_FORBIDS_CREATION: Final = 4
FIRST_DELETE_WITH_IDS: Final = 6
LOOK_US: Final = 1
NAME_US: Final = 0.6
HIDE_US: Final = 2


def guard_metadata(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each topic; on those that would be made, CREATE too. What is not named is left out."""
    message: MetadataRequest = checking.request.message
    version = checking.request.version
    if message.topics is None or (version < FIRST_METADATA_THAT_MAY_ASK_FOR_NOTHING and not message.topics):
        return PASSED  # the handler leaves out what may not be seen
    allowed, denied = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.TOPIC, message.topics, lambda topic: _name(checking, topic)
    )
    if checking.state.config.auto_create_topics_enable and (
        version < FIRST_METADATA_THAT_FORBIDS_CREATION or message.allow_auto_topic_creation
    ):
        allowed, not_made = yield from _creatable(checking, allowed)
        denied += not_made
    if not denied:
        return PASSED
    checking.keep(topics=allowed)
    checking.request.version = max(version, FIRST_METADATA_THAT_MAY_ASK_FOR_NOTHING)  # in 0 nothing left means all
    refused = yield from _not_described(checking, denied)
    yield from emptied(denied, Pace(goes_on=True))
    return Guarded(amend=Denials("topics", "topics", refused).add)


def _name(checking: Checking, topic: MetadataRequestTopic) -> str | None:
    if topic.topic_id == NO_UUID:
        return topic.name
    return checking.topic_name(topic.topic_id) if checking.request.version >= FIRST_METADATA_BY_ID else None


def _creatable(
    checking: Checking, topics: list[MetadataRequestTopic]
) -> Steps[tuple[list[MetadataRequestTopic], list[MetadataRequestTopic]]]:
    """Take away the topics that are not there and that the caller may not make."""
    known = checking.state.topics
    is_missing = [topic.topic_id == NO_UUID and topic.name is not None and topic.name not in known for topic in topics]
    if not any(is_missing) or checking.may_on_cluster(Operation.CREATE, quietly=True):
        return topics, []
    missing = [topic for topic, is_one in zip(topics, is_missing, strict=True) if is_one]
    made, not_made = yield from checking.sifted(Operation.CREATE, ResourceType.TOPIC, missing, lambda topic: topic.name)
    there = [topic for topic, is_one in zip(topics, is_missing, strict=True) if not is_one]
    return there + made, not_made


def _not_described(checking: Checking, topics: list[MetadataRequestTopic]) -> Steps[list[MetadataResponseTopic]]:
    """Return what is said of topics that may not be described, of each once."""
    pace = Pace(goes_on=True)
    seen: SpreadDict[bytes | str | None, None] = SpreadDict()
    told = []
    for topic in topics:
        if seen.add(topic.topic_id if topic.topic_id != NO_UUID else topic.name, None):
            told.append(_hidden(checking, topic))
        if pace.is_due(HIDE_US):
            yield
    yield from seen.let_go(pace)
    return told


def _hidden(checking: Checking, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return what is said of a topic that may not be described: by its id, never by its name."""
    by_id = topic.topic_id != NO_UUID
    name = None if by_id else topic.name
    return MetadataResponseTopic(
        error_code=DENIED,
        name=name if name is not None or checking.request.version >= FIRST_METADATA_BY_ID else "",
        topic_id=topic.topic_id if by_id else NO_UUID,
        is_internal=not by_id and topic.name in checking.state.own_topics,
    )


def guard_create_topics(checking: Checking) -> Steps[Guarded]:
    """CREATE on the cluster, or on each topic; and DESCRIBE_CONFIGS to be told the options of what was made.

    What is named twice is refused for that.
    """
    message: CreateTopicsRequest = checking.request.message
    refused: list[CreatableTopicResult] = []
    allowed = message.topics
    if not checking.may_on_cluster(Operation.CREATE, quietly=True):
        times = yield from counted(topic.name for topic in message.topics)
        allowed, denied = yield from checking.sifted(
            Operation.CREATE,
            ResourceType.TOPIC,
            message.topics,
            lambda topic: topic.name if times.part(topic.name)[topic.name] == 1 else None,
        )
        yield from times.let_go(Pace())
        refused = yield from each(denied, lambda topic: _not_created(topic.name), LOOK_US)

    if not allowed:
        return Guarded(CreateTopicsResponse(topics=refused))
    checking.keep(topics=allowed)

    def amend(answer: CreateTopicsResponse) -> Steps[Message]:
        pace = Pace()
        for topic in answer.topics:
            if not topic.error_code and not checking.may(
                Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, quietly=True
            ):
                _hide(topic)
            if pace.is_due(CHECK_US):
                yield
        answer.topics.extend(refused)
        return answer

    return Guarded(amend=amend)


def _not_created(name: str) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=DENIED, error_message=CREATION_WORDS)


def _hide(topic: CreatableTopicResult) -> None:
    """Take away what only DESCRIBE_CONFIGS lets one see."""
    for field, value in {
        "topic_config_error_code": DENIED,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }.items():
        setattr(topic, field, value)


def guard_create_partitions(checking: Checking) -> Steps[Guarded]:
    """ALTER on each topic; what is named twice is refused for that."""
    message: CreatePartitionsRequest = checking.request.message
    times = yield from counted(topic.name for topic in message.topics)
    allowed, denied = yield from checking.sifted(
        Operation.ALTER,
        ResourceType.TOPIC,
        message.topics,
        lambda topic: topic.name if times.part(topic.name)[topic.name] == 1 else None,
    )
    yield from times.let_go(Pace())
    told = yield from each(
        denied, lambda topic: CreatePartitionsTopicResult(name=topic.name, error_code=DENIED), LOOK_US
    )
    return without(checking, allowed, Denials("topics", "results", told), CreatePartitionsResponse)


def guard_delete_topics(checking: Checking) -> Steps[Guarded]:
    """DELETE on the cluster, or DESCRIBE and DELETE on each topic. A topic that is only named by its id has no name for
    who may not describe it."""
    message: DeleteTopicsRequest = checking.request.message
    if not checking.state.config.delete_topic_enable or checking.may_on_cluster(Operation.DELETE, quietly=True):
        return PASSED
    by_name = checking.request.version < FIRST_DELETE_WITH_IDS
    asked = message.topics
    if by_name:
        asked = yield from each(message.topic_names, lambda name: DeleteTopicState(name=name), NAME_US)
    seen, hidden = yield from checking.sifted(
        Operation.DESCRIBE, ResourceType.TOPIC, asked, lambda topic: _deleted_name(checking, topic)
    )
    allowed, kept = yield from checking.sifted(
        Operation.DELETE, ResourceType.TOPIC, seen, lambda topic: _existing_name(checking, topic)
    )
    if not hidden and not kept:
        yield from _forget(asked if by_name else [], seen, allowed)
        return PASSED
    unnamed = yield from each(hidden, lambda topic: _not_deleted(topic.name, topic.topic_id), LOOK_US)
    named = yield from each(kept, lambda topic: _named(checking, topic), LOOK_US)
    told = [*unnamed, *named]
    if by_name:
        names = yield from each(allowed, lambda topic: topic.name, NAME_US)
        yield from _forget(asked, seen, hidden, allowed, kept)
        return without(checking, names, Denials("topic_names", "responses", told), DeleteTopicsResponse)
    return without(checking, allowed, Denials("topics", "responses", told), DeleteTopicsResponse)


def _forget(made: list[DeleteTopicState], *others: list[DeleteTopicState]) -> Steps[None]:
    """Free in steps what was made for names: a million at once would hold up everybody."""
    for other in others if made else ():
        other.clear()
    yield from emptied(made, Pace())


def _named(checking: Checking, topic: DeleteTopicState) -> DeletableTopicResult:
    """Return what is said of a topic that may be described, and not deleted."""
    topics = checking.state.topics
    there = topics.get(topic.name) if topic.name is not None else topics.by_id(topic.topic_id)
    if there is None:
        return _not_deleted(topic.name, topic.topic_id)
    return _not_deleted(there.name, there.topic_id)


def _deleted_name(checking: Checking, topic: DeleteTopicState) -> str | None:
    """Return whose name is asked for; None where the request says nothing sensible."""
    if topic.name is not None:
        return topic.name if topic.topic_id == NO_UUID else None
    return checking.topic_name(topic.topic_id)


def _existing_name(checking: Checking, topic: DeleteTopicState) -> str | None:
    """Return the same for a topic that exists: of others it is told that they do not."""
    name = _deleted_name(checking, topic)
    return name if name is not None and name in checking.state.topics else None


def _not_deleted(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=DENIED, error_message=WORDS)
