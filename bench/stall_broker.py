"""A broker with large contents, and one client connection that measures each event of a request."""

from __future__ import annotations

import ctypes
import gc
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kohort.aio.serving.file_storage import FileStorage
from kohort.aio.serving.garbage import ShortCollections
from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Received, Send, Tick
from kohort.config.broker import BrokerConfig
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState, target_value_of, value_of
from kohort.coordinator.records import (
    CurrentWritten,
    EpochWritten,
    GroupWritten,
    MemberWritten,
    OffsetCommitted,
    Record,
    TargetEpochWritten,
    TargetWritten,
    build_record,
)
from kohort.log.storage import MemoryStorage, Storage
from kohort.model import TopicPartition
from kohort.security.acls import ANONYMOUS, CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from kohort.wire.apis import APIS
from kohort.wire.consumer_protocol import Assignment, Subscription, build_assignment, build_subscription
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages import find_coordinator, group_classic, producer_ids, quotas, sasl, topics, transactions
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

PIECE = 256 << 10
"""Bytes of one read of a socket."""
WIDE = "wide"
"""The topic of 10,000 partitions."""
WIDE_PARTITIONS = 10_000
CROWD, MODERN, OFFSETS, TRANSACTION = "crowd", "modern", "offsets", "x"
"""Names of a classic and a consumer group of 5,000 members, a group of 10,000 offsets, a transaction of
10,000 partitions.
"""
CROWD_MEMBERS = 5_000
SMALL_GROUPS = 10_000
USERS = 1_000
PRODUCERS = 2_000
"""Number of producers of one partition."""
AN_HOUR_MS = 3_600_000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYTHING = [
    Acl(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*", PatternType.LITERAL, str(ANONYMOUS), "*",
        Operation.ALL, Permission.ALLOW)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
]  # fmt: skip
OF_OTHERS = [
    Acl(ResourceType.TOPIC, f"{letter}{n}", PatternType.PREFIXED, f"User:{n}", "*", Operation.READ, Permission.ALLOW)
    for letter in "aw" for n in range(500)
]  # fmt: skip
LOOKED_INTO = 8 << 20
"""Larger responses are not decoded: that takes as long as encoding."""


@dataclass
class Cost:
    """Cost of a request."""

    worst_cpu_ms: float = 0.0
    worst_wall_ms: float = 0.0
    cpu_ms: float = 0.0
    events: int = 0
    worst_event: int = 0
    grown_mb: float = 0.0
    """Peak growth of resident memory, without the request and the response."""
    body_bytes: int = 0
    answer_bytes: int = 0
    outcome: str = "no answer"


