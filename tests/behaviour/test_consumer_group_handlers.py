from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

import kohort
from kohort import ConsumerGroup, GroupHandler, HandlerFailed, TopicPartition, UsageError
from support.waiting import eventually

DEADLINE_S = 60
PARTITIONS = 4


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


@pytest.fixture
def group(bootstrap: str, topic: str) -> Iterator[Callable[..., ConsumerGroup]]:
    with contextlib.ExitStack() as stack:

        def make(**options: object) -> ConsumerGroup:
            settings = {
                "group_id": topic,
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 100,
                "metadata_max_age_ms": 500,
                **options,
            }
            return stack.enter_context(ConsumerGroup(bootstrap_servers=bootstrap, **settings))

        yield make


class Writer(GroupHandler):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.handled: list[int] = []
        self.sessions: list[set[int]] = []
        self.threads: set[str] = set()

    def setup(self, session):
        self.events.append("setup")
        self.sessions.append({p.partition for p in session.partitions})

    def consume_claim(self, session, claim):
        self.threads.add(threading.current_thread().name)
        for record in claim:
            self.handle(record)
            session.mark_message(record)

    def handle(self, record):
        self.handled.append(int(record.value))

    def cleanup(self, session):
        self.events.append("cleanup")


class Running(threading.Thread):
    def __init__(self, group: ConsumerGroup, topic: str, handler: object) -> None:
        super().__init__(daemon=True)
        self.group, self.topic, self.handler = group, topic, handler
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.group.run(self.topic, self.handler)
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def stop(self) -> None:
        self.group.stop()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def send(producer: kohort.Producer, topic: str, count: int, first: int = 0, partition: int | None = None) -> None:
    for n in range(first, first + count):
        producer.send(topic, b"%d" % n, key=b"k%d" % n, partition=partition)
    producer.flush()


def committed(bootstrap: str, group_id: str, topic: str) -> int:
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=group_id) as reader:
        found = reader.committed([TopicPartition(topic, n) for n in range(4)])
    return sum(o.offset for o in found.values() if o)


