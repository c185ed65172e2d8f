"""Recorded clients of confluent-kafka (librdkafka): the same command line as ``with_kohort.py``, without ``copy``."""

from __future__ import annotations

import itertools
import threading

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from recording import POLL_MS, SEND_EVERY_S, SESSION_MS, Task, history, now_us, task, until_stopped

INPUTS = "in"


def produce(of: Task, over: threading.Event) -> None:
    idempotent = of.kind == "idempotent"
    written = history(of, "confluent-kafka", idempotent=idempotent)
    producer = Producer({"bootstrap.servers": of.bootstrap, "enable.idempotence": idempotent})
    partitions = len(producer.list_topics(INPUTS, 30).topics[INPUTS].partitions)
    for number in itertools.count():
        if over.wait(SEND_EVERY_S):
            break
        value, at, partition = f"{of.name}:{number}", now_us(), number * 7 % partitions
        written.sent(at, (INPUTS, partition), value, "begun")

        def answered(error, message, value=value, at=at, partition=partition) -> None:
            if error is None:
                written.sent(at, (INPUTS, partition), value, "ok", offset=message.offset())

        producer.produce(INPUTS, value, partition=partition, on_delivery=answered)
        producer.poll(0)
    producer.flush(10)


def consume(of: Task, over: threading.Event) -> None:
    only, group = "read_committed", f"readers-{of.kind}"
    written = history(of, "confluent-kafka", isolation=only, session_us=SESSION_MS * 1000)
    own = {"session.timeout.ms": SESSION_MS, "partition.assignment.strategy": "cooperative-sticky"}
    consumer = Consumer(
        {
            "bootstrap.servers": of.bootstrap,
            "group.id": group,
            "group.protocol": of.kind,
            "isolation.level": only,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **(own if of.kind == "classic" else {}),
        }
    )

    def write_ownership(kind, partitions) -> None:
        generation = {"generation": -1} if kind == "assigned" else {"closing": over.is_set() or None}
        written.ownership(kind, now_us(), group, [(p.topic, p.partition) for p in partitions], **generation)

    consumer.subscribe(
        [INPUTS],
        on_assign=lambda _, partitions: write_ownership("assigned", partitions),
        on_revoke=lambda _, partitions: write_ownership("revoked", partitions),
        on_lost=lambda _, partitions: write_ownership("lost", partitions),
    )
    while not over.is_set():
        at, message = now_us(), consumer.poll(POLL_MS / 1000)
        if message is None or message.error():
            continue
        where, offset = (message.topic(), message.partition()), message.offset()
        written.read(at, where, [(offset, message.value().decode())])
        if offset % 10:
            continue
        at = now_us()
        written.committed(at, group, {where: offset + 1}, "begun", id=at)
        try:
            consumer.commit(offsets=[TopicPartition(*where, offset + 1)], asynchronous=False)
            written.committed(at, group, {where: offset + 1}, "ok", id=at)
        except KafkaException:
            written.committed(at, group, {where: offset + 1}, "unknown", id=at)
    consumer.close()


if __name__ == "__main__":
    mine = task()
    {"produce": produce, "consume": consume}[mine.verb](mine, until_stopped())