class LoadedBroker:
    """A broker on files, and one client connection."""

    def __init__(self, folder: Path | None, topic_count: int, *, denied: bool = False) -> None:
        self.storage: Storage = MemoryStorage() if folder is None else FileStorage(folder)
        config = BrokerConfig(
            group_initial_rebalance_delay_ms=0,
            auto_create_topics_enable=True,
            authorizer_class_name=AUTHORIZER if denied else "",
            group_consumer_session_timeout_ms=AN_HOUR_MS,
            group_consumer_max_session_timeout_ms=AN_HOUR_MS,
        )
        self.config = config
        self.denied = denied
        self.now_ms = int(time.time() * 1000)
        self.broker = Broker(config, self.storage, random.Random(1), self.now_ms)
        self.collections = ShortCollections()
        self.connection = 0
        self.topic_count = topic_count
        self.producer = (-1, -1)
        self.led: dict[str, str] = {}
        """Leaders of groups with one member."""
        if denied:
            self.broker.state.access.change(add=OF_OTHERS, remove=())
        self.let_all(True)
        self.connect()

    def let_all(self, allowed: bool) -> None:
        """Grant or revoke all rights of the client, if the broker has an authorizer."""
        if self.denied:
            self.broker.state.access.change(add=EVERYTHING if allowed else (), remove=() if allowed else EVERYTHING)

    def connect(self) -> None:
        self.connection += 1
        self.broker.handle(Connected(self.connection, "127.0.0.1"), self.now_ms)

    def ask(self, message: Message, version: int, client_id: str = "bench") -> tuple[Any, Cost]:
        """Send a request, and run the broker's timers until it is idle."""
        response = APIS[type(message).API_KEY or 0].response
        header = RequestHeader(type(message).API_KEY or 0, version, 1, client_id)
        return self.send(b"".join(build_request(header, message)), response, version)

    def send(self, data: bytes, response: type[Message], version: int, *, looks: bool = True) -> tuple[Any, Cost]:
        """Send the bytes of a request like ``ask``; decode the response if ``looks`` is set or it is small."""
        cost = Cost(body_bytes=len(data))
        with tempfile.TemporaryFile() as answers:
            frame = _FrameLength(answers)
            if not looks:
                _forget_peak()
            before = _memory("VmRSS")
            for event in self._events(data, frame):
                self._give(event, cost, frame)
            cost.grown_mb = (_memory("VmHWM") - before) / 1e6
            cost.answer_bytes = frame.size
            answer: Any = None
            if frame.is_whole and (looks or frame.size < LOOKED_INTO):
                answers.seek(4)
                _, answer = parse_response(answers.read(frame.size), response, version)
                cost.outcome = outcome_of(answer)
            elif frame.is_whole:
                cost.outcome = "answered"
        if frame.reason:
            cost.outcome = f"closed: {frame.reason}"[:60]
        return answer, cost

    def _events(self, data: bytes, frame: _FrameLength) -> Iterator[Received | Tick]:
        connection = self.connection
        for at in range(0, len(data), PIECE):
            yield Received(connection, data[at : at + PIECE])
        while not frame.is_whole or self.broker.long_work:
            wake = self.broker.wake_at_ms
            if wake is None or connection != self.connection:
                return
            self.now_ms = max(self.now_ms, wake)
            yield Tick()

    def _give(self, event: Received | Tick, cost: Cost, frame: _FrameLength) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        out = self.broker.handle(event, self.now_ms)
        self.collections.after_event(in_long_work=bool(self.broker.long_work))
        cpu_ms, wall_ms = (time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3
        if cpu_ms > cost.worst_cpu_ms:
            cost.worst_cpu_ms, cost.worst_event = cpu_ms, cost.events
        cost.worst_wall_ms = max(cost.worst_wall_ms, wall_ms)
        cost.cpu_ms += cpu_ms
        cost.events += 1
        self.broker.take_notes()
        for output in out:
            match output:
                case Send(connection=self.connection, buffers=buffers):
                    frame.feed(buffers)
                case Close(connection=self.connection, reason=reason):
                    frame.reason = str(reason)
                    self.connect()

    def lose_peer(self) -> None:
        self.broker.handle(Disconnected(self.connection), self.now_ms)
        self.connect()

    def settle(self) -> None:
        """Run due work, such as removal of folders."""
        while (wake := self.broker.wake_at_ms) is not None and wake <= self.now_ms:
            self.broker.handle(Tick(), self.now_ms)
            self.broker.take_notes()

    # ------------------------------------------------------------ contents

    def furnish(self) -> None:
        self.create([topics.CreatableTopic(name=WIDE, num_partitions=10_000, replication_factor=1)])
        for at in range(0, self.topic_count, 5_000):
            count = min(5_000, self.topic_count - at)
            self.create(
                [topics.CreatableTopic(name=f"t{at + i}", num_partitions=1, replication_factor=1) for i in range(count)]
            )
        for name, options in (("keyed", {"cleanup.policy": "compact"}), ("gzipped", {"compression.type": "gzip"})):
            made = [topics.CreatableTopicConfig(name=k, value=v) for k, v in options.items()]
            self.create([topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=made)])
        self.ask(find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        self.ask(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        self._add_users()
        self._write_groups()
        self.restart()
        self.begin_transaction()
        self._add_producers()

    def restart(self) -> None:
        """Close the broker and start it again on the same files."""
        self.broker.close(self.now_ms)
        del self.broker  # two brokers at once would leave holes in the memory of the one that is measured
        gc.collect()
        self.broker = Broker(self.config, self.storage, random.Random(1), self.now_ms)
        self.connect()
        self.settle()

    def _add_users(self) -> None:
        upserted = [
            sasl.ScramCredentialUpsertion(
                name=f"user{n}", mechanism=1, iterations=4096, salt=b"salt", salted_password=bytes(32)
            )
            for n in range(USERS)
        ]
        self.ask(sasl.AlterUserScramCredentialsRequest(upsertions=upserted), 0)
        entries = [
            quotas.QuotaAlteration(
                entity=[quotas.QuotaEntityPart(entity_type="user", entity_name=f"user{n}")],
                ops=[quotas.QuotaOperation(key="producer_byte_rate", value=1e9)],
            )
            for n in range(USERS)
        ]
        self.ask(quotas.AlterClientQuotasRequest(entries=entries), 1)

    def _write_groups(self) -> None:
        """Append groups to the log; the next start loads them."""
        self._append(CROWD, [classic_group(CROWD, CROWD_MEMBERS)])
        self._append(MODERN, consumer_group(MODERN, CROWD_MEMBERS, self.wide_id()))
        self._append(OFFSETS, offsets_of(OFFSETS, WIDE_PARTITIONS))
        small = {n: f"g{n}" for n in range(SMALL_GROUPS)}
        for group in small.values():
            self._append(group, offsets_of(group, 1))

    def _append(self, group: str, records: Iterable[Record]) -> None:
        state = self.broker.state
        state.offsets_topic.ensure(self.now_ms)
        log = state.topics.get(state.offsets_topic.name).partitions[state.coordinator.partition_of(group)]
        built = [NewRecord(key, value, (), self.now_ms) for key, value in map(build_record, records)]
        for at in range(0, len(built), 1_000):
            log.append(build_batch(built[at : at + 1_000]), self.now_ms, from_client=False)

    def begin_transaction(self) -> None:
        """Start a transaction of all partitions of the wide topic."""
        request = producer_ids.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=900_000)
        answer, _ = self.ask(request, 4)
        self.producer = answer.producer_id, answer.producer_epoch
        wide = transactions.AddPartitionsToTxnTopic(name=WIDE, partitions=list(range(WIDE_PARTITIONS)))
        self.ask(
            transactions.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=TRANSACTION,
                v3_and_below_producer_id=self.producer[0],
                v3_and_below_producer_epoch=self.producer[1],
                v3_and_below_topics=[wide],
            ),
            3,
        )

    def join(self, group: str) -> tuple[str, int]:
        """Join a new group; return the leader, which waits for its SyncGroup, and the generation."""
        protocols = [group_classic.JoinGroupRequestProtocol(name="range", metadata=b"")]
        request = group_classic.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=1_800_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        if group in self.led:
            self.ask(group_classic.LeaveGroupRequest(group_id=group, member_id=self.led[group]), 2)
        answer, _ = self.ask(request, 3)
        self.led[group] = answer.member_id
        return answer.member_id, answer.generation_id

    def _add_producers(self) -> None:
        log = self.broker.state.topics.get(WIDE).partitions[0]
        for n in range(PRODUCERS):
            batch = build_batch([NewRecord(None, b"v")], producer_id=1_000_000 + n, producer_epoch=0, base_sequence=0)
            log.append(batch, self.now_ms, from_client=False)

    def create(self, new_topics: list[topics.CreatableTopic]) -> None:
        answer, _ = self.ask(topics.CreateTopicsRequest(topics=new_topics, timeout_ms=60_000), 7)
        assert all(t.error_code in (0, 36) for t in answer.topics), answer.topics[0]

    def wide_id(self) -> bytes:
        return self.broker.state.topics.get(WIDE).topic_id  # type: ignore[union-attr]


