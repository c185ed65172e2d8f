"""A scripted broker: the coordinator of a group of one member, and the leader of its topics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.broker.io import Output, Send
from kohort.errors import ErrorCode
from kohort.wire.headers import build_response
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.messages.list_offsets import (
    EpochEndOffset,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
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
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.wire.record_batch import NewRecord, build_batch
from kohort_lab.machines.request_headers import parse_request_header
from kohort_lab.machines.scripted import SILENCE, ScriptedBroker
from support.machines.consumer_stage import ONE, PollingStage

MEMBER = "member-1"
TOPIC_ID = b"t" * 16


class Leader(ScriptedBroker):
    """Parks empty fetches, and answers them before the next request on their connection.

    Brokers answer in order: behind a request with SILENCE, later requests on its connection get no response.
    """

    def __init__(self) -> None:
        super().__init__()
        self.nothing_new: Callable[[], FetchResponse] = FetchResponse
        self._parked: dict[int, tuple[int, int]] = {}
        self._silent: set[int] = set()

    def _serve(self, number: int, frame: bytes) -> list[Output]:
        out: list[Output] = []
        if number in self._parked:
            correlation_id, version = self._parked.pop(number)
            out.append(Send(number, build_response(correlation_id, self.nothing_new(), version)))
        header = parse_request_header(frame)[0]
        answers = super()._serve(number, frame)
        if number in self._silent:
            return out
        if not answers and header.api_key == FetchRequest.API_KEY:
            self._parked[number] = (header.correlation_id, header.api_version)
        elif not answers:
            self._silent.add(number)
        return out + answers


class ScriptedGroup(PollingStage):
    """One topic ``t`` with one partition and ten records, one scripted node.

    ``next_codes[request class]``: error codes of the next responses; later responses have none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.one = Leader()
        self.one.nothing_new = lambda: fetch_answer(PartitionData(partition_index=0, high_watermark=self.log_end))
        self.loop.serve(ONE, self.one)
        self.next_codes: dict[type, deque[Any]] = {}
        self.leader_epoch = 3
        self.committed = -1
        self.committed_epoch = -1
        self.log_start, self.log_end = 0, 10
        self.generation = 0
        self.fetch: Callable[[FetchRequest], Any] = self.serve_records
        for request, answer in {
            MetadataRequest: self.on_metadata,
            FindCoordinatorRequest: self.on_find,
            JoinGroupRequest: self.on_join,
            SyncGroupRequest: self.on_sync,
            HeartbeatRequest: lambda _: HeartbeatResponse(error_code=self.code(HeartbeatRequest)),
            LeaveGroupRequest: lambda _: LeaveGroupResponse(error_code=self.code(LeaveGroupRequest)),
            OffsetFetchRequest: self.on_offset_fetch,
            OffsetCommitRequest: self.on_offset_commit,
            ListOffsetsRequest: self.on_list_offsets,
            FetchRequest: self.on_fetch,
            OffsetForLeaderEpochRequest: self.on_epoch,
        }.items():
            self.one.on(request, self._answering(request, answer))

    def _answering(self, request: type, answer: Callable[[Any], Any]) -> Callable[[Any, int], Any]:
        def reply(message: Any, _version: int) -> Any:
            queue = self.next_codes.get(request)
            if queue and not isinstance(queue[0], ErrorCode):
                return queue.popleft()  # SILENCE or HANG_UP
            return answer(message)

        return reply

    def then(self, request: type, *codes: Any) -> None:
        """Set the next responses to requests of this class."""
        self.next_codes.setdefault(request, deque()).extend(codes)

    def code(self, request: type) -> int:
        queue = self.next_codes.get(request)
        return int(queue.popleft()) if queue else 0

    def sent(self, request: type) -> list[Any]:
        return self.one.requests(request)

    # Responses

    def on_metadata(self, request: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=self.leader_epoch)
        names = [t.name for t in request.topics] if request.topics is not None else ["t"]
        topics = [MetadataResponseTopic(name=n, topic_id=TOPIC_ID, partitions=[partition]) for n in names if n == "t"]
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="one", port=9092)], topics=topics)

    def on_find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        code = self.code(FindCoordinatorRequest)
        keys = request.coordinator_keys
        found = [Coordinator(key=k, node_id=1, host="one", port=9092, error_code=code) for k in keys]
        return FindCoordinatorResponse(coordinators=found)

    def on_join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        code = self.code(JoinGroupRequest)
        if code:
            return JoinGroupResponse(error_code=code, member_id=MEMBER)
        self.generation += 1
        first = request.protocols[0]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=first.name,
            leader=request.member_id or MEMBER,
            member_id=request.member_id or MEMBER,
            members=[JoinGroupResponseMember(member_id=request.member_id or MEMBER, metadata=first.metadata)],
        )

    def on_sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        code = self.code(SyncGroupRequest)
        mine = next((a.assignment for a in request.assignments), b"")
        return SyncGroupResponse(
            error_code=code, protocol_type="consumer", protocol_name=request.protocol_name, assignment=mine
        )

    def on_offset_fetch(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        code = self.code(OffsetFetchRequest)
        group = request.groups[0]
        partition = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=self.committed, committed_leader_epoch=self.committed_epoch, metadata=""
        )
        topics = [OffsetFetchResponseTopics(topic_id=t.topic_id, partitions=[partition]) for t in group.topics]
        return OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)]
        )

    def on_offset_commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        code = self.code(OffsetCommitRequest)
        topics = [
            OffsetCommitResponseTopic(
                topic_id=t.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
        if not code:
            self.committed = request.topics[0].partitions[0].committed_offset
        return OffsetCommitResponse(topics=topics)

    def on_list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        code = self.code(ListOffsetsRequest)
        timestamp = request.topics[0].partitions[0].timestamp
        offset = {-2: self.log_start, -1: self.log_end}.get(timestamp, 5)
        partition = ListOffsetsPartitionResponse(
            partition_index=0, error_code=code, offset=offset, timestamp=timestamp, leader_epoch=self.leader_epoch
        )
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])

    def on_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        """Answer that no epoch was truncated."""
        epoch = request.topics[0].partitions[0].leader_epoch
        found = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=self.log_end)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[found])])

    def on_fetch(self, request: FetchRequest) -> Any:
        return self.fetch(request)

    def serve_records(self, request: FetchRequest) -> Any:
        """Answer with one batch from the requested offset; park requests behind the end."""
        code = self.code(FetchRequest)
        request_partitions = [(t, p) for t in request.topics for p in t.partitions]
        if not request_partitions or (not code and request_partitions[0][1].fetch_offset >= self.log_end):
            return SILENCE
        offset = request_partitions[0][1].fetch_offset
        if code:
            return fetch_answer(PartitionData(partition_index=0, error_code=code, high_watermark=-1))
        return fetch_answer(self.records_from(offset))

    def records_from(self, offset: int, **options: Any) -> PartitionData:
        values = [NewRecord(None, b"v%d" % n) for n in range(offset, self.log_end)]
        batch = build_batch(values, base_offset=offset, leader_epoch=self.leader_epoch)
        return PartitionData(partition_index=0, high_watermark=self.log_end, records=batch, **options)

    # Recorded requests

    def requested_epochs(self) -> list[tuple[int, int]]:
        """Current leader epoch and requested epoch of every OffsetForLeaderEpoch."""
        return [
            (p.current_leader_epoch, p.leader_epoch)
            for request in self.sent(OffsetForLeaderEpochRequest)
            for t in request.topics
            for p in t.partitions
        ]


def fetch_answer(*partitions: PartitionData, error_code: int = 0, session_id: int = 0, **options: Any) -> FetchResponse:
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))
    return FetchResponse(
        error_code=error_code, session_id=session_id, responses=[topic] if partitions else [], **options
    )
