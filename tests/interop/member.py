"""One member of a group, as a process: ``member.py CLIENT BOOTSTRAP GROUP TOPIC``; prints a JSON line for all it sees.

    {"owns": [0, 2]}                  after a rebalance
    {"read": [partition, offset]}     a record
    {"left": true}                    after SIGTERM: it committed and left the group

Each record is committed by its client's auto-commit; a member is ended by SIGTERM (leaves) or SIGKILL (does not).
"""

import asyncio
import json
import signal
import sys

SESSION_MS = 6000
COMMIT_MS = 200


class Stop(BaseException):
    """SIGTERM."""


def say(**what):
    print(json.dumps(what), flush=True)


def confluent(bootstrap, group, topic):
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "auto.commit.interval.ms": COMMIT_MS,
        }
    )

    def owns(_consumer, partitions):
        say(owns=sorted(p.partition for p in partitions))

    consumer.subscribe([topic], on_assign=owns)
    try:
        while True:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                say(read=[message.partition(), message.offset()])
    except Stop:
        consumer.close()


def kafka_python(bootstrap, group, topic):
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            pass

        def on_partitions_assigned(self, assigned):
            say(owns=sorted(p.partition for p in assigned))

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=COMMIT_MS,
    )
    consumer.subscribe([topic], listener=Listener())
    try:
        while True:
            for records in consumer.poll(timeout_ms=200).values():
                for record in records:
                    say(read=[record.partition, record.offset])
    except Stop:
        consumer.close()


def aiokafka(bootstrap, group, topic):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            pass

        async def on_partitions_assigned(self, assigned):
            say(owns=sorted(p.partition for p in assigned))

    async def run():
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=500,
            auto_commit_interval_ms=COMMIT_MS,
        )
        await consumer.start()
        consumer.subscribe([topic], listener=Listener())
        while not stopped.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    say(read=[record.partition, record.offset])
        await consumer.stop()

    asyncio.run(run())


def kohort(bootstrap, group, topic):
    from kohort import Consumer

    class Listener:
        def on_partitions_revoked(self, partitions):
            pass

        def on_partitions_lost(self, partitions):
            pass

        def on_partitions_assigned(self, partitions):
            say(owns=sorted(p.partition for p in consumer.assignment()))

    consumer = Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=COMMIT_MS,
    )
    consumer.subscribe([topic], Listener())
    try:
        while True:
            for record in consumer.poll(timeout_ms=200):
                say(read=[record.partition, record.offset])
    except Stop:
        consumer.close()


def stop(_signal, _frame):
    raise Stop


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka, "kohort": kohort}[sys.argv[1]](
        *sys.argv[2:]
    )
    say(left=True)
