"""A coordinator without a broker: raw requests, a manual clock, a log that can reject appends.

After every event the invariants are checked, and a replay of the log must give the persisted state.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kohort.clock import ManualClock
from kohort.config import BrokerConfig
from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.coordinator.memory_budget import sizes_of
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import GroupRequest, MayDescribe, Reply, may_describe_all
from kohort.coordinator.records import (
    InTransaction,
    KeyValue,
    LogItem,
    Record,
    TransactionEnded,
    parse_record,
)
from kohort.coordinator.replay import Skipped
from kohort.coordinator.runtime import Coordinator
from kohort.errors import KohortError
from kohort.model import ProducerIdAndEpoch
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.schema import Message
from kohort_lab.sim.checks.group_invariants import check_all, check_decision, check_log
from support.consumer_protocol import assignment, subscription

GROUP = "g"


class Topics:
    """Topics by name, with ids and partition counts that a test can change."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = dict(partitions)
        self.ids = {name: name.encode().ljust(16, b"\x01") for name in partitions}
        self.changes = 0
        self.ends: dict[tuple[str, int], int] = {}
        """Log end offsets that a test sets."""
        self.made: dict[str, int] = {}

    def end_offset(self, name: str, partition: int) -> int | None:
        return self.ends.get((name, partition))

    def made_at_ms(self, name: str) -> int | None:
        return self.made.get(name)

    def topic_id(self, name: str) -> bytes | None:
        return self.ids.get(name)

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, other_id in self.ids.items() if other_id == topic_id), None)

    def partition_count(self, name: str) -> int | None:
        return self.partitions.get(name)

    def names(self) -> list[str]:
        return sorted(self.partitions)

    @property
    def version(self) -> int:
        return self.changes

    def delete(self, name: str) -> None:
        del self.partitions[name], self.ids[name]
        self.changes += 1

    def make(self, name: str, partitions: int) -> None:
        """Create a topic, or set its number of partitions."""
        self.partitions[name] = partitions
        self.ids.setdefault(name, name.encode().ljust(16, b"\x01"))
        self.changes += 1


RANGE = (("range", subscription("t")),)


def load(coordinator: Coordinator, partition: int, records: Sequence[LogItem], now_ms: int) -> list[Reply]:
    coordinator.start_loading(partition)
    coordinator.load_some(partition, records, now_ms, Skipped())
    return coordinator.finish_loading(partition, now_ms)


def bytes_of(groups: Groups) -> int:
    return sum(size for size, _ in sizes_of(groups))


