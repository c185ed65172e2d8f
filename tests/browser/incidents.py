from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from kohort.coordinator.journal import JournalEntry, build_entry, parse_entry
from kohort.insight.journal_reader import JournalReader
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.model import TopicPartition
from kohort.wire.record_batch import read_batch, split_batches
from support.machines.consumer_stage import ConsumerStage, User

HOSTS = {"checkout-4": "/10.0.2.14", "billing-2": "/10.0.1.12", "billing-3": "/10.0.1.13"}

HOSTILE = ('<img src=x onerror="alert(1)">\u202eevil', "<script>alert(2)</script>\x1b[2J\u202e")


class Incident(NamedTuple):
    group: str
    entries: list[JournalEntry]
    looks: list[GroupSnapshot]


class PlayedIncident:
    def __init__(self, group: str, topics: dict[str, int], **options: Any) -> None:
        self.group, self.topics, self.options = group, topics, options
        self.stage = ConsumerStage(group_consumer_assignment_interval_ms=0)
        for name, partitions in topics.items():
            self.stage.topic(name, partitions)
        self.looks: list[GroupSnapshot] = []
        self._committed: dict[TopicPartition, int] = {}

    def join(self, client_id: str, **more: Any) -> User:
        options = {"metadata_max_age_ms": 5000, "auto_commit_interval_ms": 1000, **self.options, **more}
        return self.stage.user(list(self.topics), group_id=self.group, client_id=client_id, **options)

    def goes_on(self, seconds: float, without: Sequence[User] = ()) -> None:
        end_ms = self.stage.now_ms + round(seconds * 1000)
        while (remaining_ms := end_ms - self.stage.now_ms) > 0:
            for user in self.living():
                if user not in without:
                    user.poll()
            self.stage.loop.settle()
            calm = all(user.machine.is_stable for user in self.living() if user not in without)
            self.stage.loop.run(min(remaining_ms, 500 if calm else 50))

    def living(self) -> list[User]:
        return [user for user in self.stage.users if user.alive]

    def produce(self, number: int) -> None:
        for topic, partitions in self.topics.items():
            for partition in range(partitions):
                self.stage.produce(topic, partition, *[b"{}"] * (number * (4 if partition == 0 else 1)))

    def look(self) -> None:
        living = self.living()
        modern = bool(living) and living[0].machine.config.group_protocol == "consumer"
        coordinator = self.stage.broker.state.coordinator
        committed = coordinator.committed(self.group)
        stable = all(user.machine.is_stable for user in living)
        self.looks.append(
            GroupSnapshot(
                at_ms=self.stage.now_ms,
                group=self.group,
                state=("Stable" if stable else "Reconciling" if modern else "PreparingRebalance")
                if living
                else "Empty",
                protocol="consumer" if modern else "classic",
                assignor=self.assignor(modern),
                coordinator_id=0,
                epoch=living[0].membership.generation.generation_id if modern else None,
                members=tuple(self._member(user, modern) for user in living),
                partitions=tuple(
                    self._partition(TopicPartition(topic, number), committed)
                    for topic, count in self.topics.items()
                    for number in range(count)
                ),
                partition_counts=dict(self.topics),
            )
        )

    def assignor(self, modern: bool) -> str:
        if modern:
            return "uniform"
        return str(self.options.get("partition_assignment_strategy", "range"))

    def _member(self, user: User, modern: bool) -> MemberSnapshot:
        at, config = user.membership, user.machine.config
        name = config.client_id or ""
        return MemberSnapshot(
            member_id=at.member_id if modern else at.generation.member_id,
            client_id=name,
            host=HOSTS.get(name, "/10.0.0.1"),
            instance_id=config.group_instance_id,
            topics=tuple(self.topics),
            assignment=tuple(sorted(user.machine.subscription.assigned)),
            epoch=at.generation.generation_id if modern else None,
            protocol="consumer" if modern else "classic",
        )

    def _partition(self, tp: TopicPartition, committed: Any) -> PartitionSnapshot:
        log = self.stage.broker.state.topics.log(tp.topic, tp.partition)
        assert log is not None
        at = None if committed is None else committed.get(tp.topic, tp.partition)
        offset = None if at is None else at.offset
        end = log.log_end_offset
        waits = offset is not None and offset < end
        return PartitionSnapshot(
            partition=tp,
            committed=offset,
            log_start=0,
            log_end=end,
            last_stable=end,
            committed_record_at_ms=self.stage.now_ms - 95_000 if waits else None,
            waiting=waits if offset is not None else None,
        )

    def done(self) -> Incident:
        return Incident(self.group, [_moved(entry) for entry in self._journal()], self.looks)

    def _journal(self) -> list[JournalEntry]:
        log = self.stage.broker.state.topics.log("__kohort_journal", 0)
        assert log is not None
        reader = JournalReader(self.group)
        data = b"".join(bytes(part) for part in log.read(0, 1 << 30))
        for at, _ in split_batches(data):
            for record in read_batch(data, at):
                reader.add(record.key, record.value)
        return reader.entries


