"""Groups and their offsets, as administrative operations: each group is asked of its own coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kohort.client.admin.group_descriptions import described_classic_group, described_consumer_group
from kohort.client.admin.model import GroupDescription, GroupListing
from kohort.client.admin.operations import Ask, Operation, Pause, Results, passes
from kohort.client.admin.topics import ask_every_broker
from kohort.client.requests.find_coordinator import GROUP_KEY, WHAT, lookup_shape
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, KohortError, UnsupportedVersion, error_code
from kohort.model import NO_EPOCH, Node, OffsetAndMetadata, TopicPartition, by_topic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
)
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kohort.wire.schema import Message

V = TypeVar("V")
BY_NAME: Final = 9
"""The last version of OffsetCommit and OffsetFetch that names topics."""
BATCHED_GROUPS_FROM: Final = 8
DEAD: Final = "Dead"


@dataclass(slots=True)
class GroupCall:
    """How one API asks for one group, and what its answer says: an error code with its text, and the value."""

    request: Callable[[str], Message]
    read: Callable[[Any, str, int], tuple[int, str | None, Any]]
    shape: Callable[[Message, int], Message] | None = None
    max_version: int | None = None
    key_type: int = GROUP_KEY
    """What the names are to FindCoordinator: groups, or transactional ids."""
    otherwise: GroupCall | None = None
    """What is asked instead about groups that this API does not find, and where the broker does not serve it."""


def for_each_group(metadata: Metadata, groups: Iterable[str], call: GroupCall) -> Operation[Results[str, Any]]:
    """Ask each group's coordinator, all of them at once, and again those whose failure may pass."""
    results: Results[str, Any] = Results()
    pending = list(dict.fromkeys(groups))
    attempt = 0
    while pending:
        coordinators, again = yield from _find_coordinators(metadata, pending, results, call.key_type)
        found = list(coordinators.items())
        answered = yield from _ask_coordinators(found, call)
        for (group, _), (code, outcome) in zip(found, answered, strict=True):
            if not isinstance(outcome, KohortError):
                results.add(group, outcome)
            elif passes(code) or (not code and outcome.retriable and attempt == 0):
                again.append(group)
            else:
                results.refuse(group, outcome)
        pending = again
        attempt += 1
        if pending:
            yield Pause(attempt)
    return results


def _ask_coordinators(found: Sequence[tuple[str, int]], call: GroupCall) -> Operation[list[tuple[int, Any]]]:
    """Ask about each group the node beside it; return the error code of its answer, 0 if it has none, and the value or
    the error."""
    answers = yield [Ask(call.request(group), node, call.max_version, call.shape) for group, node in found]
    outcomes: list[tuple[int, Any]] = []
    for (group, node_id), answer in zip(found, answers, strict=True):
        if isinstance(answer, KohortError):
            outcomes.append((0, answer))
            continue
        code, text, value = call.read(answer, group, node_id)
        named = f"{WHAT[call.key_type]} {group!r}"
        outcomes.append((code, ApiError(error_code(code), named + (f": {text}" if text else "")) if code else value))
    if call.otherwise is not None:
        places = [
            i
            for i, (code, outcome) in enumerate(outcomes)
            if code == ErrorCode.GROUP_ID_NOT_FOUND or isinstance(outcome, UnsupportedVersion)
        ]
        others = yield from _ask_coordinators([found[i] for i in places], call.otherwise)
        for i, other in zip(places, others, strict=True):
            outcomes[i] = other
    return outcomes


