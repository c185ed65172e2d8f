"""KIP-429: two rolling restarts migrate a running group from eager to cooperative rebalances."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest

import kohort
from kohort import TopicPartition
from support.waiting import eventually

pytestmark = pytest.mark.timeout(400)
PARTITIONS = 6
DEADLINE_S = 120
EAGER, BOTH, COOPERATIVE = "range", "cooperative-sticky,range", "cooperative-sticky"


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.twice: list[str] = []
        self.read: list[int] = []
        self.revoked: dict[str, list[int]] = {}

    def assigned(self, member: str, partitions: list[TopicPartition]) -> None:
        with self._lock:
            for p in partitions:
                if p.partition in self.owners:
                    self.twice.append(f"{p} was given to {member} while {self.owners[p.partition]} had it")
                self.owners[p.partition] = member

    def record_revoked(self, member: str, partitions: list[TopicPartition]) -> None:
        with self._lock:
            self.revoked.setdefault(member, []).append(len(partitions))
            for p in partitions:
                assert self.owners.pop(p.partition) == member

    def shares(self) -> dict[str, int]:
        with self._lock:
            owners = sorted(self.owners.values())
        return {member: len(list(theirs)) for member, theirs in itertools.groupby(owners)}


class Member(threading.Thread):
    def __init__(self, name: str, bootstrap: str, topic: str, strategies: str, ledger: Ledger) -> None:
        super().__init__(daemon=True, name=name)
        self.ledger, self.stopping = ledger, False
        self.failure: BaseException | None = None
        self.consumer = kohort.Consumer(
            bootstrap_servers=bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
            partition_assignment_strategy=strategies,
        )
        self.consumer.subscribe(topic, listener=self)
        self.start()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.ledger.assigned(self.name, partitions)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.ledger.record_revoked(self.name, partitions)

    on_partitions_lost = on_partitions_revoked

    def run(self) -> None:
        try:
            with self.consumer:
                while not self.stopping:
                    self.ledger.read += [int(r.value) for r in self.consumer.poll(100)]
        except BaseException as error:  # noqa: BLE001  # raised again by stop()
            self.failure = error

    def stop(self) -> None:
        self.stopping = True
        self.join(DEADLINE_S)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def members() -> Iterator[dict[int, Member]]:
    made: dict[int, Member] = {}
    yield made
    for member in made.values():
        member.stopping = True
    for member in made.values():
        member.join(DEADLINE_S)


def until(done: Callable[[], object], ledger: Ledger) -> None:
    def state() -> str:
        return f"{ledger.shares()}, {ledger.twice}, {len(ledger.read)} read"

    eventually(done, state, deadline_s=DEADLINE_S, pause_s=0.01)


def test_two_rolling_restarts_migrate_a_group_from_range_to_cooperative_sticky(bootstrap, topic, members):
    ledger = Ledger()
    numbers = itertools.count()

    def send(producer: kohort.Producer) -> None:
        for _ in range(20):
            n = next(numbers)
            producer.send(topic, b"%d" % n, partition=n % PARTITIONS)

    def start(seat: int, strategies: str) -> None:
        members[seat] = Member(f"{seat}:{strategies}", bootstrap, topic, strategies, ledger)

    def shared() -> bool:
        return ledger.shares() == {member.name: 2 for member in members.values()}

    with kohort.Producer(bootstrap_servers=bootstrap) as producer, kohort.Admin(bootstrap_servers=bootstrap) as admin:
        for seat in range(3):
            start(seat, EAGER)
        until(shared, ledger)
        for strategies in (BOTH, COOPERATIVE):
            for seat in range(3):
                send(producer)
                members[seat].stop()
                start(seat, strategies)
                until(shared, ledger)
        send(producer)
        producer.flush()
        until(lambda: len(ledger.read) >= 140, ledger)
        described = admin.describe_groups([topic])[topic]
        assert (described.state, described.assignor) == ("Stable", COOPERATIVE)

        first = members.pop(0)
        kept = {p for p, owner in ledger.owners.items() if owner != first.name}
        before = dict(ledger.owners)
        first.stop()
        until(lambda: len(ledger.owners) == PARTITIONS, ledger)
        assert {p: ledger.owners[p] for p in kept} == {p: before[p] for p in kept}

    assert ledger.twice == []
    assert sorted(ledger.read) == list(range(140)), "all of it, and none of it twice"
    still_here = [member.name for member in members.values()]
    assert all(0 not in ledger.revoked.get(name, []) for name in still_here), "nobody gave up what it did not have to"
