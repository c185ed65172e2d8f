"""A scripted broker that is the coordinator of a consumer group (KIP-848) with one member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.model import TopicPartition
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort_lab.machines.scripted import SILENCE, Answer
from support.machines.consumer_stage import User, tp
from support.machines.scripted_group import ScriptedGroup, fetch_answer

INTERVAL_MS = 5000
PARTITIONS = 4
Heartbeat = ConsumerGroupHeartbeatRequest


def id_of(topic: str) -> bytes:
    return topic.encode() * 16


class ScriptedCoordinator(ScriptedGroup):
    """Coordinator with topics of one letter and four partitions each. ``assign`` sets the next target assignment.

    ``epoch``: member epoch in the next responses. ``hidden``: topics that are not in metadata yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 1
        self.error_message = "it says so"
        self.topics = {"t", "u"}
        self.hidden: set[str] = set()
        self._target = "t-0"
        self._is_target_new = False
        self.one.features = {"group.version": 1}
        self.one.on(Heartbeat, self._answering(Heartbeat, self.on_beat))

    def member(self, topics: str | Sequence[str] = "t", **options: Any) -> User:
        """Return a consumer with the consumer protocol."""
        return self.user(topics, group_id="g", group_protocol="consumer", **options)

    def joined(self, **options: Any) -> User:
        """Return a consumer that owns its target assignment."""
        user = self.member(**options)
        self.until(lambda: user.membership.is_stable and user.owned == self._target)
        return user

    def assign(self, partitions: str) -> None:
        """Set the target assignment."""
        self._target, self._is_target_new = partitions, True

    @property
    def target(self) -> list[TopicPartition]:
        return [tp(text) for text in self._target.split()]

    @property
    def beats(self) -> list[Heartbeat]:
        return [request for request in self.sent(Heartbeat) if request.member_epoch >= 0]

    @property
    def goodbyes(self) -> list[Heartbeat]:
        return [request for request in self.sent(Heartbeat) if request.member_epoch < 0]

    def on_beat(self, request: Heartbeat) -> Answer:
        code = self.code(Heartbeat)
        if code:
            return ConsumerGroupHeartbeatResponse(error_code=code, error_message=self.error_message)
        if request.member_epoch < 0:
            return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        says_all = request.rebalance_timeout_ms >= 0 and request.topic_partitions is not None
        tells = self._is_target_new or says_all or request.member_epoch == 0
        self._is_target_new = False
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self.epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=assignment_of(self._target) if tells else None,
        )

    def on_metadata(self, request: MetadataRequest) -> MetadataResponse:
        by_id = {id_of(topic): topic for topic in self.topics}
        if request.topics is None:
            requested_names = sorted(self.topics)
        else:
            requested_names = [t.name or by_id[t.topic_id] for t in request.topics]
        topics = [
            MetadataResponseTopic(
                name=name,
                topic_id=id_of(name),
                partitions=[
                    MetadataResponsePartition(partition_index=n, leader_id=1, leader_epoch=self.leader_epoch)
                    for n in range(PARTITIONS)
                ],
            )
            for name in requested_names
            if name in self.topics - self.hidden
        ]
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)], topics=topics)

    def on_offset_fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        code = self.code(OffsetFetchRequest)
        group = request.groups[0]
        topics = [
            OffsetFetchResponseTopics(
                topic_id=t.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=n, committed_offset=self.committed, metadata="")
                    for n in t.partition_indexes
                ],
            )
            for t in group.topics or []
        ]
        answer = OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)
        return OffsetFetchResponse(groups=[answer])

    def on_list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        topics = [
            ListOffsetsTopicResponse(
                name=t.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, offset=self.log_start, leader_epoch=self.leader_epoch
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    def on_fetch(self, request: FetchRequest) -> Any:
        """Answer with records of t-0 only."""
        request_partitions = [
            p for t in request.topics if t.topic_id == id_of("t") for p in t.partitions if p.partition == 0
        ]
        if not request_partitions or request_partitions[0].fetch_offset >= self.log_end:
            return SILENCE
        return fetch_answer(self.records_from(request_partitions[0].fetch_offset))

    def commits(self) -> list[tuple[int, list[tuple[str, int]]]]:
        """Member epoch and partitions of every commit."""
        return [
            (
                request.generation_id_or_member_epoch,
                [(t.topic_id[:1].decode(), p.partition_index) for t in request.topics for p in t.partitions],
            )
            for request in self.sent(OffsetCommitRequest)
        ]


def assignment_of(partitions: str) -> ConsumerGroupHeartbeatResponseAssignment:
    topics: dict[str, list[int]] = {}
    for partition in map(tp, partitions.split()):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=id_of(t), partitions=ns) for t, ns in topics.items()
        ]
    )


def owned_of(request: Heartbeat) -> str | None:
    """Return the owned partitions in a heartbeat; None: unchanged."""
    if request.topic_partitions is None:
        return None
    return " ".join(f"{t.topic_id[:1].decode()}-{n}" for t in request.topic_partitions for n in t.partitions)
