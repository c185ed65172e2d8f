"""Transactional producers, ours among them, on our broker and on Apache Kafka: what is committed counts, once."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack

import pytest

import kohort
from kohort import TopicPartition
from support.peers.client_programs import BOTH_CONFLUENTS, Talk, program, talk

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]
DEADLINE_S = 120.0
OUTCOMES = [True, False, True, True, False, True]
EACH = 5


class Confluent:
    """confluent-kafka, in a process of its own that ``talk`` has started."""

    def __init__(self, producer: Talk) -> None:
        self._producer = producer

    def begin(self) -> None:
        self._producer.say("begin")

    def send(self, topic: str, value: bytes) -> None:
        self._producer.say(f"send {topic} {value.decode()}")

    def flush(self) -> None:
        self._producer.say("flush")

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        self._producer.say(f"offset {group} {topic} {offset}")

    def end(self, *, commit: bool) -> None:
        self._producer.say("commit" if commit else "abort")


class KafkaPython:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value, partition=0)

    def flush(self) -> None:
        self._producer.flush()

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        from kafka import OffsetAndMetadata
        from kafka import TopicPartition as Place

        self._producer.send_offsets_to_transaction({Place(topic, 0): OffsetAndMetadata(offset, "", -1)}, group)

    def end(self, *, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()


class Kohort:
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = kohort.Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value, partition=0)

    def flush(self) -> None:
        self._producer.flush()

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): offset}, kohort.GroupMetadata(group))

    def end(self, *, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()


@pytest.fixture(params=[*BOTH_CONFLUENTS, "kafka-python", "kohort"])
def client(request, either):
    """Starts a producer of the client, of the transactional id that it is given."""
    with ExitStack() as running:

        def start(name):
            if request.param in BOTH_CONFLUENTS:
                return Confluent(running.enter_context(talk([*program(request.param), "transact", either, name])))
            return {"kafka-python": KafkaPython, "kohort": Kohort}[request.param](either, name)

        yield start


@pytest.fixture
def name(either):
    made = f"txn-{uuid.uuid4().hex[:10]}"
    with kohort.Admin(bootstrap_servers=either) as admin:
        admin.create_topics({made: 1})
    return made


def read_committed(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_S
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with kohort.Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        while len(values) < count and time.monotonic() < deadline:
            values += [record.value for record in consumer.poll(500)]
        values += [record.value for record in consumer.poll(500)]
    return values


def test_committed_records_and_offsets_are_atomic(either, name, client):
    producer = client(name)
    for number, commit in enumerate(OUTCOMES):
        producer.begin()
        for n in range(EACH):
            producer.send(name, f"{number}/{n}".encode())
        producer.commit_offset(name, name, number)
        producer.end(commit=commit)

    kept = [f"{number}/{n}".encode() for number, commit in enumerate(OUTCOMES) if commit for n in range(EACH)]
    assert read_committed(either, name, len(kept)) == kept
    with kohort.Admin(bootstrap_servers=either) as admin:
        place = TopicPartition(name, 0)
        committed = admin.list_group_offsets(name, [place]).check()[place]
    assert committed is not None
    assert committed.offset == len(OUTCOMES) - 1


def test_the_next_process_of_a_name_aborts_what_the_last_one_left_open(either, name, client):
    unfinished = client(name)
    unfinished.begin()
    unfinished.send(name, b"left open")
    unfinished.flush()

    following = client(name)
    following.begin()
    following.send(name, b"done")
    following.end(commit=True)

    assert read_committed(either, name, 1) == [b"done"]