def test_each_partition_has_a_thread_and_marks_are_committed(bootstrap, producer, group, topic):
    send(producer, topic, 100)
    handler = Writer()
    running = Running(group(), topic, handler)
    eventually(lambda: len(handler.handled) == 100)
    running.stop()

    assert sorted(handler.handled) == list(range(100))
    assert handler.events == ["setup", "cleanup"]
    assert handler.sessions == [{0, 1, 2, 3}]
    assert handler.threads == {f"kohort-claim-{topic}-{n}" for n in range(4)}
    assert committed(bootstrap, topic, topic) == 100


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_rebalance_starts_a_new_session_of_threads_without_loss(producer, group, topic, strategy):
    send(producer, topic, 200)
    first, second = Writer(), Writer()
    one = Running(group(partition_assignment_strategy=strategy), topic, first)
    eventually(lambda: len(first.handled) >= 200)
    two = Running(group(partition_assignment_strategy=strategy), topic, second)
    eventually(lambda: [len(s) for s in (first.sessions[-1:] + second.sessions[-1:])] == [2, 2])
    send(producer, topic, 200, first=200)
    eventually(lambda: len(first.handled) + len(second.handled) >= 400)

    two.stop()
    two.group.close()
    eventually(lambda: first.sessions[-1] == {0, 1, 2, 3})
    send(producer, topic, 100, first=400)
    eventually(lambda: len(first.handled) + len(second.handled) >= 500)
    one.stop()

    assert sorted(first.handled + second.handled) == list(range(500)), "all of it, none of it twice"
    for handler in (first, second):
        assert handler.events == ["setup", "cleanup"] * (len(handler.events) // 2)


def test_handler_error_in_a_thread_ends_the_session_and_names_the_partition(bootstrap, producer, group, topic):
    send(producer, topic, 10, partition=1)

    class Fails(Writer):
        def handle(self, record):
            if record.offset == 5:
                raise ZeroDivisionError("at five")
            super().handle(record)

    handler, members = Fails(), group()
    with pytest.raises(
        HandlerFailed, match=rf"consume_claim of {topic}-1 failed: ZeroDivisionError: at five"
    ) as failure:
        members.run(topic, handler)

    assert isinstance(failure.value.__cause__, ZeroDivisionError)
    assert handler.events == ["setup", "cleanup"]
    assert committed(bootstrap, topic, topic) == 5

    again = Writer()
    running = Running(members, topic, again)
    eventually(lambda: len(again.handled) == 5)
    running.stop()
    assert again.handled == [5, 6, 7, 8, 9], "the next session begins behind what was marked"


def test_slow_claim_in_a_thread_does_not_delay_other_claims(producer, group, topic):
    gate = threading.Event()

    class Slow(Writer):
        def handle(self, record):
            if record.partition == 0:
                assert gate.wait(DEADLINE_S)
            super().handle(record)

    handler = Slow()
    running = Running(group(max_processing_time_ms=20, fetch_max_bytes=20_000), topic, handler)
    eventually(lambda: handler.events == ["setup"])
    for n in range(0, 200, 2):
        producer.send(topic, b"%d" % n, partition=0, headers=[("fill", b"x" * 1000)])
        producer.flush()
        producer.send(topic, b"%d" % (n + 1), partition=1, headers=[("fill", b"x" * 1000)])
        producer.flush()
    eventually(lambda: len(handler.handled) == 100, "partition 1 was held up by partition 0")
    assert all(n % 2 for n in handler.handled)

    gate.set()
    eventually(lambda: len(handler.handled) == 200)
    running.stop()
    assert [n for n in handler.handled if n % 2 == 0] == list(range(0, 200, 2))


def test_first_returning_handler_ends_the_session_as_in_sarama(producer, group, topic):
    send(producer, topic, 8, partition=2)

    class FirstReturns(Writer):
        def consume_claim(self, session, claim):
            for _, record in zip(range(2), claim, strict=False):
                self.handle(record)
                session.mark_message(record)

    handler, members = FirstReturns(), group()
    for _ in range(4):
        members.consume(topic, handler)

    assert handler.handled == list(range(8))
    assert handler.events == ["setup", "cleanup"] * 4


def test_manual_commit_and_reset_offset(bootstrap, producer, group, topic):
    send(producer, topic, 10, partition=0)
    partition = TopicPartition(topic, 0)

    class ManualCommits(Writer):
        def handle(self, record):
            super().handle(record)
            if record.offset == 6:
                self.session.mark_offset(partition, 7)
                self.session.commit()
                self.before = committed(bootstrap, topic, topic)
                self.session.reset_offset(partition, 3)
                self.session.commit()

        def setup(self, session):
            super().setup(session)
            self.session = session

    handler = ManualCommits()
    running = Running(group(enable_auto_commit=False), topic, handler)
    eventually(lambda: len(handler.handled) == 10)
    running.stop()

    assert handler.before == 7
    assert committed(bootstrap, topic, topic) == 3, "without auto-commit only commit() commits"


def test_claim_yields_arrow_batches(producer, group, topic):
    pytest.importorskip("pyarrow")
    send(producer, topic, 50, partition=3)
    found: list[int] = []

    class Arrow(GroupHandler):
        def consume_claim(self, session, claim):
            for batch in claim.iter_arrow(columns=["offset", "value"]):
                found.extend(int(v) for v in batch["value"].to_pylist())
                session.mark_offset(claim.topic_partition, batch["offset"][-1].as_py() + 1)

    running = Running(group(), topic, Arrow())
    eventually(lambda: len(found) == 50)
    running.stop()
    assert found == list(range(50))


def test_errors_of_setup_and_cleanup_are_raised(producer, group, topic):
    class Setup(Writer):
        def setup(self, session):
            raise ValueError("setup")

    class Cleanup(Writer):
        def consume_claim(self, session, claim):
            return

        def cleanup(self, session):
            raise ValueError("cleanup")

    send(producer, topic, 1)
    members = group()
    with pytest.raises(ValueError, match="setup"):
        members.run(topic, Setup())
    with pytest.raises(ValueError, match="cleanup"):
        members.run(topic, Cleanup())


def test_close_from_another_thread_ends_run_and_from_a_handler_raises_usage_error(producer, group, topic):
    send(producer, topic, 4)
    errors: list[str] = []

    class Closes(Writer):
        def handle(self, record):
            super().handle(record)
            try:
                members.close()
            except UsageError as error:
                errors.append(str(error))

    members = group()
    running = Running(members, topic, Closes())
    eventually(lambda: len(errors) == 4)
    members.close()
    running.join(DEADLINE_S)

    assert not running.is_alive()
    assert running.error is None
    assert set(errors) == {
        "close() in a handler would wait for this handler: call stop() in handlers, close() elsewhere"
    }
    with pytest.raises(UsageError, match="closed"):
        members.consume(topic, Writer())


def test_group_needs_a_group_id(bootstrap):
    with pytest.raises(UsageError, match=r"no group\.id"):
        ConsumerGroup(bootstrap_servers=bootstrap)


INTERRUPTED = """
import itertools, os, signal, kohort

seen = itertools.count(1)

class Handler(kohort.GroupHandler):
    def consume_claim(self, session, claim):
        for record in claim:
            session.mark_message(record)
            if next(seen) == 20:
                os.kill(os.getpid(), signal.SIGINT)
    def cleanup(self, session):
        print("cleaned up", flush=True)

with kohort.ConsumerGroup(bootstrap_servers={0!r}, group_id={1!r}, auto_offset_reset="earliest") as group:
    try:
        group.run({1!r}, Handler())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_session_cleanly(bootstrap, producer, topic):
    send(producer, topic, 20)
    script = INTERRUPTED.format(bootstrap, topic)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False)

    assert done.stdout.splitlines() == ["cleaned up", "interrupted"], done.stderr
    assert done.returncode == 0
    assert committed(bootstrap, topic, topic) == 20


def test_handler_that_never_returns_is_logged_and_the_member_expires(producer, group, topic, caplog):
    send(producer, topic, 40)
    gate = threading.Event()

    class NeverReturns(Writer):
        def handle(self, record):
            assert gate.wait(DEADLINE_S)
            super().handle(record)

    stuck, other = NeverReturns(), Writer()
    quick = {"max_poll_interval_ms": 1500, "session_timeout_ms": 1000}
    one = Running(group(**quick), topic, stuck)
    eventually(lambda: stuck.events == ["setup"])
    two = Running(group(**quick), topic, other)
    eventually(
        lambda: other.sessions and other.sessions[-1] == {0, 1, 2, 3},
        "the group never went on without the stuck member",
    )
    eventually(lambda: len(other.handled) == 40)
    eventually(lambda: f"kohort-claim-{topic}-" in caplog.text and "has not returned" in caplog.text)

    two.stop()
    two.group.close()
    gate.set()
    eventually(
        lambda: len(stuck.sessions) > 1 and stuck.sessions[-1] == {0, 1, 2, 3}, "the stuck member did not come back"
    )
    one.stop()
    assert sorted(other.handled) == list(range(40))
    assert len(stuck.handled) <= 4, "one record each was in the stuck handlers' hands"
    # either the member leaves, or the coordinator ends the rebalance without it
    assert "consumer poll timeout has expired" in caplog.text or "lost generation" in caplog.text
