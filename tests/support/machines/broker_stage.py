"""A broker without a network: in-memory connections, a manual clock."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Pause, Received, Resume, Send, Tick
from kohort.clock import ManualClock
from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import DEFAULT_LISTENER
from kohort.log.storage import MemoryStorage
from kohort.notes import Level, Note
from kohort.wire.apis import APIS
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameReader
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from kohort.wire.schema import Message
from kohort_lab.sim.checks.group_invariants import check_all


class Peer:
    """The client side of one connection to the broker."""

    def __init__(self, stage: BrokerStage, number: int) -> None:
        self.stage = stage
        self.number = number
        self.closed: str | None = None
        self.close_note: Note | None = None
        self.close_level: Level | None = None
        """Log level of the closed connection's event."""
        self.paused = False
        self._reader = FrameReader(1 << 30)
        self._requests: deque[tuple[int, Message, int]] = deque()
        self._answers: deque[Message] = deque()
        self.raw: deque[bytes] = deque()
        """Frames outside of requests: login tokens."""
        self._correlation_id = 0

    def send_bytes(self, data: bytes) -> None:
        self.stage.give(Received(self.number, data))

    def request_bytes(
        self, message: Message, version: int, *, client_id: str = "tester", answered: bool = True
    ) -> bytes:
        self._correlation_id += 1
        if answered:
            self._requests.append((self._correlation_id, message, version))
        header = RequestHeader(type(message).API_KEY, version, self._correlation_id, client_id)
        return b"".join(build_request(header, message))

    def send(self, message: Message, version: int, *, client_id: str = "tester", answered: bool = True) -> None:
        self.send_bytes(self.request_bytes(message, version, client_id=client_id, answered=answered))

    def take(self) -> Any:
        """Return the next response, if any."""
        return self._answers.popleft() if self._answers else None

    def take_all(self) -> list[Any]:
        return list(iter(self.take, None))

    def ask(self, message: Message, version: int, *, client_id: str = "tester") -> Any:
        self.send(message, version, client_id=client_id)
        answer = self.take()
        assert answer is not None, f"no answer; connection closed: {self.closed}"
        return answer

    def received(self, buffers: list[Buffer]) -> None:
        for frame in self._reader.feed(b"".join(buffers)):
            if not self._requests:
                self.raw.append(bytes(frame))
                continue
            correlation_id, message, version = self._requests.popleft()
            response = APIS[type(message).API_KEY].response
            got, answer = parse_response(frame, response, version)
            assert got == correlation_id, "answers keep the order of requests"
            self._answers.append(answer)

    def leave(self) -> None:
        self.stage.give(Disconnected(self.number))

    # ------------------------------------------------------------ common requests

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        from kohort.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        settings = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
        request_topic = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=settings)
        answer = self.ask(CreateTopicsRequest(topics=[request_topic]), 7)
        assert answer.topics[0].error_code == 0, answer

    def topic_id(self, topic: str) -> bytes:
        answer = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        return answer.topics[0].topic_id

    def produce(self, topic: str, *values: bytes, partition: int = 0, acks: int = -1, batch: bytes | None = None):
        data = batch or build_batch([NewRecord(None, value, (), self.stage.now_ms) for value in values])
        answer = self.ask(produce_request(topic, data, partition=partition, acks=acks), 9)
        return answer.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, **options):
        self.send(fetch_request(topic, offset, **options), options.get("version", 12))
        return self.take()


class BrokerStage:
    """A broker, its storage, its connections, and a manual clock."""

    def __init__(self, storage: MemoryStorage | None = None, **options: object) -> None:
        settings = {"offsets_topic_num_partitions": 5, "group_initial_rebalance_delay_ms": 0, **options}
        self.config: BrokerConfig = self.configured(settings)
        self.storage = MemoryStorage() if storage is None else storage
        self.clock = ManualClock()
        self.rng = random.Random(7)
        self.peers: dict[int, Peer] = {}
        self._last = 0
        self.start()

    @staticmethod
    def configured(settings: dict[str, object]) -> BrokerConfig:
        return parse_config(BrokerConfig, settings)

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    def start(self) -> None:
        self.broker = Broker(self.config, self.storage, self.rng, self.now_ms)

    def restart(self, *, cleanly: bool = True) -> None:
        """Stop the broker, cleanly or not, and start another on the same storage. Connections close."""
        if cleanly:
            self.broker.close(self.now_ms)
        self.peers.clear()
        self.start()

    def connect(self, host: str = "127.0.0.1", listener: str = DEFAULT_LISTENER) -> Peer:
        self._last += 1
        peer = self.peers[self._last] = Peer(self, self._last)
        self.give(Connected(self._last, host, listener))
        return peer

    def give(self, event) -> None:
        for output in self.broker.handle(event, self.now_ms):
            peer = self.peers.get(output.connection)
            if peer is None:
                continue
            match output:
                case Send(buffers=buffers):
                    assert peer.closed is None, "nothing is sent after a close"
                    peer.received(list(buffers))
                case Close(note=note):
                    peer.closed, peer.close_level, peer.close_note = note.text, note.level, note
                case Pause():
                    peer.paused = True
                case Resume():
                    peer.paused = False
        self.check()

    def check(self) -> None:
        check_all(self.broker.state.coordinator, self.now_ms)

    def log_lines(self) -> list[str]:
        """Return the log lines since the last call."""
        return [str(note) for note in self.broker.take_notes()]

    def advance(self, delta_ms: int) -> None:
        """Advance the clock; the broker's timers fire at their times."""
        end_ms = self.now_ms + delta_ms
        while (wake_at_ms := self.broker.wake_at_ms) is not None and wake_at_ms <= end_ms:
            self.clock.advance(max(wake_at_ms - self.now_ms, 0))
            self.give(Tick())
        self.clock.advance(end_ms - self.now_ms)


def produce_request(topic: str, batch: bytes, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    session_id: int = 0,
    session_epoch: int = -1,
    version: int = 12,
    topic_id: bytes = bytes(16),
) -> FetchRequest:
    request_partition = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[request_partition])],
    )


def values_of(records: bytes) -> list[bytes | None]:
    data = bytes(records)
    return [record.value for at, _ in split_batches(data) for record in read_batch(data, at)]
