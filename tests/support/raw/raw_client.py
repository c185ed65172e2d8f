"""A socket that sends raw requests, with deadlines."""

from __future__ import annotations

import socket
import struct
from collections import deque
from typing import Any

from kohort.wire.apis import APIS
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from kohort.wire.schema import Message

DEADLINE_S = 60.0


class RawClient:
    """One connection. ``closed_by_peer`` waits for its end."""

    def __init__(self, bootstrap: str, client_id: str = "raw") -> None:
        self.client_id = client_id
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self._requests: deque[tuple[int, Message, int]] = deque()
        self._correlation_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request_bytes(self, message: Message, version: int, *, answered: bool = True) -> bytes:
        self._correlation_id += 1
        if answered:
            self._requests.append((self._correlation_id, message, version))
        header = RequestHeader(type(message).API_KEY, version, self._correlation_id, self.client_id)
        return b"".join(build_request(header, message))

    def send(self, message: Message, version: int, *, answered: bool = True) -> None:
        self.send_bytes(self.request_bytes(message, version, answered=answered))

    def take(self) -> Any:
        """Wait for the next response. Raises EOFError if the connection closes."""
        (size,) = struct.unpack(">i", self._exactly(4))
        frame = self._exactly(size)
        correlation_id, message, version = self._requests.popleft()
        got, answer = parse_response(frame, APIS[type(message).API_KEY].response, version)
        assert got == correlation_id, "answers keep the order of requests"
        return answer

    def ask(self, message: Message, version: int) -> Any:
        self.send(message, version)
        return self.take()

    def is_closed_by_peer(self) -> bool:
        """Wait for the end of the connection; False if data comes first."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            part = self.socket.recv(min(missing, 1 << 20))
            if not part:
                raise EOFError("the broker closed the connection")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    # ------------------------------------------------------------ common requests

    def create(self, topic: str, partitions: int = 1) -> None:
        request_topic = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        answer = self.ask(CreateTopicsRequest(topics=[request_topic], timeout_ms=5000), 5)
        assert answer.topics[0].error_code == 0, answer

    def metadata(self, topic: str) -> Any:
        return self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12).topics[0]

    def produce(
        self, topic: str, *values: bytes, partition: int = 0, acks: int = -1, batch: bytes | None = None
    ) -> Any:
        data = batch or build_batch([NewRecord(None, value) for value in values])
        part = PartitionProduceData(index=partition, records=data)
        topic_data = [TopicProduceData(name=topic, partition_data=[part])]
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topic_data)
        return self.ask(request, 9).responses[0].partition_responses[0]

    def fetch(
        self, topic: str, offset: int = 0, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1
    ) -> Any:
        self.send(fetch_request(topic, offset, partition=partition, max_wait_ms=max_wait_ms, min_bytes=min_bytes), 12)
        return self.take().responses[0].partitions[0]

    def read_all(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """Return the values of all records of a partition, oldest first."""
        values: list[bytes | None] = []
        offset = 0
        while True:
            got = self.fetch(topic, offset, partition=partition)
            assert got.error_code == 0, got
            data = bytes(got.records)
            if not data:
                return values
            for at, header in split_batches(data):
                values += [record.value for record in read_batch(data, at)]
                offset = header.next_offset


def fetch_request(
    topic: str, offset: int = 0, *, partition: int = 0, max_wait_ms: int = 0, min_bytes: int = 1
) -> FetchRequest:
    request_partition = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 24,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[request_partition])],
    )
