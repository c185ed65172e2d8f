"""OffsetFetch (9), versions 1-10: committed offsets, of several groups from version 8 on (KIP-709), by topic id from
version 10 on. The decision is in ``kohort.coordinator``."""

from __future__ import annotations

from typing import Any, Final

from kohort.broker.api import PARTITIONS, TOO_LARGE, AnswerBound, BrokerApi, Cost, Noun, Parts
from kohort.broker.authorization import GROUP_DENIED, PASSED, TOPIC_DENIED, Checking, Guarded, refused_by_topic, visible
from kohort.broker.group_requests import group_refusal, group_request
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.coordinator.offsets.fetch import FIRST_WITH_GROUPS
from kohort.security.acls import Operation, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import offsets as wire
from kohort.wire.schema import Message

FIRST_WITH_TOPIC_IDS: Final = 10
LOOK_US: Final = 1.5


def guard_offset_fetch(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each group and topic; where all offsets of a group are asked for, others are left out."""
    if checking.request.version < FIRST_WITH_GROUPS:
        return (yield from _guard_fetch_of_one(checking))
    message: wire.OffsetFetchRequest = checking.request.message
    groups, refused_groups = yield from checking.authorized(
        Operation.DESCRIBE, ResourceType.GROUP, message.groups, lambda group: group.group_id
    )
    pace = Pace()
    left: list[wire.OffsetFetchRequestGroup] = []
    added: list[list[wire.OffsetFetchResponseTopics] | None] = []
    """For each group that is left what is added to its answer; None where all topics are asked for."""
    for group in groups:
        if group.topics is None:
            left.append(group)
            added.append(None)
            continue
        one, refused = yield from _authorized_topics(checking, group)
        left.append(one)
        added.append(refused)
        if pace.is_due(LOOK_US):
            yield
    told = yield from each(
        refused_groups,
        lambda group: wire.OffsetFetchResponseGroup(group_id=group.group_id, error_code=GROUP_DENIED),
        LOOK_US,
    )
    if not left:
        return Guarded(wire.OffsetFetchResponse(groups=told))
    checking.keep(groups=left)

    def amend(answer: wire.OffsetFetchResponse) -> Steps[Message]:
        for group, refused in zip(answer.groups, added, strict=False):
            if refused is None:
                yield from _leave_out(checking, group.topics)
            elif not group.error_code:
                group.topics.extend(refused)
            if pace.is_due(LOOK_US):
                yield
        answer.groups.extend(told)
        return answer

    return Guarded(amend=amend)


def _authorized_topics(
    checking: Checking, group: wire.OffsetFetchRequestGroup
) -> Steps[tuple[wire.OffsetFetchRequestGroup, list[wire.OffsetFetchResponseTopics]]]:
    by_id = checking.request.version >= FIRST_WITH_TOPIC_IDS
    allowed, denied = yield from checking.authorized(
        Operation.DESCRIBE,
        ResourceType.TOPIC,
        group.topics or [],
        (lambda topic: checking.topic_name(topic.topic_id)) if by_id else (lambda topic: topic.name),
    )
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partition_indexes,
        lambda p: wire.OffsetFetchResponsePartitions(
            partition_index=p, committed_offset=-1, metadata="", error_code=TOPIC_DENIED
        ),
        lambda topic, made: wire.OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=made),
    )
    if not denied:
        return group, refused
    one = wire.OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=allowed
    )
    return one, refused


def _guard_fetch_of_one(checking: Checking) -> Steps[Guarded]:
    message: wire.OffsetFetchRequest = checking.request.message
    if not checking.may(Operation.DESCRIBE, ResourceType.GROUP, message.group_id):
        return Guarded(group_refusal(checking, GROUP_DENIED))
    if message.topics is None:

        def leave_out(answer: wire.OffsetFetchResponse) -> Steps[Message]:
            yield from _leave_out(checking, answer.topics)
            return answer

        return Guarded(amend=leave_out)
    allowed, denied = yield from checking.authorized(
        Operation.DESCRIBE, ResourceType.TOPIC, message.topics, lambda topic: topic.name
    )
    if not denied:
        return PASSED
    refused = yield from refused_by_topic(
        denied,
        lambda topic: topic.partition_indexes,
        lambda p: wire.OffsetFetchResponsePartition(
            partition_index=p, committed_offset=-1, metadata="", error_code=TOPIC_DENIED
        ),
        lambda topic, made: wire.OffsetFetchResponseTopic(name=topic.name, partitions=made),
    )
    checking.keep(topics=allowed)

    def amend(answer: wire.OffsetFetchResponse) -> Message:
        if not answer.error_code:
            answer.topics.extend(refused)
        return answer

    return Guarded(amend=amend)


def _leave_out(checking: Checking, topics: list[Any]) -> Steps[None]:
    topics[:] = yield from visible(
        topics, lambda topic: checking.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
    )


def offsets_of_group(state: BrokerState, chain: tuple[Any, ...]) -> int:
    """Weigh the offsets of a group in a request for all of its offsets."""
    if len(chain) > 1 or chain[0].topics is not None:
        return 0
    offsets = state.coordinator.committed(chain[0].group_id)
    return 0 if offsets is None else len(offsets)


def refuse_offsets(request: Request, _message: str) -> wire.OffsetFetchResponse:
    """Refuse each partition; a group without partitions in the request as a whole."""
    asked: wire.OffsetFetchRequest = request.message
    if request.version < FIRST_WITH_GROUPS:
        return wire.OffsetFetchResponse(
            topics=[
                wire.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        wire.OffsetFetchResponsePartition(
                            partition_index=p, committed_offset=-1, metadata="", error_code=TOO_LARGE
                        )
                        for p in topic.partition_indexes
                    ],
                )
                for topic in asked.topics or ()
            ]
        )
    return wire.OffsetFetchResponse(
        groups=[
            wire.OffsetFetchResponseGroup(group_id=group.group_id, error_code=TOO_LARGE)
            if group.topics is None
            else wire.OffsetFetchResponseGroup(
                group_id=group.group_id,
                topics=[
                    wire.OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[
                            wire.OffsetFetchResponsePartitions(
                                partition_index=p, committed_offset=-1, metadata="", error_code=TOO_LARGE
                            )
                            for p in topic.partition_indexes
                        ],
                    )
                    for topic in group.topics
                ],
            )
            for group in asked.groups
        ]
    )


def _all_offsets(group: Any) -> tuple[Any, ...] | None:
    return (group.group_id, group.member_id, group.member_epoch) if group.topics is None else None


OFFSET_FETCH = BrokerApi(
    wire.OffsetFetchRequest,
    group_request,
    guard_offset_fetch,
    Cost(
        AnswerBound.UNREAD,
        {
            "group_id": Noun.GROUP,
            "topics.name": Noun.TOPIC,
            "groups.group_id": Noun.GROUP,
            "groups.topics.name": Noun.TOPIC,
            "groups.topics.topic_id": Noun.TOPIC_ID,
        },
        once=("groups", _all_offsets),
        parts=Parts(
            ("groups", "topics", "partition_indexes"),
            ("groups", "topics", "partitions"),
            1_000,
            brings=offsets_of_group,
            refuse=refuse_offsets,
        ),
        older_parts=(
            FIRST_WITH_GROUPS,
            Parts(("topics", "partition_indexes"), PARTITIONS, 1_000, refuse=refuse_offsets),
        ),
    ),
)
