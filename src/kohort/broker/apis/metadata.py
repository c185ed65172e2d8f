"""Metadata (3), versions 0-13. KIP-516 (topic ids), KIP-430 (authorized operations).

Deviation from Kafka: the first response already describes an auto-created topic, where Kafka returns
UNKNOWN_TOPIC_OR_PARTITION until its controller is done (protocol/requests.md#topic-auto-creation). As in Kafka, each
topic is described once, and one request creates as many topics as CreateTopics may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import CHECK_US, PASSED, TOPIC_DENIED, Denials, GuardResult, Rights
from kohort.broker.cluster.placement import NO_LEADER, Placement
from kohort.broker.leaders import endpoints_of
from kohort.broker.request import AnswerInSteps, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.log.catalogue import PARTITIONS_MAX
from kohort.log.topic_names import check_topic_name
from kohort.log.topics import NewTopic, Topic
from kohort.model import NO_UUID
from kohort.security.acls import NOT_REQUESTED, Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import metadata as wire

FIRST_VERSION_WITH_LISTENER_NOT_FOUND: Final = 6
ITEM_US: Final = 1
REFUSE_US: Final = 6
PARTITION_US: Final = 4
FIRST_VERSION_WITHOUT_TOPICS: Final = 1
FIRST_VERSION_BY_ID: Final = 12
FIRST_VERSION_THAT_FORBIDS_CREATION: Final = 4
HIDE_US: Final = 2


def metadata(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.MetadataRequest = request.message
    cluster = state.cluster
    everything = message.topics is None or (request.version == 0 and not message.topics)
    topics: list[wire.MetadataResponseTopic] = []
    pace = Pace()
    if everything:
        for topic in list(state.topics):
            if not Rights(state, request).may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True):
                if pace.is_due(CHECK_US):
                    yield
                continue
            topics.append((yield from _describe(state, request, topic, pace)))
    else:
        once = yield from _once(message.topics or (), pace)
        failed = yield from _create_missing(state, request, once, pace)
        for requested in once:
            described = yield from _describe_requested(state, request, requested, failed, pace)
            topics.append(described)
    return wire.MetadataResponse(
        brokers=[
            wire.MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints_of(state, cluster.live, request.caller.listener)
        ],
        cluster_id=state.topics.cluster_id,
        controller_id=cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            Rights(state, request).operations_of_cluster()
            if message.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def _once(topics: Iterable[wire.MetadataRequestTopic], pace: Pace) -> Steps[list[wire.MetadataRequestTopic]]:
    seen: set[bytes | str | None] = set()
    once = []
    for requested in topics:
        key = requested.topic_id if requested.topic_id != NO_UUID else requested.name
        if key not in seen:
            seen.add(key)
            once.append(requested)
        if pace.is_due(ITEM_US):
            yield
    return once


def _create_missing(
    state: BrokerState, request: Request, once: Sequence[wire.MetadataRequestTopic], pace: Pace
) -> Steps[Mapping[str, KohortError]]:
    """Create the missing topics that a Metadata request names; return the errors as a dict: topic name to error.

    Creates topics only if both request and broker allow it, and only as many as one CreateTopics request may.
    """
    failed: dict[str, KohortError] = {}
    message: wire.MetadataRequest = request.message
    allowed = request.version < FIRST_VERSION_THAT_FORBIDS_CREATION or message.allow_auto_topic_creation
    if not (allowed and state.config.auto_create_topics_enable):
        return failed
    missing: list[NewTopic] = []
    for requested in once:
        name = requested.name or ""
        if requested.topic_id == NO_UUID and name not in state.topics:
            if name in state.internal_topics:
                try:
                    state.internal_topics[name](request.now_ms)
                except KohortError as error:
                    failed[name] = error
            elif len(missing) < PARTITIONS_MAX // state.config.num_partitions:
                missing.append(NewTopic(name, state.config.num_partitions, {}))
        if pace.is_due(ITEM_US):
            yield
    made = yield from state.topics.create_all(missing, request.now_ms)
    failed |= {new.name: result for new, result in zip(missing, made, strict=True) if isinstance(result, ApiError)}
    try:
        state.cluster.place_new([topic for topic in made if isinstance(topic, Topic)])
    except ApiError as error:
        failed |= dict.fromkeys((topic.name for topic in made if isinstance(topic, Topic)), error)
    return failed


def _describe_requested(
    state: BrokerState,
    request: Request,
    requested: wire.MetadataRequestTopic,
    failed: Mapping[str, KohortError],
    pace: Pace,
) -> Steps[wire.MetadataResponseTopic]:
    try:
        topic = _find(state, request, requested, failed)
    except KohortError as error:
        if pace.is_due(REFUSE_US):
            yield
        return wire.MetadataResponseTopic(
            error_code=refusal_of(error).code,
            name=requested.name if requested.name is not None or request.version >= FIRST_VERSION_BY_ID else "",
            topic_id=requested.topic_id,
            topic_authorized_operations=_operations(state, request, requested.name),
        )
    return (yield from _describe(state, request, topic, pace))


def _operations(state: BrokerState, request: Request, name: str | None) -> int:
    message: wire.MetadataRequest = request.message
    if not message.include_topic_authorized_operations:
        return NOT_REQUESTED
    return Rights(state, request).operations_of(ResourceType.TOPIC, name or "")


def _find(
    state: BrokerState, request: Request, requested: wire.MetadataRequestTopic, failed: Mapping[str, KohortError]
) -> Topic:
    if requested.topic_id != NO_UUID:
        if request.version < FIRST_VERSION_BY_ID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Metadata version {request.version} does not support topic ids, version {FIRST_VERSION_BY_ID} does",
            )
        topic = state.topics.by_id(requested.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
    name = requested.name or ""
    error, topic = failed.get(name), state.topics.get(name)
    if error is not None and not (isinstance(error, ApiError) and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
        raise error
    if topic is None:
        check_topic_name(name)  # as in Kafka, an invalid topic name has its own error, even without auto-creation
        # the topic is missing, or a concurrent request is creating it
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _describe(state: BrokerState, request: Request, topic: Topic, pace: Pace) -> Steps[wire.MetadataResponseTopic]:
    live = state.cluster.live_at(request.caller.listener)
    partitions = []
    for index, placed in enumerate(state.cluster.placements(topic)):
        partitions.append(_describe_partition(request, topic, index, placed, live))
        if pace.is_due(PARTITION_US):
            yield
    return wire.MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=_operations(state, request, topic.name),
    )


def _describe_partition(
    request: Request, topic: Topic, index: int, placed: Placement, live: set[int]
) -> wire.MetadataResponsePartition:
    """Describe a partition for a Metadata response; ``live``: nodes that the client can reach on its listener."""
    code = ErrorCode.NONE
    if placed.leader == NO_LEADER:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif placed.leader not in live:
        known = request.version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND
        code = ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE
    return wire.MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=placed.leader if placed.leader in live else NO_LEADER,
        leader_epoch=topic.partitions[index].leader_epoch,
        replica_nodes=placed.replicas,
        isr_nodes=placed.in_sync(live),
        offline_replicas=placed.offline(live),
    )


def guard_metadata(rights: Rights) -> Steps[GuardResult]:
    """Require DESCRIBE on each topic, and CREATE on each missing topic that the request would create."""
    message: wire.MetadataRequest = rights.request.message
    version = rights.request.version
    if message.topics is None or (version < FIRST_VERSION_WITHOUT_TOPICS and not message.topics):
        return PASSED  # request of all topics: the handler omits topics without DESCRIBE
    allowed, denied = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, message.topics, lambda topic: _name(rights, topic)
    )
    if rights.state.config.auto_create_topics_enable and (
        version < FIRST_VERSION_THAT_FORBIDS_CREATION or message.allow_auto_topic_creation
    ):
        allowed, not_made = yield from _creatable(rights, allowed)
        denied += not_made
    if not denied:
        return PASSED
    rights.replace_fields(topics=allowed)
    # in Metadata version 0 an empty list of topics means all topics
    rights.request.version = max(version, FIRST_VERSION_WITHOUT_TOPICS)
    once = yield from _once(denied, Pace(goes_on=True))
    refused = yield from each(once, lambda topic: _hidden(rights, topic), HIDE_US)
    return GuardResult(amend=Denials("topics", "topics", refused).add)


def _name(rights: Rights, topic: wire.MetadataRequestTopic) -> str | None:
    if topic.topic_id == NO_UUID:
        return topic.name
    return rights.topic_name(topic.topic_id) if rights.request.version >= FIRST_VERSION_BY_ID else None


def _creatable(
    rights: Rights, topics: list[wire.MetadataRequestTopic]
) -> Steps[tuple[list[wire.MetadataRequestTopic], list[wire.MetadataRequestTopic]]]:
    """Split requested topics: first those to describe or create, then missing topics that the client may not create."""
    known = rights.state.topics
    is_missing = [topic.topic_id == NO_UUID and topic.name is not None and topic.name not in known for topic in topics]
    if not any(is_missing) or rights.may_on_cluster(Operation.CREATE, quietly=True):
        return topics, []
    missing = [topic for topic, is_one in zip(topics, is_missing, strict=True) if is_one]
    made, not_made = yield from rights.authorized(Operation.CREATE, ResourceType.TOPIC, missing)
    there = [topic for topic, is_one in zip(topics, is_missing, strict=True) if not is_one]
    return there + made, not_made


def _hidden(rights: Rights, topic: wire.MetadataRequestTopic) -> wire.MetadataResponseTopic:
    """Build the Metadata entry of a topic without DESCRIBE; for a request by topic id, the entry has no name."""
    by_id = topic.topic_id != NO_UUID
    name = None if by_id else topic.name
    return wire.MetadataResponseTopic(
        error_code=TOPIC_DENIED,
        name=name if name is not None or rights.request.version >= FIRST_VERSION_BY_ID else "",
        topic_id=topic.topic_id if by_id else NO_UUID,
        is_internal=not by_id and topic.name in rights.state.internal_topics,
    )


METADATA = BrokerApi(
    wire.MetadataRequest,
    metadata,
    guard_metadata,
    Cost(AnswerBound.STATE),
    names={"topics.name": NameKind.TOPIC, "topics.topic_id": NameKind.TOPIC_ID},
)
