"""The blocking client faces under test: each works until SIGTERM, and reports its progress."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from faults.report import AGAIN_S, Report, Task, history, now_us
from kohort import (
    Admin,
    Consumer,
    ConsumerGroup,
    GroupHandler,
    KohortError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionFailed,
)
from kohort_lab.history.writer import ClientHistory

INPUTS, OUTPUTS = "in", "out"
POLL_MS = 200
SEND_EVERY_S = 0.2
SESSION_MS = 3000
LOOK_UP_S = 1.0
REOPEN_S = 1.0
"""Delay before a program creates a new producer."""
Offsets = dict[tuple[str, int], list[tuple[int, str]]]
Face = Callable[[Task, dict[str, Any], threading.Event, Report], None]


class Listener:
    """Records the assigned and revoked partitions of a member."""

    def __init__(self, consumer: Any, written: ClientHistory, group: str) -> None:
        self._consumer = consumer
        self._written = written
        self._group = group
        self.closing = False

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        self._written.ownership("assigned", now_us(), self._group, listed(partitions), generation=generation)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._written.ownership("revoked", now_us(), self._group, listed(partitions), closing=self.closing or None)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self._written.ownership("lost", now_us(), self._group, listed(partitions))


def listed(partitions: Any) -> list[tuple[str, int]]:
    return [(p.topic, p.partition) for p in partitions]


def group_options(of: Task, protocol: str) -> dict[str, Any]:
    """Return the options of a member of the face's own group."""
    sessions = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 500} if protocol == "classic" else {}
    return {
        "group.id": of.group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **sessions,
    }


def begin_history(of: Task, *, forgets: bool = False) -> ClientHistory:
    written = history(of, isolation="read_committed", session_us=SESSION_MS * 1000)
    protocol = "consumer" if "modern" in of.face else "classic"
    written.write("group", group=of.group, protocol=protocol, forgets=forgets or None)
    return written


def by_poll(consumer: Consumer) -> Offsets:
    found: Offsets = defaultdict(list)
    for record in consumer.poll(POLL_MS):
        found[record.topic, record.partition].append((record.offset, record.value.decode()))
    return found


def by_arrow(consumer: Consumer) -> Offsets:
    found: Offsets = defaultdict(list)
    for row in consumer.poll_arrow(POLL_MS, columns=["topic", "partition", "offset", "value"]).to_pylist():
        found[row["topic"], row["partition"]].append((row["offset"], row["value"].decode()))
    return found