def _find_coordinators(
    metadata: Metadata, groups: Sequence[str], results: Results[str, Any], key_type: int
) -> Operation[tuple[dict[str, int], list[str]]]:
    """Return the coordinator of each group, and the groups to try again; the hopeless go to ``results``."""
    answers = yield [Ask(FindCoordinatorRequest(key=g, key_type=key_type), shape=lookup_shape) for g in groups]
    coordinators: dict[str, int] = {}
    again: list[str] = []
    for group, answer in zip(groups, answers, strict=True):
        if isinstance(answer, KohortError):
            results.refuse(group, answer)
            continue
        assert isinstance(answer, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        code = error_code(found.error_code)
        if not found.error_code:
            metadata.learn_node(Node(found.node_id, found.host, found.port))
            coordinators[group] = found.node_id
        elif code.retriable:
            again.append(group)
        else:
            what = f"the coordinator of {WHAT[key_type]} {group!r}"
            text = f": {found.error_message}" if found.error_message else ""
            results.refuse(group, ApiError(code, f"{what}{text}"))
    return coordinators, again


def list_groups(metadata: Metadata, *, states: Sequence[str], types: Sequence[str]) -> Operation[list[GroupListing]]:
    """Return every group of the cluster, asked of every broker. Raises the error of a broker that does not tell."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answers = yield from ask_every_broker(metadata, request)
    found = [
        GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type, node_id)
        for node_id, answer in answers
        for g in answer.groups
    ]
    return sorted(found, key=lambda listing: listing.group_id)


def describe_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, GroupDescription]]:
    """Return groups with their members. A group that does not exist is GROUP_ID_NOT_FOUND, on old brokers too.

    Each is asked for as a group of KIP-848 first, and as a classic one where it is none: two requests for what most
    clusters have, and one for what they will have, as Java's client asks.
    """

    def read(answer: ConsumerGroupDescribeResponse, group: str, node_id: int) -> tuple[int, str | None, Any]:
        described = next(g for g in answer.groups if g.group_id == group)
        code = described.error_code
        return code, described.error_message, None if code else described_consumer_group(described, node_id)

    def read_classic(answer: DescribeGroupsResponse, group: str, node_id: int) -> tuple[int, str | None, Any]:
        described = next(g for g in answer.groups if g.group_id == group)
        code = described.error_code
        if not code and described.group_state == DEAD:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        return code, described.error_message, None if code else described_classic_group(described, node_id)

    classic = GroupCall(lambda g: DescribeGroupsRequest(groups=[g]), read_classic)
    call = GroupCall(lambda g: ConsumerGroupDescribeRequest(group_ids=[g]), read, otherwise=classic)
    return for_each_group(metadata, groups, call)


def delete_groups(metadata: Metadata, groups: Iterable[str]) -> Operation[Results[str, None]]:
    """Delete groups without members, and their offsets."""

    def read(answer: DeleteGroupsResponse, group: str, _node_id: int) -> tuple[int, str | None, Any]:
        result = next(r for r in answer.results if r.group_id == group)
        return result.error_code, result.error_message, None

    return for_each_group(metadata, groups, GroupCall(lambda g: DeleteGroupsRequest(groups_names=[g]), read))


def list_group_offsets(
    metadata: Metadata, group: str, partitions: Iterable[TopicPartition] | None
) -> Operation[Results[TopicPartition, OffsetAndMetadata | None]]:
    """Return what a group has committed, for ``partitions`` (None where nothing is) or, without them, for all it
    has."""
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]

    def request(group_id: str) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])

    def read(answer: OffsetFetchResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        return answer.groups[0].error_code if answer.groups else answer.error_code, None, _committed(answer)

    by_group = yield from for_each_group(metadata, [group], GroupCall(request, read, _one_group, BY_NAME))
    found: Results[TopicPartition, OffsetAndMetadata | None] = by_group[group]
    return found


def alter_group_offsets(
    metadata: Metadata, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Operation[Results[TopicPartition, None]]:
    """Commit offsets for a group that has no members: how consumers are moved."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[_to_commit(n, offsets[TopicPartition(topic, n)]) for n in numbers],
        )
        for topic, numbers in by_topic(offsets).items()
    ]

    def read(answer: OffsetCommitResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        results: Results[TopicPartition, None] = Results()
        for topic in answer.topics:
            for p in topic.partitions:
                results.add_or_refuse(TopicPartition(topic.name, p.partition_index), None, p.error_code)
        return _common_code(p.error_code for t in answer.topics for p in t.partitions), None, results

    call = GroupCall(lambda g: OffsetCommitRequest(group_id=g, topics=topics), read, max_version=BY_NAME)
    by_group = yield from for_each_group(metadata, [group], call)
    altered: Results[TopicPartition, None] = by_group[group]
    return altered


def delete_group_offsets(
    metadata: Metadata, group: str, partitions: Iterable[TopicPartition]
) -> Operation[Results[TopicPartition, None]]:
    """Forget what a group has committed for partitions of topics that it no longer reads."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in numbers]
        )
        for topic, numbers in by_topic(partitions).items()
    ]

    def read(answer: OffsetDeleteResponse, _group: str, _node_id: int) -> tuple[int, str | None, Any]:
        results: Results[TopicPartition, None] = Results()
        for topic in answer.topics:
            for p in topic.partitions:
                results.add_or_refuse(TopicPartition(topic.name, p.partition_index), None, p.error_code)
        return answer.error_code, None, results

    call = GroupCall(lambda g: OffsetDeleteRequest(group_id=g, topics=topics), read)
    by_group = yield from for_each_group(metadata, [group], call)
    deleted: Results[TopicPartition, None] = by_group[group]
    return deleted


def _one_group(request: Message, version: int) -> Message:
    """Ask for one group: from v8 groups come as a list, before it is one (KIP-709)."""
    assert isinstance(request, OffsetFetchRequest)
    if version >= BATCHED_GROUPS_FROM:
        return request
    group = request.groups[0]
    topics = None
    if group.topics is not None:
        topics = [OffsetFetchRequestTopic(name=t.name, partition_indexes=t.partition_indexes) for t in group.topics]
    return OffsetFetchRequest(group_id=group.group_id, topics=topics)


def _committed(answer: OffsetFetchResponse) -> Results[TopicPartition, OffsetAndMetadata | None]:
    results: Results[TopicPartition, OffsetAndMetadata | None] = Results()
    topics: Iterable[Any] = answer.groups[0].topics if answer.groups else answer.topics
    for topic in topics:
        for p in topic.partitions:
            epoch = max(p.committed_leader_epoch, NO_EPOCH)
            offset = OffsetAndMetadata(p.committed_offset, p.metadata or "", epoch) if p.committed_offset >= 0 else None
            results.add_or_refuse(TopicPartition(topic.name, p.partition_index), offset, p.error_code)
    return results


def _to_commit(partition: int, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _common_code(codes: Iterable[int]) -> int:
    """Return the error that every partition shares, if it speaks of the coordinator and may pass; else none."""
    distinct = set(codes)
    code = distinct.pop() if len(distinct) == 1 else 0
    return code if passes(code) else 0
