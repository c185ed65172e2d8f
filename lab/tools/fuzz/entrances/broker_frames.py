"""The whole broker: frames of every API and version on several connections, before, during and after logins; then a
restart on the resulting state.
"""

from __future__ import annotations

import random
import struct
from functools import cached_property
from typing import Any

from fuzz import scripts
from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.messages import Vocabulary, bytes_of
from fuzz.mutate import mutated
from fuzz.scripts import Step
from kohort.broker.dispatch import SERVED
from kohort.broker.io import Close, Disconnected, Received, Tick
from kohort.config import BrokerConfig, parse_config
from kohort.log.storage import MemoryStorage
from kohort.notes import Level
from kohort.wire.compression import Codec
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.record_batch import NewRecord, build_batch
from kohort_lab.sim.checks.group_invariants import check_all
from support.machines.broker_stage import BrokerStage, Peer
from support.machines.populated import populate
from support.raw.group_member import RawMember
from support.telemetry.otlp_bytes import gauge, metrics_data, total

TOPICS = ("a", "a", "a", "b", "keyed", "__consumer_offsets", "__transaction_state", "__kohort_journal", "nowhere")
TRUSTED = "__admin_client"
WAITS = (0, 1, 50, 1000, 3000, 10_000, 60_000, 400_000)
MOST_WAIT_MS = 700_000
HEADER = struct.Struct(">hhi")
OPTIONS = {"transaction_state_log_num_partitions": 1, "offsets_topic_num_partitions": 1}
BIG_REQUEST = 1 << 20
TICKS_MOST = 3000
AT_ONCE_MOST = 2000
"""Limit of timer events at one time: more mean an endless loop."""


def some_batches() -> list[bytes]:
    """Return batches of every codec and producer kind, and invalid bytes."""
    lot = [NewRecord(b"k%d" % i, b"v" * i, [("h", b"x")] * (i % 2), 1_000 + i) for i in range(4)]
    idempotent = {"producer_id": 3, "producer_epoch": 0, "base_sequence": 0}
    batches = [build_batch(lot, codec=codec) for codec in Codec]
    batches += [
        build_batch(lot, **idempotent),
        build_batch(lot, **idempotent, is_transactional=True),
        build_batch(lot[:1], **idempotent, is_transactional=True, is_control=True),
        build_batch([NewRecord(None, None, (), 1)]),
        build_batch([NewRecord(None, b"", (), 1 << 50)]),
        b"",
    ]
    return [*batches, batches[0] + batches[1]]


class Peered(BrokerStage):
    """A broker stage that ignores the contents of responses."""

    watch: Watch | None = None
    checked = True
    seed = 7

    def __init__(self, storage: MemoryStorage | None = None, *, place: str = "template", **options: Any) -> None:
        self.place = place
        super().__init__(storage, **options)

    @staticmethod
    def configured(settings: dict[str, object]) -> BrokerConfig:
        return config_of(repr(sorted(settings.items())), settings)

    def start(self) -> None:
        """Start with a random source unlike that of earlier brokers: repeated ids would be a fault of the test."""
        self.seed += 1
        self.rng = random.Random(f"{self.place} {self.seed}")
        super().start()

    def give(self, event: Any) -> None:
        work = lambda: self.broker.handle(event, self.now_ms)  # noqa: E731
        for output in work() if self.watch is None else self.watch.step(work):
            peer = self.peers.get(output.connection)
            if peer is None:
                continue
            if isinstance(output, Close):
                peer.closed = output.reason
            elif hasattr(output, "buffers"):
                if peer.closed is not None:
                    raise Wrong("the broker sends data after it closed a connection")
                if self.watch is None:
                    peer.received(list(output.buffers))