def consume(protocol: str, take: Callable[[Consumer], Offsets]) -> Face:
    """Return a face that reads, and commits its positions."""

    def run(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
        written = begin_history(of)
        consumer = Consumer({**options, **group_options(of, protocol)})
        listener = Listener(consumer, written, of.group)
        consumer.subscribe([INPUTS], listener)
        while not over.is_set():
            at, offsets, generation = now_us(), {}, -1
            try:
                found = take(consumer)
                for where, records in found.items():
                    written.read(at, where, records)
                offsets = {where: records[-1][0] + 1 for where, records in found.items()}
                if not offsets:
                    continue
                generation = consumer.group_metadata().generation_id
                consumer.commit(
                    {TopicPartition(*where): OffsetAndMetadata(offset) for where, offset in offsets.items()}
                )
                written.committed(at, of.group, offsets, "ok", generation=generation)
                report.done(at)
            except KohortError as error:
                report.failed(error)
                if offsets:
                    written.committed(at, of.group, offsets, "unknown", generation=generation)
                over.wait(AGAIN_S)
        listener.closing = True
        close(consumer.close, report)

    return run


def close(end: Callable[[], object], report: Report) -> None:
    """Close a client, and report the duration."""
    at = now_us()
    try:
        end()
    except KohortError as error:
        report.failed(error)
    report.closed(at)


def handle(protocol: str) -> Face:
    """Return a face with partition handlers in threads; its commits are not in the history."""

    def run(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
        written = begin_history(of, forgets=True)

        class Take(GroupHandler):
            def setup(self, session: Any) -> None:
                at = now_us()
                written.ownership(
                    "assigned", at, of.group, listed(session.partitions), generation=session.generation_id
                )

            def consume_claim(self, session: Any, claim: Any) -> None:
                at = now_us()
                for record in claim:
                    written.read(at, (record.topic, record.partition), [(record.offset, record.value.decode())])
                    session.mark_message(record)
                    begun = now_us()
                    try:
                        session.commit()
                        report.done(begun)
                    except KohortError as error:
                        report.failed(error)
                    at = now_us()

            def cleanup(self, session: Any) -> None:
                written.ownership("lost", now_us(), of.group, listed(session.partitions))

        group = ConsumerGroup({**options, **group_options(of, protocol)})
        runner = threading.Thread(target=_run_group, args=(group, Take(), over, report))
        runner.start()
        while not over.wait(LOOK_UP_S):
            pass  # another thread can take a second signal; this thread does not wake then
        group.stop()
        close(group.close, report)
        runner.join()

    return run


def _run_group(group: ConsumerGroup, handler: GroupHandler, over: threading.Event, report: Report) -> None:
    while not over.is_set():
        try:
            group.run([INPUTS], handler)
        except KohortError as error:
            report.failed(error)
            over.wait(AGAIN_S)


def produce(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
    """Send a record periodically without waiting; also the feeder of the input topics."""
    written = history(of, idempotent=True)
    topic, partitions = (INPUTS, 4) if of.face == "feeder" else (OUTPUTS, 3)
    producer = Producer({**options, "linger.ms": 5})
    for number in itertools.count():
        if over.wait(SEND_EVERY_S):
            break
        at, where, value = now_us(), (topic, number % partitions), f"{of.name}:{number}"
        written.sent(at, where, value, "begun")

        def answered(delivery: Any, at: int = at, where: tuple[str, int] = where, value: str = value) -> None:
            error = delivery.exception()
            if error is None:
                offset = delivery.result().offset
                written.sent(at, where, value, "ok", offset=offset if offset >= 0 else None)
                report.done(at)
            else:
                report.failed(error)

        try:
            producer.send(topic, value, partition=where[1]).add_done_callback(answered)
        except KohortError as error:
            report.failed(error)
    close(producer.close, report)


def transact(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
    """Send one record per transaction, as in docs/guides/producer.md."""
    written = history(of, idempotent=True)
    transactional = {**options, "transactional.id": of.name, "transaction.timeout.ms": 10_000}
    producer = Producer(transactional)
    numbers, ready = itertools.count(), False
    while not over.wait(SEND_EVERY_S):
        at, number = now_us(), next(numbers)
        name, where, value = f"{of.name}.{number}", (OUTPUTS, number % 3), f"{of.name}:{number}"
        try:
            if not ready:
                producer.init_transactions()
                ready = True
            written.write("begin", txn=name, at=at)
            written.sent(at, where, value, "begun", txn=name)
            with producer.transaction():
                delivery = producer.send(OUTPUTS, value, partition=where[1])
                producer.flush()
                written.ended(now_us(), name, "commit", "begun")
            written.sent(at, where, value, "ok", offset=delivery.result().offset, txn=name)
            written.ended(at, name, "commit", "ok")
            report.done(at)
        except TransactionFailed as error:
            report.failed(error)  # the transaction was aborted; continue
        except KohortError as error:
            report.failed(error)
            close_quietly(producer)
            over.wait(REOPEN_S)
            producer, ready = Producer(transactional), False
    close(producer.close, report)


def close_quietly(producer: Producer) -> None:
    """Close a failed producer; the next one of the same name aborts its transaction."""
    with suppress(KohortError):
        producer.close(0)


def administer(of: Task, options: dict[str, Any], over: threading.Event, report: Report) -> None:
    """Query the end offsets of a topic repeatedly."""
    written = history(of)
    admin = Admin(options)
    partition = TopicPartition(INPUTS, 0)
    while not over.wait(SEND_EVERY_S):
        at = now_us()
        try:
            offset = admin.list_offsets({partition: "latest"})[partition].offset
            written.write("ends", topic=INPUTS, partition=0, offset=offset, at=at, done=now_us())
            report.done(at)
        except KohortError as error:
            report.failed(error)
    close(admin.close, report)