def _moved(entry: JournalEntry) -> JournalEntry:
    entry_fields = msgspec.json.decode(build_entry(entry))
    _rehost(entry_fields)
    return parse_entry(msgspec.json.encode(entry_fields))


def _rehost(value_of_entry: Any) -> None:
    if isinstance(value_of_entry, dict):
        if value_of_entry.get("client_id") in HOSTS and "client_host" in value_of_entry:
            value_of_entry["client_host"] = HOSTS[value_of_entry["client_id"]]
        for value in value_of_entry.values():
            _rehost(value)
    elif isinstance(value_of_entry, list):
        for value in value_of_entry:
            _rehost(value)


def stuck_poller() -> Incident:
    """Group ``checkout`` (cooperative): one member exceeds max.poll.interval.ms and rejoins, another member crashes."""
    options = {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
    times = {"session_timeout_ms": 10_000, "max_poll_interval_ms": 30_000, "heartbeat_interval_ms": 1000}
    group = PlayedIncident("checkout", {"orders": 8, "carts": 4}, **options, **times)
    group.join("checkout-1")
    group.join("checkout-2")
    group.goes_on(20)
    third = group.join("checkout-3")
    group.goes_on(40)
    group.join("checkout-4")
    group.goes_on(3)
    group.produce(20)
    group.goes_on(52)
    group.goes_on(55, without=[third])
    group.produce(30)
    group.goes_on(35)
    group.living()[3].die()
    group.look()
    group.goes_on(20)
    group.goes_on(25)
    group.produce(12)
    group.look()
    return group.done()


def slow_joiner() -> Incident:
    """Group ``billing`` (eager): a rebalance waits for a slow member. Later, two members restart in turn."""
    times = {"session_timeout_ms": 30_000, "max_poll_interval_ms": 40_000, "heartbeat_interval_ms": 1000}
    options = {"group_protocol": "classic", "partition_assignment_strategy": "range", **times}
    group = PlayedIncident("billing", {"invoices": 6}, **options)
    first = group.join("billing-1")
    second = group.join("billing-2")
    group.goes_on(30)
    group.join("billing-3")
    group.goes_on(12, without=[second])
    group.goes_on(30)
    for old, name in ((first, "billing-1"), (second, "billing-2")):
        old.leave()
        group.goes_on(4)
        group.join(name)
        group.goes_on(26)
    group.produce(40)
    group.look()
    group.goes_on(20)
    group.look()
    return group.done()


def slow_revoker() -> Incident:
    group = PlayedIncident("payments", {"payments": 9}, group_protocol="consumer", group_remote_assignor="uniform")
    group.join("payments-1")
    slow = group.join("payments-2")
    group.goes_on(25)
    group.join("payments-3")
    group.goes_on(14, without=[slow])
    group.goes_on(30)
    group.join("payments-4").stage.polls(4000)
    group.goes_on(20)
    group.living()[0].leave()
    group.goes_on(20)
    group.look()
    group.goes_on(20)
    group.produce(9)
    group.look()
    return group.done()


def without_members() -> Incident:
    """Group ``reports``: its only member leaves, and its lag grows."""
    group = PlayedIncident("reports", {"daily": 2}, group_protocol="classic", partition_assignment_strategy="range")
    only = group.join("reports-nightly")
    group.produce(5)
    group.goes_on(30)
    only.leave()
    group.goes_on(5)
    group.produce(400)
    group.look()
    group.goes_on(20)
    group.look()
    return group.done()


def strangers() -> Incident:
    """Group whose names contain markup, an escape sequence and right-to-left text."""
    name, client = HOSTILE
    options = {"group_protocol": "classic", "partition_assignment_strategy": "range"}
    group = PlayedIncident(name, {"things": 3}, **options)
    group.join(client)
    group.goes_on(20)
    group.join(client + "x" * 2000)
    group.goes_on(20)
    group.look()
    return group.done()


PLAYED: tuple[Callable[[], Incident], ...] = (stuck_poller, slow_joiner, slow_revoker, without_members, strangers)
