"""Recorded clients of kohort: a producer, a member of a group, and a member that copies in transactions.

    python lab/tools/history/with_kohort.py produce|consume|copy BOOTSTRAP NAME FOLDER KIND

runs until SIGTERM and writes FOLDER/NAME.jsonl (docs/lab/history-format.md).
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict

from recording import POLL_MS, SEND_EVERY_S, SESSION_MS, Task, history, now_us, task, until_stopped

from kohort import Consumer, KohortError, OffsetAndMetadata, Producer, TopicPartition, TransactionFailed, UsageError
from kohort_lab.history.writer import ClientHistory

INPUTS, OUTPUTS = "in", "out"
CALL_MS = 15_000


class Listener:
    """Records the assigned and revoked partitions of a member."""

    def __init__(self, consumer: Consumer, written: ClientHistory, group: str) -> None:
        self._consumer = consumer
        self._written = written
        self._group = group
        self.closing = False

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        listed = [(p.topic, p.partition) for p in partitions]
        self._written.ownership("assigned", now_us(), self._group, listed, generation=generation)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        listed = [(p.topic, p.partition) for p in partitions]
        self._written.ownership("revoked", now_us(), self._group, listed, closing=self.closing or None)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._written.ownership("lost", now_us(), self._group, [(p.topic, p.partition) for p in partitions])


def send(producer: Producer, written: ClientHistory, where: tuple[str, int], value: str, **more: object) -> None:
    """Send a record; write a line before the send and one at the acknowledgement."""
    at = now_us()
    written.sent(at, where, value, "begun", **more)

    def answered(delivery) -> None:
        if delivery.exception() is None:
            offset = delivery.result().offset
            written.sent(at, where, value, "ok", offset=offset if offset >= 0 else None)

    producer.send(where[0], value, partition=where[1]).add_done_callback(answered)


def produce(of: Task, over: threading.Event) -> None:
    idempotent = of.kind == "idempotent"
    written = history(of, "kohort", idempotent=idempotent)
    with Producer(bootstrap_servers=of.bootstrap, enable_idempotence=idempotent, linger_ms=5) as producer:
        partitions = producer.partitions_for(INPUTS)
        for number in itertools.count():
            if over.wait(SEND_EVERY_S):
                break
            send(producer, written, (INPUTS, number * 7 % partitions), f"{of.name}:{number}")


def member(of: Task, group: str, protocol: str) -> tuple[Consumer, Listener, ClientHistory]:
    """Return a recorded consumer."""
    only = "read_committed"
    written = history(of, "kohort", isolation=only, session_us=SESSION_MS * 1000, idempotent=True)
    options = {"session_timeout_ms": SESSION_MS} if protocol == "classic" else {}
    consumer = Consumer(
        bootstrap_servers=of.bootstrap,
        group_id=group,
        group_protocol=protocol,
        isolation_level=only,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    listener = Listener(consumer, written, group)
    consumer.subscribe([INPUTS], listener)
    return consumer, listener, written


def read(consumer: Consumer, written: ClientHistory) -> dict[tuple[str, int], list[tuple[int, str]]]:
    """Poll, and write the received records."""
    at = now_us()
    found = defaultdict(list)
    for record in consumer.poll(POLL_MS, max_records=50):
        found[record.topic, record.partition].append((record.offset, record.value.decode()))
    for where, records in found.items():
        written.read(at, where, records)
    return found


def consume(of: Task, over: threading.Event) -> None:
    group = f"readers-{of.kind}"
    consumer, listener, written = member(of, group, of.kind)
    while not over.is_set():
        offsets = {where: records[-1][0] + 1 for where, records in read(consumer, written).items()}
        if not offsets:
            continue
        at, generation = now_us(), consumer.group_metadata().generation_id
        written.committed(at, group, offsets, "begun", generation=generation, id=at)
        try:
            offsets_to_commit = {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
            consumer.commit(offsets_to_commit, timeout_ms=CALL_MS)
            written.committed(at, group, offsets, "ok", generation=generation, id=at)
        except UsageError:
            raise
        except KohortError:
            written.committed(at, group, offsets, "unknown", generation=generation, id=at)
    listener.closing = True
    consumer.close()


def copy(of: Task, over: threading.Event) -> None:
    consumer, listener, written = member(of, "copiers", "classic")
    name = of.name.partition("#")[0]
    with Producer(bootstrap_servers=of.bootstrap, transactional_id=name, transaction_timeout_ms=CALL_MS) as producer:
        producer.init_transactions()
        partitions = producer.partitions_for(OUTPUTS)
        values = itertools.count()
        for number in itertools.count():
            if over.is_set():
                break
            inputs = read(consumer, written)
            if not inputs:
                continue
            transaction = f"{of.name}.{number}"
            written.write("begin", txn=transaction, at=now_us())
            producer.begin_transaction()
            at = now_us()
            try:
                for where, records in inputs.items():
                    for offset, _ in records:
                        value = next(values)
                        of_input = [[*where, offset]]
                        at_output = (OUTPUTS, value % partitions)
                        send(producer, written, at_output, f"{of.name}:{value}", txn=transaction, of=of_input)
                move(consumer, producer, written, inputs, transaction)
                at = now_us()
                written.ended(at, transaction, "commit", "begun")
                producer.commit_transaction(CALL_MS)
                written.ended(at, transaction, "commit", "ok")
            except TransactionFailed:
                producer.abort_transaction(CALL_MS)
                written.ended(at, transaction, "abort", "ok")
                for where, records in inputs.items():
                    if TopicPartition(*where) in consumer.assignment():
                        consumer.seek(TopicPartition(*where), records[0][0])
                        written.write("seek", topic=where[0], partition=where[1], offset=records[0][0])
    listener.closing = True
    consumer.close()


def move(consumer, producer, written, inputs, transaction) -> None:
    """Add the group's offsets to the transaction."""
    offsets = {where: records[-1][0] + 1 for where, records in inputs.items()}
    about = consumer.group_metadata()
    at = now_us()
    written.committed(at, "copiers", offsets, "begun", generation=about.generation_id, txn=transaction, id=at)
    positions = {TopicPartition(*where): offset for where, offset in offsets.items()}
    producer.send_offsets_to_transaction(positions, about, CALL_MS)
    written.committed(at, "copiers", offsets, "ok", generation=about.generation_id, txn=transaction, id=at)


if __name__ == "__main__":
    mine = task()
    {"produce": produce, "consume": consume, "copy": copy}[mine.verb](mine, until_stopped())
