"""A group member with raw requests of one version each: join, sync, heartbeat, commit, leave.

It works with in-memory connections and sockets; ``broker_under_test.VersionedMember`` sends
any version and any field, and needs a served broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import (
    Assignment,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
)
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.schema import Message

MEMBER_ID_REQUIRED = 79


class Wire(Protocol):
    """A connection that sends a request and returns the response, now or later."""

    def send(self, message: Message, version: int) -> None: ...
    def take(self) -> Any: ...
    def ask(self, message: Message, version: int) -> Any: ...


class RawMember:
    """One member of a consumer group, at JoinGroup 9, SyncGroup 5, Heartbeat 4, OffsetCommit 9, LeaveGroup 5."""

    def __init__(self, wire: Wire, group: str, topics: Sequence[str], *, session_timeout_ms: int = 10_000) -> None:
        self.wire: Any = wire
        self.group = group
        self.topics = list(topics)
        self.session_timeout_ms = session_timeout_ms
        self.member_id = ""
        self.generation = -1
        self.leader = False
        self.members: dict[str, bytes] = {}

    def join_request(self) -> JoinGroupRequest:
        metadata = build_subscription(Subscription(topics=self.topics))
        return JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            reason="a test",
        )

    def find(self) -> None:
        answer = self.wire.ask(FindCoordinatorRequest(coordinator_keys=[self.group]), 6)
        assert answer.coordinators[0].error_code == 0

    def start_join(self) -> None:
        """Send JoinGroup until it is parked: a new member first gets its id."""
        if not self.member_id:
            self.find()
            answer = self.wire.ask(self.join_request(), 9)
            assert answer.error_code == MEMBER_ID_REQUIRED
            self.member_id = answer.member_id
        self.wire.send(self.join_request(), 9)

    def end_join(self) -> None:
        answer = self.wire.take()
        assert answer is not None, "the join is not over"
        assert answer.error_code == 0, answer
        self.generation = answer.generation_id
        self.leader = answer.leader == self.member_id
        self.members = {m.member_id: m.metadata for m in answer.members}

    def join(self) -> None:
        self.start_join()
        self.end_join()

    def sync_request(self, plan: Mapping[str, Mapping[str, Sequence[int]]] | None = None) -> SyncGroupRequest:
        """Build a SyncGroup; the leader's ``plan``: member id to topic to partitions."""
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=build_assignment(
                    Assignment([TopicPartition(topic, p) for topic, numbers in topics.items() for p in numbers])
                ),
            )
            for member_id, topics in (plan or {}).items()
        ]
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    def sync(self, plan: Mapping[str, Mapping[str, Sequence[int]]] | None = None) -> Any:
        return self.wire.ask(self.sync_request(plan), 5)

    def assigned(self) -> list[TopicPartition]:
        """Return the assignment of an answered SyncGroup."""
        answer = self.sync()
        assert answer.error_code == 0, answer
        return parse_assignment(answer.assignment).partitions

    def heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        return int(self.wire.ask(request, 4).error_code)

    def commit(self, topic: str, partition: int, offset: int, *, generation: int | None = None) -> int:
        request_partition = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="by hand"
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[request_partition])],
        )
        return int(self.wire.ask(request, 9).topics[0].partitions[0].error_code)

    def leave(self) -> int:
        member = MemberIdentity(member_id=self.member_id, reason="the test is over")
        return int(self.wire.ask(LeaveGroupRequest(group_id=self.group, members=[member]), 5).error_code)


def committed(wire: Wire, group: str, topic: str, partitions: Sequence[int]) -> dict[int, int]:
    """Return a group's committed offsets by partition; -1 without one."""
    request_topic = OffsetFetchRequestTopics(name=topic, partition_indexes=list(partitions))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[request_topic])])
    answer = wire.ask(request, 9).groups[0]
    assert answer.error_code == 0, answer
    return {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}
