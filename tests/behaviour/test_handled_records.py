"""``handle`` of both faces of a consumer group: attempts, retry topics, dead letters, concurrency by key."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import kohort
from kohort import (
    AsyncConsumerGroup,
    ConfigError,
    ConfigResource,
    ConsumerGroup,
    DeadLetterFailed,
    HandlerFailed,
    NewTopic,
    Record,
    TopicPartition,
    failure_of,
)
from support.waiting import eventually

DEADLINE_S = 60
PARTITIONS = 2
FACES = ["threads", "tasks"]
SENT_MS = int(time.time() * 1000) - 60_000
"""Timestamp of the records that the tests send, in ms."""


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


class Member(threading.Thread):
    """A member that handles records in a thread of the test, by either face."""

    def __init__(self, face: str, bootstrap: str, topic: str, function: Callable, **options: object) -> None:
        super().__init__(daemon=True)
        self._face, self._topic, self._function = face, topic, function
        self._settings = {
            "bootstrap_servers": bootstrap,
            "group_id": topic,
            "auto_offset_reset": options.pop("auto_offset_reset", "earliest"),
            "value_deserializer": options.pop("value_deserializer", None),
            "heartbeat_interval_ms": 100,
            "metadata_max_age_ms": 500,
            "auto_commit_interval_ms": 100,
        }
        self._options = {"delay_ms": 1, **options}
        self._end_group: Callable[[], object] = lambda: None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            if self._face == "threads":
                self._run()
            else:
                asyncio.run(self._run_async())
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error

    def _run(self) -> None:
        with ConsumerGroup(**self._settings) as group:
            self._end_group = group.stop
            group.handle(self._topic, self._function, **self._options)

    async def _run_async(self) -> None:
        async with AsyncConsumerGroup(**self._settings) as group:
            loop = asyncio.get_running_loop()
            self._end_group = lambda: loop.call_soon_threadsafe(group.stop)
            await group.handle(self._topic, self._function, **self._options)

    def stop(self) -> None:
        self._end_group()
        self.join(DEADLINE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error

    def failed(self) -> BaseException:
        self.join(DEADLINE_S)
        assert self.error is not None
        return self.error


def send(producer: kohort.Producer, topic: str, *values: str, partition: int = 0) -> None:
    for value in values:
        producer.send(topic, value, key=value[0], partition=partition, headers=[("trace", b"1")], timestamp_ms=SENT_MS)
    producer.flush()


def read(bootstrap: str, topic: str, count: int) -> list[Record]:
    """Return the first ``count`` records of partition 0."""
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[Record] = []
        eventually(lambda: found.extend(consumer.poll(100)) or len(found) >= count, pause_s=0)
    return found


def committed(bootstrap: str, topic: str) -> int | None:
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=topic) as reader:
        found = reader.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
    return None if found is None else found.offset


class Recording:
    """Handler function that records values, and raises ValueError for those that ``fails`` selects."""

    def __init__(self, fails: Callable[[str, int], bool] = lambda value, attempt: False) -> None:
        self.values: list[str] = []
        self._fails = fails

    def __call__(self, record: Record) -> None:
        value = record.value.decode() if isinstance(record.value, bytes) else record.value
        self.values.append(value)
        if self._fails(value, self.values.count(value)):
            raise ValueError(f"no {value}")


def test_failed_record_is_tried_again_before_the_next_one(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c")
    handled = Recording(lambda value, attempt: value == "b" and attempt < 3)
    member = Member(face, bootstrap, topic, handled)
    eventually(lambda: "c" in handled.values)
    member.stop()

    assert handled.values == ["a", "b", "b", "b", "c"]
    assert committed(bootstrap, topic) == 3


def test_record_becomes_a_dead_letter_after_its_last_attempt(face, bootstrap, producer, topic):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource("topic", topic): {"retention.ms": "9876543210"}})
    send(producer, topic, "a", "b", "c")
    handled = Recording(lambda value, attempt: value == "b")
    member = Member(face, bootstrap, topic, handled, attempts=2, dead_letters=True)
    eventually(lambda: "c" in handled.values)
    member.stop()

    (letter,) = read(bootstrap, f"{topic}-dlt", 1)
    assert (letter.key, letter.value, letter.timestamp_ms, letter.headers[0]) == (b"b", b"b", SENT_MS, ("trace", b"1"))
    failure = failure_of(letter)
    assert failure is not None
    assert (failure.topic, failure.partition, failure.offset, failure.group) == (topic, 0, 1, topic)
    assert (failure.attempts, failure.exception, failure.message) == (2, "ValueError", "no b")
    assert "__call__" in failure.stack
    assert handled.values == ["a", "b", "b", "c"]
    assert committed(bootstrap, topic) == 3
    resource = ConfigResource("topic", f"{topic}-dlt")
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        assert len(admin.describe_topics([resource.name])[resource.name].partitions) == PARTITIONS
        assert admin.describe_configs([resource])[resource]["retention.ms"].value == "9876543210"


def test_last_error_without_dead_letters_ends_the_session(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c")
    member = Member(face, bootstrap, topic, Recording(lambda value, attempt: value == "b"))

    error = member.failed()

    assert isinstance(error, HandlerFailed)
    assert isinstance(error.__cause__, ValueError)
    assert committed(bootstrap, topic) == 1


def test_record_is_not_passed_over_if_its_dead_letter_is_rejected(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c")
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-dlt", 1, 1, {"max.message.bytes": "100"})])
    handled = Recording(lambda value, attempt: value == "b")
    member = Member(face, bootstrap, topic, handled, dead_letters=True)

    error = member.failed()

    assert isinstance(error.__cause__, DeadLetterFailed)
    assert f"{topic}-0 at offset 1 failed (ValueError: no b) and cannot be sent" in str(error)
    assert "c" not in handled.values
    assert committed(bootstrap, topic) == 1


@pytest.mark.parametrize("limit", [1_048_588, 5_000_000])
def test_record_that_fills_a_batch_becomes_a_dead_letter(bootstrap, topic, limit):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource("topic", topic): {"max.message.bytes": str(limit)}})
    value = b"x" * 3_000_000 if limit == 1_048_588 else random.Random(1).randbytes(limit - 2000)
    options = {"compression_type": "gzip", "max_request_size": 10_000_000}
    with kohort.Producer(bootstrap_servers=bootstrap, **options) as producer:
        producer.send(topic, value, partition=0).result()
    member = Member("threads", bootstrap, topic, fail, attempts=1, dead_letters=True)
    (letter,) = read_when_committed(bootstrap, topic, 1)
    member.stop()

    assert letter.value == value
    assert failure_of(letter).stack.startswith("Traceback"), "the created topic has room for the error headers"


def fail(record: Record) -> None:
    raise Mute if record.value == b"mute" else ValueError("no")


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_exception_without_text_becomes_a_reason(bootstrap, producer, topic):
    send(producer, topic, "mute")
    member = Member("threads", bootstrap, topic, fail, attempts=2, dead_letters=True)
    (letter,) = read_when_committed(bootstrap, topic, 1)
    member.stop()

    failure = failure_of(letter)
    assert failure.exception.endswith("Mute")
    assert failure.message == "no message: __str__ raised RuntimeError"


def test_batch_waits_out_a_temporary_error_of_its_deserializer(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b")
    calls: Counter[bytes] = Counter()

    def decode(value: bytes) -> str:
        calls[value] += 1
        if value == b"b" and calls[value] < 3:
            raise ConnectionError("registry")
        return value.decode()

    batches: list[list[str]] = []
    options = {"batches": True, "dead_letters": True, "value_deserializer": decode}
    member = Member(face, bootstrap, topic, lambda records: batches.append([r.value for r in records]), **options)
    eventually(lambda: committed(bootstrap, topic) == 2)
    member.stop()

    assert batches == [["a", "b"]]
    assert calls == {b"a": 1, b"b": 3}
    assert letters_of(bootstrap, topic) == set()


def test_undecodable_value_becomes_a_dead_letter_with_its_bytes(face, bootstrap, producer, topic):
    send(producer, topic, '"a"', "{", '"c"')
    handled = Recording()
    member = Member(face, bootstrap, topic, handled, dead_letters=True, value_deserializer=json.loads)
    eventually(lambda: "c" in handled.values)
    member.stop()

    (letter,) = read(bootstrap, f"{topic}-dlt", 1)
    failure = failure_of(letter)
    assert letter.value == b"{"
    assert failure is not None
    assert (failure.stage, failure.attempts, failure.offset) == ("deserializer", 1, 1)
    assert handled.values == ["a", "c"]


def test_failed_batch_is_tried_again_and_becomes_dead_letters(face, bootstrap, producer, topic):
    send(producer, topic, '"a"', "{", '"c"')
    batches: list[list[str]] = []

    def fail(records: list[Record]) -> None:
        batches.append([record.value for record in records])
        raise ValueError("no batch")

    options = {"batches": True, "attempts": 2, "dead_letters": True, "value_deserializer": json.loads}
    member = Member(face, bootstrap, topic, fail, **options)
    letters = read_when_committed(bootstrap, topic, 3)
    member.stop()

    assert batches == [["a", "c"], ["a", "c"]]
    assert [(r.value, failure_of(r).stage) for r in letters] == [
        (b"{", "deserializer"),
        (b'"a"', "handler"),
        (b'"c"', "handler"),
    ]


def read_when_committed(bootstrap: str, topic: str, count: int) -> list[Record]:
    eventually(lambda: committed(bootstrap, topic) == count)
    return read(bootstrap, f"{topic}-dlt", count)


def test_retry_topics_let_later_records_pass_and_keep_the_origin(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c")
    handled = Recording(lambda value, attempt: value == "a")
    options = {"retry_topics": True, "dead_letters": True, "delay_ms": 20, "delay_factor": 2}
    member = Member(face, bootstrap, topic, handled, **options)
    (letter,) = read_when_letter(bootstrap, f"{topic}-dlt")
    member.stop()

    failure = failure_of(letter)
    assert failure is not None
    assert (failure.topic, failure.partition, failure.offset, failure.timestamp_ms) == (topic, 0, 0, SENT_MS)
    assert failure.attempts == 3
    assert handled.values.count("a") == 3
    assert handled.values.index("c") < len(handled.values) - 1, "later records did not wait for the last attempt"
    for delay in (20, 40):
        (retried,) = read(bootstrap, f"{topic}-retry-{delay}", 1)
        assert failure_of(retried).due_ms > 0


def read_when_letter(bootstrap: str, topic: str) -> list[Record]:
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        eventually(lambda: not admin.describe_topics([topic]).errors)
    return read(bootstrap, topic, 1)


def test_retry_topic_is_read_from_its_start_with_reset_policy_latest(face, bootstrap, producer, topic):
    retry = f"{topic}-retry-1"
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({retry: PARTITIONS})
        eventually(lambda: not admin.describe_topics([retry]).errors)
    send(producer, retry, "a")
    handled = Recording()
    member = Member(face, bootstrap, topic, handled, retry_topics=True, auto_offset_reset="latest")
    eventually(lambda: handled.values == ["a"])
    member.stop()


def test_rebalance_ends_the_delay_and_leaves_the_record_uncommitted(face, bootstrap, producer, topic):
    send(producer, topic, "a", partition=0)
    send(producer, topic, "b", partition=1)
    first, second = Recording(lambda value, attempt: attempt == 1), Recording()
    one = Member(face, bootstrap, topic, first, delay_ms=3_600_000)
    eventually(lambda: sorted(first.values) == ["a", "b"])

    two = Member(face, bootstrap, topic, second)
    eventually(lambda: sorted(first.values[2:] + second.values) == ["a", "b"])
    two.stop()
    one.stop()


def test_keys_of_a_partition_run_at_the_same_time_and_each_in_order(face, bootstrap, producer, topic):
    keys = [f"{key}{n}" for n in range(10) for key in "abcd"]
    send(producer, topic, *keys)
    handled: list[str] = []
    together, together_async = threading.Barrier(4), {}

    def meet(record: Record) -> None:
        together.wait(DEADLINE_S)
        handled.append(record.value.decode())

    async def meet_async(record: Record) -> None:
        barrier = together_async.setdefault("barrier", asyncio.Barrier(4))
        await asyncio.wait_for(barrier.wait(), DEADLINE_S)
        handled.append(record.value.decode())

    function = meet if face == "threads" else meet_async
    member = Member(face, bootstrap, topic, function, concurrency=4)
    eventually(lambda: len(handled) == 40)
    member.stop()

    for key in "abcd":
        assert [value for value in handled if value[0] == key] == [f"{key}{n}" for n in range(10)]
    assert committed(bootstrap, topic) == 40


def test_commit_never_passes_an_unfinished_record(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c", "d", "e")
    handled: list[str] = []
    free = threading.Event()

    def block(record: Record) -> None:
        if record.value == b"b":
            assert free.wait(DEADLINE_S)
        handled.append(record.value.decode())

    async def block_async(record: Record) -> None:
        if record.value == b"b":
            await asyncio.to_thread(free.wait, DEADLINE_S)
        handled.append(record.value.decode())

    function = block if face == "threads" else block_async
    member = Member(face, bootstrap, topic, function, concurrency=2, max_unfinished=3)
    eventually(lambda: handled == ["a", "c", "d"], "the third unfinished record leaves no room for the next one")
    eventually(lambda: committed(bootstrap, topic) == 1)
    free.set()
    eventually(lambda: committed(bootstrap, topic) == 5)
    member.stop()

    assert sorted(handled) == ["a", "b", "c", "d", "e"]


def test_error_of_one_key_ends_the_session_and_commits_only_before_it(face, bootstrap, producer, topic):
    send(producer, topic, "a", "b", "c", "d")
    member = Member(face, bootstrap, topic, Recording(lambda value, attempt: value == "b"), concurrency=4)

    error = member.failed()

    assert isinstance(error, HandlerFailed)
    assert isinstance(error.__cause__, ValueError)
    assert committed(bootstrap, topic) == 1


@pytest.mark.parametrize(
    ("topics", "options", "problem"),
    [
        ("t", {"attempts": 0}, "attempts=0: expected an integer from 1 to 1000"),
        (["t", "t-dlt"], {"dead_letters": True}, "has topic 't' and its dead-letter topic 't-dlt'"),
        (None, {"retry_topics": True}, "retry_topics=True needs topic names, not a pattern"),
        (
            "t",
            {"dead_letters": True, "dead_letter_topic": "a b"},
            "dead-letter topic of 't' would be 'a b': a name has",
        ),
        ("t", {"dead_letters": True, "dead_letter_topic": "d" * 250}, "would have 250 characters, more than 249"),
        ("t", {"retry_topics": True, "retry_topic": "{topic} 2"}, "the retry topic of 't' would be 't 2': a name has"),
    ],
)
def test_impossible_handling_is_rejected_before_the_group_is_joined(bootstrap, topics, options, problem):
    import re

    with ConsumerGroup(bootstrap_servers=bootstrap, group_id="impossible") as group:
        with pytest.raises(ConfigError, match=problem):
            group.handle(re.compile("t.*") if topics is None else topics, print, **options)
        with pytest.raises(kohort.UsageError, match="expected a function of a record"):
            group.handle("t", None)


def test_handle_rejects_manual_commits_that_nothing_would_make(bootstrap):
    options = {"bootstrap_servers": bootstrap, "group_id": "manual", "enable_auto_commit": False}
    problem = "enable.auto.commit=False: handle commits the handled records itself"

    async def handle() -> None:
        async with AsyncConsumerGroup(**options) as group:
            await group.handle("t", print)

    with ConsumerGroup(**options) as group, pytest.raises(ConfigError, match=problem):
        group.handle("t", print)
    with pytest.raises(ConfigError, match=problem):
        asyncio.run(handle())


KILL_AT = 60
"""Records that the process handles before it is killed."""
KILLED = """
import os, sys
from kohort import ConsumerGroup
bootstrap, topic, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3])
def handle(record):
    os.write(1, record.value + b"\\n")
    if int(record.value) % 5 == 0:
        raise ValueError("a fifth")
