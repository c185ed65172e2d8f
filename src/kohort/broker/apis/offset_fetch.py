"""OffsetFetch (9), versions 1-10, several groups from version 8 on (KIP-709), topic ids from version 10 on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kohort.broker.api import PARTITIONS, TOO_LARGE, AnswerBound, BrokerApi, Cost, NameKind, Parts
from kohort.broker.authorization import (
    GROUP_DENIED,
    PASSED,
    TOPIC_DENIED,
    GuardResult,
    Rights,
    filter_visible,
    refused_by_topic,
)
from kohort.broker.group_requests import group_refusal, group_request
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.coordinator.offsets.fetch import FIRST_WITH_GROUPS
from kohort.errors import ErrorCode
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, at_once, each
from kohort.wire.messages import offsets as wire
from kohort.wire.schema import Message

FIRST_WITH_TOPIC_IDS: Final = 10
ITEM_US: Final = 1.5


def guard_offset_fetch(rights: Rights) -> Steps[GuardResult]:
    """Require DESCRIBE on each group and topic; a response with all topics omits topics without DESCRIBE."""
    if rights.request.version < FIRST_WITH_GROUPS:
        return (yield from _guard_fetch_of_one(rights))
    message: wire.OffsetFetchRequest = rights.request.message
    groups, refused_groups = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.GROUP, message.groups, lambda group: group.group_id
    )
    pace = Pace()
    left: list[wire.OffsetFetchRequestGroup] = []
    added: list[list[wire.OffsetFetchResponseTopics] | None] = []
    """Error entries for the denied topics of each allowed group; None for a group of which all topics are requested."""
    for group in groups:
        one, refused = (group, None) if group.topics is None else (yield from _authorized_topics(rights, group))
        left.append(one)
        added.append(refused)
        if pace.is_due(ITEM_US):
            yield
    refused_entries = yield from each(
        refused_groups,
        lambda group: wire.OffsetFetchResponseGroup(group_id=group.group_id, error_code=GROUP_DENIED),
        ITEM_US,
    )
    if not left:
        return GuardResult(wire.OffsetFetchResponse(groups=refused_entries))
    rights.replace_fields(groups=left)

    def amend(answer: wire.OffsetFetchResponse) -> Steps[Message]:
        for group, refused in zip(answer.groups, added, strict=False):
            if refused is None:
                yield from _leave_out(rights, group.topics)
            elif not group.error_code:
                group.topics.extend(refused)
            if pace.is_due(ITEM_US):
                yield
        answer.groups.extend(refused_entries)
        return answer

    return GuardResult(amend=amend)


def _authorized_topics(
    rights: Rights, group: wire.OffsetFetchRequestGroup
) -> Steps[tuple[wire.OffsetFetchRequestGroup, list[wire.OffsetFetchResponseTopics]]]:
    by_id = rights.request.version >= FIRST_WITH_TOPIC_IDS
    allowed, denied = yield from rights.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, group.topics or [], by_id=by_id
    )
    refused = yield from _refused_topics(denied, TOPIC_DENIED)
    if not denied:
        return group, refused
    one = wire.OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=allowed
    )
    return one, refused


def _guard_fetch_of_one(rights: Rights) -> Steps[GuardResult]:
    message: wire.OffsetFetchRequest = rights.request.message
    if not rights.may(Operation.DESCRIBE, ResourceType.GROUP, message.group_id):
        return GuardResult(group_refusal(rights, GROUP_DENIED))
    if message.topics is None:

        def leave_out(answer: wire.OffsetFetchResponse) -> Steps[Message]:
            yield from _leave_out(rights, answer.topics)
            return answer

        return GuardResult(amend=leave_out)
    allowed, denied = yield from rights.authorized(Operation.DESCRIBE, ResourceType.TOPIC, message.topics)
    if not denied:
        return PASSED
    refused = yield from _refused_topics(denied, TOPIC_DENIED, of_one_group=True)
    rights.replace_fields(topics=allowed)

    def amend(answer: wire.OffsetFetchResponse) -> Message:
        if not answer.error_code:
            answer.topics.extend(refused)
        return answer

    return GuardResult(amend=amend)


def _leave_out(rights: Rights, topics: list[Any]) -> Steps[None]:
    topics[:] = yield from filter_visible(
        topics, lambda topic: rights.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
    )


def offsets_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    if len(chain) > 1 or chain[0].topics is not None:
        return 0
    offsets = state.coordinator.committed(chain[0].group_id)
    return 0 if offsets is None else len(offsets)


def _refused_topics(topics: Iterable[Any], code: ErrorCode, *, of_one_group: bool = False) -> Steps[list[Any]]:
    topic_type, partition_type = (
        (wire.OffsetFetchResponseTopic, wire.OffsetFetchResponsePartition)
        if of_one_group
        else (wire.OffsetFetchResponseTopics, wire.OffsetFetchResponsePartitions)
    )

    def entry(topic: Any, partitions: list[Any]) -> Message:
        made: Message = topic_type(name=topic.name, partitions=partitions)
        if not of_one_group:
            setattr(made, "topic_id", topic.topic_id)  # noqa: B010 - frozen for the type checker alone
        return made

    return refused_by_topic(
        topics,
        lambda topic: topic.partition_indexes,
        lambda p: partition_type(partition_index=p, committed_offset=-1, metadata="", error_code=code),
        entry,
    )


def refuse_offsets(request: Request, _message: str) -> wire.OffsetFetchResponse:
    """Build an OffsetFetch error response.

    Each listed partition has the error. A group that lists no topics (requests all offsets) has it as a whole.
    """
    message: wire.OffsetFetchRequest = request.message
    if request.version < FIRST_WITH_GROUPS:
        topics = at_once(_refused_topics(message.topics or (), TOO_LARGE, of_one_group=True))
        return wire.OffsetFetchResponse(topics=topics)
    groups = []
    for group in message.groups:
        code = TOO_LARGE if group.topics is None else ErrorCode.NONE
        topics = at_once(_refused_topics(group.topics or (), TOO_LARGE))
        groups.append(wire.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code, topics=topics))
    return wire.OffsetFetchResponse(groups=groups)


def _all_offsets(group: Any) -> tuple[Any, ...] | None:
    return (group.group_id, group.member_id, group.member_epoch) if group.topics is None else None


OFFSET_FETCH = BrokerApi(
    wire.OffsetFetchRequest,
    group_request,
    guard_offset_fetch,
    Cost(
        AnswerBound.UNREAD,
        once=("groups", _all_offsets),
        parts=Parts(
            ("groups", "topics", "partition_indexes"),
            ("groups", "topics", "partitions"),
            1_000,
            extra_units=offsets_of_group,
            refuse=refuse_offsets,
        ),
        older_parts=(
            FIRST_WITH_GROUPS,
            Parts(("topics", "partition_indexes"), PARTITIONS, 1_000, refuse=refuse_offsets),
        ),
    ),
    names={
        "group_id": NameKind.GROUP,
        "topics.name": NameKind.TOPIC,
        "groups.group_id": NameKind.GROUP,
        "groups.topics.name": NameKind.TOPIC,
        "groups.topics.topic_id": NameKind.TOPIC_ID,
    },
)