class CoordinatorStage:
    """One coordinator, its log, and its responses by ticket."""

    def __init__(self, *, topics: Topics | None = None, **options: Any) -> None:
        options = {"group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 3} | options
        self.config = BrokerConfig(**options)
        self.clock = ManualClock()
        self.rng = random.Random(1)
        self.topics = topics or Topics(t=4, u=2)
        self.log: dict[int, list[LogItem]] = {p: [] for p in range(self.config.offsets_topic_num_partitions)}
        self.refuse_with: KohortError | None = None
        self.answers: dict[int, Message] = {}
        self.journal: list[JournalEntry] = []
        self.tickets = 0
        self.received_types: set[type[Message]] = set()
        self.appended = 0
        self.coordinator = self._coordinator()

    def _coordinator(self) -> Coordinator:
        coordinator = Coordinator(self.config, self.rng, self.topics, self._append, check=check_decision)
        for partition, records in self.log.items():
            self._take(load(coordinator, partition, records, self.now))
        return coordinator

    def _append(
        self, partition: int, records: Sequence[KeyValue], now_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> None:
        if self.refuse_with is not None:
            raise self.refuse_with
        entries = [(b"", InTransaction(producer.producer_id, list(records)))] if producer is not None else records
        self.log[partition].extend(entries)
        self.appended += len(records)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    # Events.

    def ask(
        self,
        message: Message,
        version: int,
        *,
        client_id: str = "app",
        client_host: str = "/127.0.0.1",
        connection: int = 1,
        may_describe: MayDescribe = may_describe_all,
        principal: str = "",
        software: str | None = None,
    ) -> int:
        """Send a request; return its ticket. The response appears in ``answers``."""
        self.tickets += 1
        self.received_types.add(type(message))
        request = GroupRequest(
            message, version, client_id, client_host, self.tickets, connection, may_describe, principal, software
        )
        self._take(self.coordinator.handle(request, self.now))
        self.advance(0)
        self.check()
        return self.tickets

    def advance(self, delta_ms: int) -> None:
        """Advance the clock; every timer fires at its time."""
        end_ms = self.now + delta_ms
        while (wake_at_ms := self.coordinator.wake_at_ms) is not None and wake_at_ms <= end_ms:
            self.clock.advance(max(0, wake_at_ms - self.now))
            self._take(self.coordinator.tick(self.now))
            self.check()
        self.clock.advance(end_ms - self.now)

    def restart(self) -> None:
        """Restart the broker from its log; parked requests are lost."""
        self.coordinator = self._coordinator()
        self.check()

    def unload(self) -> None:
        for partition in self.log:
            self._take(self.coordinator.unload(partition, self.now))

    def reload(self) -> None:
        """Reload the partition's log, as after a leader change."""
        for partition, records in self.log.items():
            self._take(load(self.coordinator, partition, records, self.now))
        self.check()

    def _take(self, replies: list[Reply]) -> None:
        for reply in replies:
            assert reply.to not in self.answers, f"{reply.request.message!r} is answered twice"
            assert isinstance(reply.to, int)
            self.answers[reply.to] = reply.message

    def check(self) -> None:
        check_all(self.coordinator, self.now)
        for partition, records in self.log.items():
            check_log(self.coordinator, partition, records)
        entries = self.coordinator.take_journal()
        assert [parse_entry(build_entry(entry)) for entry in entries] == entries
        self.journal += entries

    def end_transaction(self, producer_id: int, *, commit: bool, group: str = GROUP) -> None:
        """Write a marker to the group's partition."""
        partition = self.coordinator.partition_of(group)
        ended = TransactionEnded(producer_id, commit)
        self.log[partition].append((b"", ended))
        self.coordinator.transaction_ended(partition, ended)
        self.check()

    # Responses.

    def answer(self, ticket: int) -> Any:
        """Return the response, or None while the request is parked."""
        return self.answers.get(ticket)

    def records(self) -> list[Record]:
        """Parsed records of the log outside of transactions, partition by partition."""
        items = (item for records in self.log.values() for item in records)
        parsed = [
            parse_record(key, value) for key, value in items if not isinstance(value, InTransaction | TransactionEnded)
        ]
        return [record for record in parsed if record is not None]

    def entries(self, *kinds: type[JournalEntry]) -> list[Any]:
        return [entry for entry in self.journal if isinstance(entry, kinds)]

    # Shorthands for requests.

    def join(
        self,
        member_id: str = "",
        *,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        version: int = 9,
        instance_id: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        reason: str | None = None,
        group: str = GROUP,
        **who: Any,
    ) -> int:
        message = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
            reason=reason,
        )
        return self.ask(message, version, **who)

    def enter(self, **options: Any) -> tuple[str, int]:
        """Join in two steps as a dynamic member; return the member id and the ticket of the second step."""
        member_id = self.answer(self.join(**options)).member_id
        return member_id, self.join(member_id, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group: str = GROUP,
        **who: Any,
    ) -> int:
        message = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assignments or {}).items()],
        )
        return self.ask(message, version, **who)

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group: str = GROUP, **who: Any
    ) -> int:
        """Send a heartbeat; return its error code."""
        message = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        code: int = self.answer(self.ask(message, 4, **who)).error_code
        return code

    def leave(
        self,
        *members: str | MemberIdentity,
        version: int = 5,
        reason: str | None = None,
        group: str = GROUP,
        **who: Any,
    ) -> int:
        entries = [MemberIdentity(member_id=m, reason=reason) if isinstance(m, str) else m for m in members]
        if version < 3:
            return self.ask(LeaveGroupRequest(group_id=group, member_id=entries[0].member_id), version, **who)
        return self.ask(LeaveGroupRequest(group_id=group, members=entries), version, **who)

    def commit(
        self,
        offsets: dict[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        version: int = 8,
        retention_ms: int = -1,
        metadata: str | None = None,
        group: str = GROUP,
        **who: Any,
    ) -> list[int]:
        """Commit; return the error codes in the order of the partitions (one topic entry per topic)."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, partition), offset in offsets.items():
            p = OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(p)
        message = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=name, topic_id=self.topics.topic_id(name) or bytes(16), partitions=partitions
                )
                for name, partitions in topics.items()
            ],
        )
        response = self.answer(self.ask(message, version, **who))
        return [p.error_code for topic in response.topics for p in topic.partitions]

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Sequence[tuple[str, int]] | None = None,
        *,
        group: str = GROUP,
        version: int = 1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a ConsumerGroupHeartbeat; ``fields``: fields of the request, ``client_id`` and the like."""
        names = ("client_id", "client_host", "connection", "may_describe", "software")
        who = {name: fields.pop(name) for name in names if name in fields}
        topic_partitions = None
        if owned is not None:
            by_topic: dict[str, list[int]] = {}
            for topic, partition in owned:
                by_topic.setdefault(topic, []).append(partition)
            topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=self.topics.ids[topic], partitions=of)
                for topic, of in by_topic.items()
            ]
        message = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member_id, member_epoch=epoch, topic_partitions=topic_partitions, **fields
        )
        answer = self.answer(self.ask(message, version, **who))
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def come(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join a consumer group with a subscription to ``topics`` (default t)."""
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics or ("t",))} | fields
        return self.beat(member_id, 0, [], **fields)

    def assignment_in(self, answer: ConsumerGroupHeartbeatResponse) -> list[tuple[str, int]] | None:
        """Return the assignment in a response, by topic names; None without an assignment."""
        if answer.assignment is None:
            return None
        return sorted(
            (self.topics.topic_name(topic.topic_id) or "?", partition)
            for topic in answer.assignment.topic_partitions
            for partition in topic.partitions
        )

    def stable(self, count: int, **options: Any) -> tuple[list[str], int]:
        """Form a stable group, one partition of t each; return member ids (leader first) and generation."""
        entered = [self.enter(**options) for _ in range(count)]
        ids = [member_id for member_id, _ in entered]
        for _ in range(5):
            parked = {m for m, ticket in entered if self.answer(ticket) is None}
            if not parked:
                break
            entered = [(m, t if m in parked else self.join(m, **options)) for m, t in entered]
        joined = [self.answer(ticket) for _, ticket in entered]
        generation = max(j.generation_id for j in joined)
        assert all(j.generation_id == generation for j in joined)
        leader = joined[0].leader
        assignments = {m: assignment(("t", i)) for i, m in enumerate(ids)}
        group = options.get("group", GROUP)
        for member_id in [leader, *(m for m in ids if m != leader)]:
            ticket = self.sync(member_id, generation, assignments if member_id == leader else None, group=group)
            assert self.answer(ticket).assignment == assignments[member_id]
        return [leader, *(m for m in ids if m != leader)], generation