with ConsumerGroup(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", session_timeout_ms=1000,
                   heartbeat_interval_ms=100, auto_commit_interval_ms=10) as group:
    group.handle(topic, handle, retry_topics=True, dead_letters=True, delay_ms=5, attempts=2, concurrency=concurrency)
"""


@pytest.mark.parametrize("concurrency", [1, 4])
def test_kill_9_loses_no_record_and_passes_over_none(bootstrap, producer, topic, concurrency):
    count = 400
    for n in range(count):
        producer.send(topic, str(n), key=str(n % 7), partition=n % PARTITIONS)
    producer.flush()
    handled: Counter[int] = Counter()
    command = [sys.executable, "-c", KILLED, bootstrap, topic, str(concurrency)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for at, line in enumerate(process.stdout):
            handled[int(line)] += 1
            if at == KILL_AT:
                process.send_signal(signal.SIGKILL)  # the loop reads what the process wrote before

    def handle(record: Record) -> None:
        number = int(record.value)
        handled[number] += 1
        if number % 5 == 0:
            raise ValueError("a fifth")

    options = {"retry_topics": True, "dead_letters": True, "delay_ms": 5, "attempts": 2, "concurrency": concurrency}
    survivor = Member("threads", bootstrap, topic, handle, **options)
    failed = set(range(0, count, 5))

    def missing() -> str:
        return f"not handled: {set(range(count)) - set(handled)}; no letters: {failed - letters_of(bootstrap, topic)}"

    eventually(lambda: missing() == "not handled: set(); no letters: set()", missing)
    survivor.stop()

    assert letters_of(bootstrap, topic) == failed, "every failed record is a dead letter, and no other"
    assert all(handled[number] >= 2 for number in failed)


def letters_of(bootstrap: str, topic: str) -> set[int]:
    letters = f"{topic}-dlt"
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        if admin.describe_topics([letters]).errors:
            return set()
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(letters, n) for n in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: set[int] = set()
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found |= {int(record.value) for record in consumer.poll(100)}
    return found
