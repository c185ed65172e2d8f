"""Admin operations on leaders and replicas: elections, reassignments, sizes of logs (KIP-113, KIP-455, KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from kohort.client.admin.model import LogDirDescription, Reassignment
from kohort.client.admin.operations import Operation, Results, results_of
from kohort.client.admin.topics import ask_every_broker, to_controller
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode, error_code
from kohort.model import TopicPartition
from kohort.wire.messages import log_dirs
from kohort.wire.messages import reassignments as wire
from kohort.wire.schema import Message

PREFERRED = 0
UNCLEAN = 1


def elect_leaders(
    metadata: Metadata, partitions: Iterable[TopicPartition] | None, *, unclean: bool, timeout_ms: int
) -> Operation[Results[TopicPartition, None]]:
    topics = None
    if partitions is not None:
        topics = [
            wire.ElectLeadersTopic(topic=topic, partitions=[tp.partition for tp in of])
            for topic, of in groupby(sorted(set(partitions)), key=lambda tp: tp.topic)
        ]
    request = wire.ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED, topic_partitions=topics, timeout_ms=timeout_ms
    )
    response: wire.ElectLeadersResponse = yield from to_controller(
        metadata, request, lambda r: [r.error_code], _as_preferred
    )
    _check(response.error_code, "the election")
    return results_of(
        (TopicPartition(topic.topic, p.partition_id), None, p.error_code, p.error_message)
        for topic in response.replica_election_results
        for p in topic.partition_result
    )


def reassign_partitions(
    metadata: Metadata, targets: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: int
) -> Operation[Results[TopicPartition, None]]:
    topics = [
        wire.ReassignableTopic(
            name=topic,
            partitions=[
                wire.ReassignablePartition(partition_index=tp.partition, replicas=None if to is None else list(to))
                for tp, to in of
            ],
        )
        for topic, of in groupby(sorted(targets.items(), key=lambda item: item[0]), key=lambda item: item[0].topic)
    ]
    request = wire.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)
    response: wire.AlterPartitionReassignmentsResponse = yield from to_controller(
        metadata, request, lambda r: [r.error_code]
    )
    _check(response.error_code, response.error_message or "the reassignment")
    return results_of(
        (TopicPartition(topic.name, p.partition_index), None, p.error_code, p.error_message)
        for topic in response.responses
        for p in topic.partitions
    )


def list_reassignments(metadata: Metadata, *, timeout_ms: int) -> Operation[dict[TopicPartition, Reassignment]]:
    request = wire.ListPartitionReassignmentsRequest(topics=None, timeout_ms=timeout_ms)
    response: wire.ListPartitionReassignmentsResponse = yield from to_controller(
        metadata, request, lambda r: [r.error_code]
    )
    _check(response.error_code, response.error_message or "the list of reassignments")
    return {
        TopicPartition(topic.name, p.partition_index): Reassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in response.topics
        for p in topic.partitions
    }


def describe_log_dirs(
    metadata: Metadata, partitions: Iterable[TopicPartition] | None
) -> Operation[Results[int, list[LogDirDescription]]]:
    topics = None
    if partitions is not None:
        topics = [
            log_dirs.DescribableLogDirTopic(topic=topic, partitions=[tp.partition for tp in of])
            for topic, of in groupby(sorted(set(partitions)), key=lambda tp: tp.topic)
        ]
    answers = yield from ask_every_broker(metadata, log_dirs.DescribeLogDirsRequest(topics=topics))
    found: Results[int, list[LogDirDescription]] = Results()
    for node_id in answers:
        if node_id in answers.errors:
            found.refuse(node_id, answers.errors[node_id])
        elif not answers[node_id].results:  # versions 1 and 2 return no error code for a missing ACL
            found.refuse(node_id, ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"the log directories of {node_id}"))
        else:
            found.add(node_id, [_log_dir(result) for result in answers[node_id].results])
    return found


def _log_dir(result: log_dirs.DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        path=result.log_dir,
        sizes={
            TopicPartition(topic.name, p.partition_index): p.partition_size
            for topic in result.topics
            for p in topic.partitions
            if not p.is_future_key
        },
        total_bytes=None if result.total_bytes < 0 else result.total_bytes,
        usable_bytes=None if result.usable_bytes < 0 else result.usable_bytes,
        error=ApiError(error_code(result.error_code), result.log_dir) if result.error_code else None,
    )


def _check(code: int, what: str) -> None:
    if code:
        raise ApiError(error_code(code), what)


def _as_preferred(request: Message, version: int) -> Message:
    """Rewrite an ElectLeaders request for version 0, which can only elect preferred leaders.

    Raises ApiError for an unclean election.
    """
    assert isinstance(request, wire.ElectLeadersRequest)
    if version >= 1 or request.election_type == PREFERRED:
        return request
    raise ApiError(
        ErrorCode.UNSUPPORTED_VERSION, "unclean leader elections need ElectLeaders version 1 (Kafka 2.4 or later)"
    )