class _FrameLength:
    """A file for a response that detects its end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._written = 0
        self._head = b""
        self.reason = ""
        """Why the connection was closed."""

    def feed(self, buffers: Iterable[Any]) -> None:
        for buffer in buffers:
            if len(self._head) < 4:
                self._head = (self._head + bytes(buffer[:4]))[:4]
            self._file.write(buffer)
            self._written += len(buffer)

    @property
    def size(self) -> int:
        return int.from_bytes(self._head) if len(self._head) == 4 else 0

    @property
    def is_whole(self) -> bool:
        return self._written > 0 and self._written >= self.size + 4


def resting_mb() -> float:
    """Return the resident memory of this process after a release of free memory."""
    _forget_peak()
    return _memory("VmRSS") / 1e6


def _forget_peak() -> None:
    """Reset the peak of resident memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def _memory(line: str) -> float:
    """Return a line of the system's memory statistics of this process, in bytes."""
    found = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(line))
    return int(found.split()[1]) * 1024


def classic_group(group: str, members: int) -> Record:
    """Return the record of a stable classic group with two partitions per member."""
    subscription = build_subscription(Subscription([WIDE]))
    return GroupWritten(
        group,
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader="m0",
            members=[
                MemberMetadata(
                    member_id=f"m{n}",
                    client_id="app",
                    client_host="/127.0.0.1",
                    rebalance_timeout=1_800_000,
                    session_timeout=1_800_000,
                    subscription=subscription,
                    assignment=assignment_of([2 * n, 2 * n + 1]),
                )
                for n in range(members)
            ],
        ),
    )


