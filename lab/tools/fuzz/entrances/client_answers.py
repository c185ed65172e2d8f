"""A broker with false responses of every API and version, mutated or invented, for all kohort clients."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import cache, cached_property

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances.broker_frames import copied, some_batches
from fuzz.messages import Vocabulary, bytes_of
from fuzz.mutate import mutated
from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Input, Output, Received, Send
from kohort.client.producer import ProducerMachine
from kohort.config import BrokerConfig, parse_config
from kohort.config.client import ProducerConfig
from kohort.config.client_options import client_config
from kohort.errors import KohortError
from kohort.log.storage import MemoryStorage
from kohort.notes import debug
from kohort.wire.apis import API_VERSIONS, APIS
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.frames import FrameReader
from kohort.wire.record_batch import NewRecord
from kohort_lab.machines.request_headers import parse_request_header
from support.machines.consumer_stage import ONE, SERVERS, ConsumerStage, PollingStage, User

HEAD = struct.Struct(">BI")
PASS, MUTATE, MAKE_UP, HANG_UP, SILENCE, NOISE = range(6)
RUN_MS = 8_000
ERRORS = (0, 0, 0, 0, 0, 3, 5, 6, 14, 15, 16, 22, 25, 27, 41, 45, 47, 59, 67, 79, 82, 110, 113, 129, -1, 999)
STEP_MS = 50
IDLE_STEPS = 20
"""Steps after the end of the plan or of the clients' requests: delayed effects of earlier responses appear in them."""
BROKER = {"advertised_listeners": [SERVERS], "group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 1}
HURRIED = 32
"""Bit of an input's first byte: clients retry at once, which gives more responses in the same time."""
HURRY = {
    "retry_backoff_ms": 10,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
    "metadata_max_age_ms": 400,
    "request_timeout_ms": 400,
}
PRODUCER = {"bootstrap_servers": SERVERS, "linger_ms": 0, "acks": "all"}
HURRY_GROUP = {"auto_commit_interval_ms": 150, "fetch_max_wait_ms": 60}
ODD_OPTIONS = ({}, {"group_protocol": "consumer"}, {"isolation_level": "read_committed"},
               {"group_instance_id": "static"},
               {"partition_assignment_strategy": "cooperative-sticky"})  # fmt: skip


class Liar:
    """Changes a broker's responses by a plan; after its end they pass unchanged."""

    def __init__(self, broker: Broker, plan: bytes, words: Vocabulary, watch: Watch) -> None:
        self._broker = broker
        self._plan = plan
        self._at = 0
        self.answer_count = 0
        """Number of responses so far."""
        self._words = words
        self._watch = watch
        self._readers: dict[int, FrameReader] = {}
        self._requests: dict[int, dict[int, tuple[int, int]]] = {}
        self._answers: dict[int, FrameReader] = {}

    @property
    def wake_at_ms(self) -> int | None:
        return self._broker.wake_at_ms

    @property
    def is_through(self) -> bool:
        """True after the end of the plan: all later responses are unchanged."""
        return self._at + HEAD.size > len(self._plan)

    def handle(self, event: Input, now_ms: int) -> Sequence[Output]:
        if isinstance(event, Connected):
            self._readers[event.connection] = FrameReader(1 << 30)
            self._answers[event.connection] = FrameReader(1 << 30)
            self._requests[event.connection] = {}
        if isinstance(event, Received) and event.connection in self._readers:
            for frame in self._readers[event.connection].feed(event.data):
                header, _ = parse_request_header(bytes(frame))
                self._requests[event.connection][header.correlation_id] = (header.api_key, header.api_version)
        out: list[Output] = []
        for output in self._broker.handle(event, now_ms):
            out += self._changed(output, now_ms) if isinstance(output, Send) else [output]
        return out

    def _changed(self, output: Send, now_ms: int) -> list[Output]:
        number = output.connection
        if number not in self._answers:
            return []
        out: list[Output] = []
        for frame in self._answers[number].feed(b"".join(bytes(buffer) for buffer in output.buffers)):
            body = bytes(frame)
            self.answer_count += 1
            op, seed = PASS, 0
            if self._at + HEAD.size <= len(self._plan):
                op, seed = HEAD.unpack_from(self._plan, self._at)
                self._at += HEAD.size
            rng = random.Random(seed)
            match op % 12:
                case 1 | 2 | 3:
                    self._watch.inputs += 1
                    body = body[:4] + mutated(body[4:], rng)
                case 4 | 5 | 6:
                    self._watch.inputs += 1
                    body = self._made_up(number, body, rng)
                case 7 if seed % 4 == 0:
                    del self._answers[number]
                    return [
                        *out,
                        Close(number, debug("a liar hangs up")),
                        *self._broker.handle(Disconnected(number), now_ms),
                    ]
                case 8 if seed % 4 == 0:
                    continue
                case 9:
                    self._watch.inputs += 1
                    body = mutated(body, rng)
                case 10 if seed % 3 == 0:
                    self._watch.inputs += 1
                    body = rng.randbytes(seed % 300)
            out.append(Send(number, [struct.pack(">i", len(body)), body]))
        return out

    def _made_up(self, number: int, body: bytes, rng: random.Random) -> bytes:
        """Return an invented response to the same request."""
        correlation_id = int.from_bytes(body[:4], "big", signed=True)
        request = self._requests[number].get(correlation_id)
        if request is None:
            return body
        api, version = APIS[request[0]], request[1]
        if not api.serves(version):
            return body
        head = body[:4] + (b"\0" if version >= api.flexible_from and api.key != API_VERSIONS else b"")
        return head + bytes_of(api.response, version, rng, self._words)


class ClientAnswers(Entrance):
    """Responses of any address that a client knows."""

    name = "client-answers"
    feeds = "mutated and made-up answers of every API, to a group of consumers and an idempotent producer"
    hang_ms = 100.0

    @cached_property
    def words(self) -> Vocabulary:
        return Vocabulary(
            texts={"name": ("t", "u", "range", "consumer.version"), "topic": ("t", "u"), "host": ("one", "", "two"),
                   "group_id": ("g",), "key": ("g",), "protocol_type": ("consumer",), "protocol_name": ("range", "x"),
                   "cluster_id": ("c", ""), "member_id": ("m", ""), "leader": ("m",)},
            numbers={"error_code": ERRORS,
                     "port": (9092, 9092, -1, 0, 70000), "leader_id": (0, 1, -1), "node_id": (0, 1, -1),
                     "epoch": (0, 1, -1, 5),
                     "partition_index": (0, 1, 2, -1), "partition": (0, 1, 2, -1), "offset": (0, 1, 5, -1, -2, 1 << 40),
                     "min_version": (0, 0, 1), "max_version": (3, 9, 17, 100), "api_key": tuple(range(70)),
                     "throttle_time_ms": (0, 0, 0, 100, 1 << 30), "heartbeat_interval_ms": (0, 1, 3000, -1)},
            blobs=(b"", build_assignment(Assignment(partitions=())), build_subscription(Subscription(topics=("t",))),
                   b"\0\1\xff\xff\xff\xff"),
            batches=(*some_batches(),),
            any_texts=("t", "x", ""),
        )  # fmt: skip

    @cached_property
    def template(self) -> MemoryStorage:
        """Initial storage of every run."""
        stage = with_topics()
        stage.broker.close(stage.now_ms)
        storage: MemoryStorage = stage.storage
        return storage

    def generate(self, rng: random.Random) -> bytes:
        honest, lies = rng.choice((0, 4, 12, 20)), rng.choice((0.3, 0.6, 0.9))
        ops = [PASS] * honest + [
            rng.choice((*range(1, 7), rng.randrange(12))) if rng.random() < lies else PASS
            for _ in range(rng.choice((10, 40, 80, 160)))
        ]
        kind = rng.randrange(256) | (HURRIED if rng.random() < 0.7 else 0)
        return bytes([kind]) + b"".join(HEAD.pack(op, rng.randrange(1 << 32)) for op in ops)

    def run(self, data: bytes, watch: Watch) -> None:
        stage = LyingStage(copied(self.template), data[1:], self.words, watch)
        kind = data[0] if data else 0
        hurry, hurry_group = (HURRY, HURRY | HURRY_GROUP) if kind & HURRIED else ({}, {})
        odd = ODD_OPTIONS[kind % len(ODD_OPTIONS)]
        users = [stage.user("t", group_id="g", **hurry_group, **odd)]
        if kind & 64:
            users.append(stage.user(["t", "u"], group_id="g", **hurry_group))
        config = client_config(ProducerConfig, None, PRODUCER | hurry)
        producer = ProducerMachine(config, random.Random(3))
        stage.loop.add(producer.engine)
        idle, answer_count = 0, -1
        for at in range(RUN_MS // STEP_MS):
            is_waiting = bool(kind & HURRIED) and answer_count == stage.liar.answer_count
            idle = idle + 1 if stage.liar.is_through or is_waiting else 0
            answer_count = stage.liar.answer_count
            if idle > IDLE_STEPS:
                break
            for user in users:
                watch.step(lambda user=user: polled(user))  # type: ignore[misc]
            if at % 20 == 0:
                send(producer, stage.now_ms)
            if at > 40 and at % 20:
                continue  # later steps take a second each
            watch.step(lambda at=at: stage.loop.run(STEP_MS if at <= 40 else 20 * STEP_MS))  # type: ignore[misc]

    def pieces(self, data: bytes) -> list[bytes]:
        return [data[at : at + HEAD.size] for at in range(1, len(data), HEAD.size)]

    def whole(self, pieces: list[bytes]) -> bytes:
        return b"\0" + b"".join(pieces)


class LyingStage(PollingStage):
    """A stage with a broker behind a ``Liar``."""

    def __init__(self, storage: MemoryStorage, plan: bytes, words: Vocabulary, watch: Watch) -> None:
        super().__init__()
        broker = Broker(broker_options(), storage, random.Random(1), self.now_ms)
        self.liar = Liar(broker, plan, words, watch)
        self.loop.serve(ONE, self.liar)


@cache
def broker_options() -> BrokerConfig:
    return parse_config(BrokerConfig, BROKER)


def with_topics() -> ConsumerStage:
    """Return a stage with one filled topic and one empty topic."""
    stage = ConsumerStage(**BROKER)
    stage.topic("t", 2)
    stage.topic("u", 1)
    stage.produce("t", 0, b"1", b"2", b"3")
    stage.loop.close(stage.producer.engine)
    return stage


def polled(user: User) -> None:
    """Poll as ``poll(0)``; documented errors are right."""
    try:
        user.poll()
    except KohortError as error:
        if not str(error):
            raise Wrong(f"{type(error).__name__} without a message") from error


def send(producer: ProducerMachine, now_ms: int) -> None:
    try:
        count = producer.partitions("t")
        if count:
            producer.add("t", 0, NewRecord(None, b"v", (), now_ms), now_ms)
    except KohortError as error:
        if not str(error):
            raise Wrong(f"{type(error).__name__} without a message") from error