class BrokerFrames(Entrance):
    """Requests of clients of all kinds."""

    name = "broker-frames"
    feeds = "scripts of requests, cut, mutated and made up, to a broker with groups and transactions; then its restart"
    listener = ""

    @cached_property
    def template(self) -> tuple[MemoryStorage, Vocabulary]:
        """Initial storage of every script, and its names."""
        stage = self.stage()
        ann = populate(stage)
        peer = ann.wire
        peer.create("b", 2)
        peer.create("keyed", cleanup_policy="compact")
        peer.produce("a", b"1", b"2")
        words = Vocabulary(
            texts={
                "group_id": ("g", "g", "g", "new", "other"),
                "group": ("g", "new"),
                "member_id": (ann.member_id, ann.member_id, "", "stranger"),
                "instance_id": ("static", "static-2"),
                "transactional_id": ("t", "t", "evil"),
                "topic": TOPICS,
                "name": (*TOPICS, "range", "roundrobin", "uniform", "retention.ms", "cleanup.policy", "consumer"),
                "protocol_type": ("consumer", "connect"),
                "protocol_name": ("range", "roundrobin"),
                "server_assignor": ("uniform", "range"),
                "mechanism": ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "SCRAM-SHA-512"),
                "key": ("g", "t", "a"),
                "regex": ("a.*", "(a+)+$", "[", ".*", "a{99}"),
                "pattern": ("a.*", "(a+)+$", "["),
                "value": ("1", "compact", "delete", "-1", "zstd", "100", "true", "x"),
                "principal": ("User:*", "User:ann"),
                "entity_type": ("user", "client-id", "ip"),
                "filter": ("g", "t"),
            },
            numbers={
                "acks": (-1, -1, 0, 1, 2),
                "resource_type": (2, 3, 4, 5, 32, 8, 16),
                "pattern_type": (3, 4, 1, 2),
                "operation": tuple(range(14)),
                "permission_type": (2, 3),
                "key_type": (0, 1, 2),
                "max_bytes": (1 << 20, 0, 1, -1),
                "max_wait_ms": (0, 100, 5000),
                "timeout_ms": (0, 100, 6000, 30_000, 60_000),
                "num_partitions": (1, 2, -1, 20),
                "count": (1, 3, 20),
                "replication_factor": (1, 1, -1, 3),
                "generation_id": (1, 1, 0, 2, -1),
                "epoch": (0, 0, 1, -1, 2, -2),
                "producer_id": (0, 0, 1, -1, 3),
                "partition": (0, 0, 0, 1, -1),
                "index": (0, 0, 0, 1, -1),
                "offset": (0, 1, 2, 3, -1, -2, 7),
                "timestamp": (-1, -2, 0, 1000, -3, -4),
                "error_code": (0,),
            },
            ids=(peer.topic_id("a"), peer.topic_id("b"), bytes(16), b"\xff" * 16, b"\0" * 15 + b"\1"),
            blobs=(
                b"",
                build_subscription(Subscription(topics=("a", "b"))),
                build_assignment(Assignment(partitions=())),
                b"\0\0\xff\xff\xff\xff",
                metrics_data(gauge("x", 1.5, topic="a"), total("y", 3), group_id="g"),
                b"\0alice\0alice-secret",
                b"n,,n=alice,r=abcdefgh",
                b"n,,\x01auth=Bearer e30.e30.\x01\x01",
                b"x" * 2000,
            ),
            batches=(*some_batches(),),
            any_texts=("a", "g", "t", "", "range", "consumer", "x"),
        )
        stage.broker.close(stage.now_ms)
        return stage.storage, words

    def stage(self, storage: MemoryStorage | None = None, place: str = "template") -> Peered:
        """Return a broker on ``storage``; ``place`` selects its random source."""
        more = self.at_first() if storage is None else {}
        return Peered(storage, place=place, **self.options(), **more)

    def options(self) -> dict[str, Any]:
        """Return the broker's options."""
        return OPTIONS

    def at_first(self) -> dict[str, Any]:
        """Return more options for its very first start."""
        return {}

    # ------------------------------------------------------------ inputs

    def generate(self, rng: random.Random) -> bytes:
        steps = [Step(scripts.CONNECT, number) for number in range(rng.choice((1, 2, 3)))]
        sent: list[bytes] = []
        for _ in range(rng.choice((3, 30, 60, 120))):
            number = rng.randrange(3)
            match rng.randrange(20):
                case 0:
                    steps.append(Step(scripts.WAIT, number, struct.pack(">I", rng.choice(WAITS))))
                case 1:
                    steps.append(Step(rng.choice((scripts.LEAVE, scripts.CONNECT, scripts.CONNECT)), number))
                case 2 if rng.random() < 0.1:
                    steps.append(Step(rng.choice((scripts.RESTART, scripts.KILL)), number))
                case _:
                    frame = self.frame(rng, sent)
                    sent.append(frame)
                    op = scripts.SEND_IN_PIECES if rng.random() < 0.03 else scripts.SEND
                    steps.append(Step(op, number, frame))
        if rng.random() < 0.3:
            steps.append(Step(scripts.KILL, 0))
        return scripts.build(steps)

    def frame(self, rng: random.Random, sent: list[bytes]) -> bytes:
        """Return a request with its length: valid, mutated, or an earlier one with changes."""
        if sent and rng.random() < 0.25:
            body = rng.choice(sent)[4:]
            if rng.random() < 0.7:
                body = mutated(body, rng, sent)
        else:
            body = self.request(rng)
            if rng.random() < 0.4:
                body = mutated(body, rng, sent)
        size = len(body) if rng.random() < 0.98 else rng.choice((0, -1, 1, len(body) - 1, len(body) + 4, 0x7FFFFFFF))
        return struct.pack(">i", size) + body

    def request(self, rng: random.Random) -> bytes:
        """Return a request without its length, of any served API and version."""
        _, words = self.template
        api = rng.choice(list(SERVED.values()))
        version = rng.choice((api.high, rng.randint(api.low, api.high)))
        client_id = rng.choice(("tester", "tester", TRUSTED, None, ""))
        bare = build_request(RequestHeader(api.key, version, rng.randrange(100), client_id), api.request())
        body = bytes_of(api.request, version, rng, words)
        head = header_of(b"".join(bytes(part) for part in bare), version >= api.flexible_from)
        return head + body

    # ------------------------------------------------------------ runs

    def run(self, data: bytes, watch: Watch) -> None:
        storage, _ = self.template
        stage = self.stage(copied(storage), "script")
        stage.watch = watch
        peers: dict[int, Peer] = {}
        for step in scripts.parse(data):
            self.step(stage, peers, step)
        stage.watch = None
        kinds = [s.op for s in scripts.parse(data[-6:])]
        self.restart(stage, cleanly=scripts.KILL not in kinds)
        self.check_service(stage)

    def step(self, stage: Peered, peers: dict[int, Peer], step: Step) -> None:
        """Run one step of a script."""
        match step.op:
            case scripts.CONNECT:
                if (old := peers.pop(step.connection, None)) is not None:
                    stage.give(Disconnected(old.number))
                peers[step.connection] = self.connect(stage)
            case scripts.LEAVE:
                if (old := peers.pop(step.connection, None)) is not None:
                    stage.give(Disconnected(old.number))
            case scripts.WAIT:
                self.wait(stage, int.from_bytes(step.payload[:4], "big") % MOST_WAIT_MS)
            case scripts.RESTART | scripts.KILL:
                peers.clear()
                self.restart(stage, cleanly=step.op == scripts.RESTART)
            case _:
                if stage.watch is not None:
                    stage.watch.inputs += 1
                peer = peers.get(step.connection)
                if peer is None or peer.closed is not None:
                    peer = peers[step.connection] = self.connect(stage)
                payload = step.payload[:BIG_REQUEST]
                pieces = [payload]
                if step.op == scripts.SEND_IN_PIECES:
                    pieces = [payload[at : at + 3] for at in range(0, len(payload), 3)][:500]
                for piece in pieces:
                    if peer.closed is None:
                        stage.give(Received(peer.number, piece))
        self.rest(stage)

    def connect(self, stage: Peered) -> Peer:
        return stage.connect(listener=self.listener) if self.listener else stage.connect()

    def rest(self, stage: Peered) -> None:
        """Run all immediate timers."""
        for _ in range(AT_ONCE_MOST):
            wake = stage.broker.wake_at_ms
            if wake is None or wake > stage.now_ms:
                if stage.checked:
                    check_all(stage.broker.state.coordinator, stage.now_ms)
                return
            stage.give(Tick())
        raise Wrong("the broker sets immediate timers endlessly")

    def wait(self, stage: Peered, for_ms: int) -> None:
        """Advance the clock within a limit of timer events: a client can set a rebalance timeout of 1 ms."""
        end_ms = stage.now_ms + for_ms
        at_once = 0
        for _ in range(TICKS_MOST):
            wake = stage.broker.wake_at_ms
            if wake is None or wake > end_ms:
                break
            at_once = at_once + 1 if wake <= stage.now_ms else 0
            if at_once > AT_ONCE_MOST:
                raise Wrong("the broker sets immediate timers endlessly")
            stage.clock.advance(max(wake - stage.now_ms, 0))
            stage.give(Tick())
        stage.clock.advance(end_ms - stage.now_ms)

    def restart(self, stage: Peered, *, cleanly: bool) -> None:
        """Restart the broker. It must find all state; warnings are allowed only for effects of requests."""
        stage.broker.take_notes()
        topics = {topic.name: len(topic.partitions) for topic in stage.broker.state.topics}
        stage.restart(cleanly=cleanly)
        found = {topic.name: len(topic.partitions) for topic in stage.broker.state.topics}
        if found != topics:
            raise Wrong(f"topics before the restart: {topics}, after: {found}")
        warnings = [str(note) for note in stage.broker.take_notes() if note.level >= Level.WARNING]
        if warnings := [line for line in warnings if not is_of_users(line)]:
            raise Wrong(f"unexpected log lines of the start: {warnings}")

    def check_service(self, stage: Peered) -> None:
        """Produce, read, join and commit as a new client, independent of the script's state."""
        name, group = "served-after-all", "newcomers"
        peer = self.newcomer(stage)
        peer.create(name)
        answer = peer.produce(name, b"1", b"2")
        if answer.error_code:
            raise Wrong(f"the broker rejects a batch after the restart: {answer}")
        fetched = peer.fetch(name)
        if not fetched.responses[0].partitions[0].records:
            raise Wrong("a fetch after the restart returns no records")
        member = RawMember(peer, group, [name])
        member.start_join()
        stage.advance(0)
        member.end_join()
        member.sync({member.member_id: {name: [0]}})
        if error := member.commit(name, 0, 2):
            raise Wrong(f"the broker rejects a commit after the restart: {error}")
        beat = peer.ask(
            HeartbeatRequest(group_id=group, generation_id=member.generation, member_id=member.member_id), 4
        )
        if beat.error_code:
            raise Wrong(f"unknown member after the restart: {beat}")

    def newcomer(self, stage: Peered) -> Peer:
        """Return an authenticated connection."""
        return stage.connect()

    def pieces(self, data: bytes) -> list[bytes]:
        return [scripts.build([step]) for step in scripts.parse(data)]


def is_of_users(line: str) -> bool:
    """Return True if any user can cause a warning of the start."""
    return "accepts any token" in line


def header_of(frame: bytes, flexible: bool) -> bytes:
    """Return the header of an encoded request."""
    size = 4 + HEADER.size
    length = struct.unpack_from(">h", frame, size)[0]
    end = size + 2 + max(length, 0) + (1 if flexible else 0)
    return frame[4:end]


def copied(storage: MemoryStorage) -> MemoryStorage:
    """Return a storage of the same content."""
    new = MemoryStorage()
    new._folders = {
        folder: {name: bytearray(data) for name, data in files.items()} for folder, files in storage._folders.items()
    }
    return new


_CONFIGS: dict[str, BrokerConfig] = {}


def config_of(key: str, settings: dict[str, object]) -> BrokerConfig:
    """Return the options of a stage, parsed once for equal options."""
    if key not in _CONFIGS:
        _CONFIGS[key] = parse_config(BrokerConfig, settings)
    return _CONFIGS[key]