def assignment_of(partitions: Iterable[int]) -> bytes:
    """Build the assignment of partitions of the wide topic."""
    return build_assignment(Assignment([TopicPartition(WIDE, p) for p in partitions]))


def consumer_group(group: str, members: int, topic_id: bytes) -> Iterator[Record]:
    """Yield the records of a consumer group with two partitions per member."""
    yield EpochWritten(group, ConsumerGroupMetadataValue(epoch=2))
    target = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp=1)
    for n in range(members):
        metadata = ConsumerGroupMemberMetadataValue(
            client_id="app", client_host="/127.0.0.1", subscribed_topic_names=[WIDE], rebalance_timeout_ms=60_000
        )
        has = {topic_id: dict.fromkeys((2 * n, 2 * n + 1), 2)}
        yield MemberWritten(group, f"m{n}", metadata)
        yield TargetWritten(group, f"m{n}", target_value_of({topic_id: frozenset(has[topic_id])}))
        yield CurrentWritten(group, f"m{n}", value_of(CurrentAssignment(2, 1, ReconciliationState.STABLE, has)))
    yield TargetEpochWritten(group, target)


def offsets_of(group: str, partitions: int) -> Iterator[Record]:
    """Yield the offset records of the wide topic."""
    for p in range(partitions):
        yield OffsetCommitted(group, WIDE, p, OffsetCommitValue(offset=0, leader_epoch=-1, metadata=""))


def outcome_of(answer: Any) -> str:
    """Return the first error code in a response, with its number of occurrences."""
    codes: dict[int, int] = {}
    todo = [answer]
    while todo:
        one = todo.pop()
        for spec in one.FIELDS:
            value = getattr(one, spec.name)
            if spec.name.endswith("error_code"):
                codes[value] = codes.get(value, 0) + 1
            elif spec.kind == "array" and isinstance(spec.of, type) and value:
                todo += value
    return " ".join(f"{code}x{count}" for code, count in sorted(codes.items())) or "answered"


def spread(n: int) -> Iterator[tuple[str, list[int]]]:
    """Yield ``n`` partitions of the wide topic, repeated if needed."""
    while n > 0:
        count = min(n, 10_000)
        yield WIDE, list(range(count))
        n -= count


def names(n: int) -> list[str]:
    """Return ``n`` short distinct names without a topic."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    return [
        "".join((letters[i >> 18 & 63], letters[i >> 12 & 63], letters[i >> 6 & 63], letters[i & 63])) for i in range(n)
    ]
