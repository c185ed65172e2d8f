"""A story of ``handle`` on an in-memory broker with a manual clock: members die, nothing is lost or passed over."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from kohort.aio.group.group_calls import GroupCalls, group_config
from kohort.aio.group.record_calls import Pause, RecordCalls
from kohort.aio.group.session_state import Session, SessionState
from kohort.client.handling.failures import failure_of
from kohort.client.partition_claims import ClaimState
from kohort.model import Record
from kohort.schemas.serde import SchemaNeeded
from kohort.wire.record_batch import NewRecord
from support.machines.consumer_stage import SERVERS, ConsumerStage, User, tp
from support.machines.stage_waits import StageWaits

COUNT = 60
FAILED = set(range(0, COUNT, 7))
"""Numbers that fail at each attempt."""
ATTEMPTS = {number: 3 if number in FAILED else 1 for number in range(COUNT)}
TOPICS = {"t": 2, "t-retry-100": 2, "t-retry-200": 2, "t-dlt": 2}


class Killed(BaseException):
    """The member dies: its connections are closed, it commits nothing and does not leave the group."""


class StageClients:
    """Producer and admin client of the calls, on the producer of the stage."""

    def __init__(self, stage: ConsumerStage, note_delivery: Callable[[str, bytes], None]) -> None:
        self._stage = stage
        self._note_delivery = note_delivery

    def now_ms(self) -> int:
        return self._stage.now_ms

    def producer(self, _options: Mapping[str, Any]) -> StageClients:
        return self

    def admin(self, _options: Mapping[str, Any]) -> Any:
        raise AssertionError("the topics exist")

    def partitions_for(self, topic: str) -> int:
        return TOPICS[topic]

    def send(self, topic: str, value: bytes, key: bytes, *, partition: int, headers: Any, timestamp_ms: int) -> Any:
        stage = self._stage
        record = NewRecord(key, value, tuple(headers), timestamp_ms)
        stage.loop.run_until(lambda: stage.producer.partitions(topic) is not None)
        batch, _, _ = stage.producer.add(topic, partition, record, stage.now_ms)
        return topic, value, batch

    def delivered(self, sent: Any) -> None:
        topic, value, batch = sent
        self._stage.loop.run_until(lambda: batch.done)
        assert batch.error is None
        self._note_delivery(topic, value)

    def fetch(self, _needed: SchemaNeeded) -> None:
        raise AssertionError("values without schemas")

    def close(self) -> None:
        """Keep the producer open: the next member of the stage uses it."""


class StageClaim:
    def __init__(self, session: SessionState, state: ClaimState) -> None:
        self._session, self._state = session, state

    def _take(self) -> Any:
        return self._state.inbox.popleft()


class Steps:
    """Runs the calls of all claims of a session in one thread; each feed of the session continues them."""

    def __init__(self, calls: RecordCalls, state: SessionState) -> None:
        self.state = state
        self.session = Session(state)
        self._calls = calls
        self._running: list[Iterator[None]] = []
        self._feed = state.feed
        state.feed = self.feed  # type: ignore[method-assign]
        for claim in state.claims.by_partition.values():
            state.wake_by(claim, lambda: None)

    def start(self, _handler: object) -> None:
        self._running = [self._run(claim) for claim in self.state.claims.by_partition.values()]

    def feed(self) -> bool | None:
        found = self._feed()
        for running in self._running:
            next(running, None)
        return found

    def _run(self, state: ClaimState) -> Iterator[None]:
        """Run the call of a claim; yield while it waits for records or for the end of a delay."""
        claim, now_ms = StageClaim(self.state, state), self.state.waits.now_ms
        call = self._calls.in_order(self.session, claim)
        value: Any = None
        error: Exception | None = None
        while True:
            try:
                wait = call.send(value) if error is None else call.throw(error)
            except StopIteration:
                return
            error = None
            if isinstance(wait, Pause):
                until_ms = now_ms() + wait.delay_ms
                while now_ms() < until_ms and not self.state.ending:
                    yield
                value = not self.state.ending
            elif wait.work == claim._take:
                while not (state.inbox or self.state.ending):
                    yield
                value = None if self.state.ending else wait.work()
            else:
                try:
                    value = wait.work()
                except Exception as failed:  # noqa: BLE001  # raised in the call
                    value, error = None, failed

    def join(self, _patience_ms: int) -> None:
        for running in self._running:
            next(running, None)

    def is_current(self) -> bool:
        return False


class Unneeded:
    """Handler of the sessions: the calls handle the records."""

    def setup(self, _session: Session) -> None: ...

    def cleanup(self, _session: Session) -> None: ...


class Story:
    """Successive members of one group on one topic. Some members die while they handle a record."""

    def __init__(self, seed: int, deaths: int) -> None:
        self.stage = ConsumerStage()
        for topic, partitions in TOPICS.items():
            self.stage.topic(topic, partitions)
        for number in range(COUNT):
            self.stage.produce("t", number % 2, b"%d" % number)
        rng = random.Random(seed)
        self._die_at = sorted(rng.sample(range(1, COUNT), deaths))
        self.handled: Counter[int] = Counter()
        self.letters: Counter[int] = Counter()
        self._group: GroupCalls | None = None
        self._user: User | None = None

    def run(self) -> None:
        while not self.is_over:
            user = self._user = self.stage.user(group_id="g", enable_auto_commit=False, session_timeout_ms=6000)
            clients = StageClients(self.stage, self.note_delivery)
            options = {"attempts": 3, "delay_ms": 100, "delay_factor": 2, "retry_topics": True, "dead_letters": True}
            calls = RecordCalls(user.machine, "t", self._handle, {**options, "create_topics": False}, clients)
            waits = StageWaits(user)
            config = group_config({"bootstrap_servers": SERVERS, "group_id": "g"}, {}, 100)
            topics = waits.run_anywhere(calls.prepare())  # type: ignore[arg-type]  # no call pauses in it
            self._group = GroupCalls(waits, config, 100, nullcontext, lambda state, calls=calls: Steps(calls, state))
            with suppress(Killed):
                waits.run_anywhere(self._group.consume(topics, Unneeded()))

    @property
    def is_over(self) -> bool:
        return all(self.handled[n] >= ATTEMPTS[n] for n in ATTEMPTS) and self.letters.keys() >= FAILED

    def note_delivery(self, topic: str, value: bytes) -> None:
        if topic == "t-dlt":
            self.letters[int(value)] += 1
        self._stop_at_end()

    def _handle(self, record: Record) -> None:
        number = int(record.value or b"")
        self.handled[number] += 1
        if self._die_at and self.handled.total() >= self._die_at[0]:
            self._die_at.pop(0)
            assert self._user is not None
            self._user.die()
            raise Killed
        if number in FAILED:
            raise ValueError(f"no {number}")
        self._stop_at_end()

    def _stop_at_end(self) -> None:
        if self._group is not None and self.is_over:
            self._group.stop()

    def committed(self) -> list[int]:
        """Return the committed offsets of the main topic."""
        user = self.stage.user(group_id="g")
        partitions = [tp("t-0"), tp("t-1")]
        found = self.stage.settled(user.machine.committed(partitions, self.stage.now_ms + 10_000))
        return [found[partition].offset for partition in partitions]

    def read(self, topic: str) -> list[Record]:
        reader = self.stage.user(topic, group_id=f"reader of {topic}")
        self.stage.polls(5000, only=[reader])
        return reader.records


@pytest.mark.parametrize("seed", range(5))
def test_members_that_die_lose_no_record_and_pass_over_none(seed):
    deaths = seed % 4
    story = Story(seed, deaths)
    story.run()

    letters = story.read("t-dlt")
    repeated = story.handled.total() - sum(ATTEMPTS.values())
    origins = {(failure.partition, failure.offset) for letter in letters if (failure := failure_of(letter))}
    assert {int(letter.value or b"") for letter in letters} == FAILED
    assert origins == {(number % 2, number // 2) for number in FAILED}, "each origin is that of the first failure"
    assert len(letters) == story.letters.total()
    if deaths == 0:
        assert (repeated, len(letters)) == (0, len(FAILED))
    assert repeated >= deaths, "the record at which a member died is handled again"
    assert story.committed() == [COUNT // 2, COUNT // 2]
