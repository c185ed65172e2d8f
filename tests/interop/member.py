"""One member of a group, as a process, for the Python clients; prints a JSON line for all it sees.

    member.py CLIENT consume BOOTSTRAP GROUP TOPIC [STRATEGY [INSTANCE]]

    {"gained": [0, 2], "at": 1700000000000.5}   these partitions are its own now; when, by the machine's clock in ms
    {"gave_up": [0], "at": ...}                 from now on they are not
    {"read": [partition, offset]}               a record
    {"left": true}                              after SIGTERM: it committed and left the group

Each record is committed by its client's auto-commit; a member is ended by SIGTERM (leaves) or SIGKILL (does not).
STRATEGY and INSTANCE (a static member's id) are ``-`` where the client's default will do. The programs of the other
languages in ``clients/`` keep the same contract.
"""

import asyncio
import json
import signal
import sys
import time

SESSION_MS = 6000
STATIC_SESSION_MS = 30_000  # outlives a restart, however slow
COMMIT_MS = 200


def session_ms(instance):
    return SESSION_MS if instance == "-" else STATIC_SESSION_MS


class Stop:
    """Whether SIGTERM has come. Looked at between polls: raised in one, it would take the record with it that the
    poll was about to hand out, and that the client then commits."""

    wanted = False


def say(**what):
    print(json.dumps(what), flush=True)


def gained(partitions):
    say(gained=sorted(p.partition for p in partitions), at=time.time() * 1000)


def gave_up(partitions):
    say(gave_up=sorted(p.partition for p in partitions), at=time.time() * 1000)


def confluent(bootstrap, group, topic, strategy, instance):
    from confluent_kafka import Consumer

    options = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": session_ms(instance),
        "heartbeat.interval.ms": 500,
        "auto.commit.interval.ms": COMMIT_MS,
        "topic.metadata.refresh.interval.ms": 1000,
    }
    if strategy != "-":
        options["partition.assignment.strategy"] = strategy
    if instance != "-":
        options["group.instance.id"] = instance
    consumer = Consumer(options)
    consumer.subscribe(
        [topic],
        on_assign=lambda _consumer, partitions: gained(partitions),
        on_revoke=lambda _consumer, partitions: gave_up(partitions),
        on_lost=lambda _consumer, partitions: gave_up(partitions),
    )
    while not Stop.wanted:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            say(read=[message.partition(), message.offset()])
    consumer.close()


def kafka_python(bootstrap, group, topic, strategy, instance):
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked):
            gave_up(revoked)

        def on_partitions_assigned(self, assigned):
            gained(assigned)

    options = {} if strategy == "-" else {"partition_assignment_strategy": [kafka_python_assignor(strategy)]}
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=None if instance == "-" else instance,
        auto_offset_reset="earliest",
        session_timeout_ms=session_ms(instance),
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=COMMIT_MS,
        **options,
    )
    consumer.subscribe([topic], listener=Listener())
    while not Stop.wanted:
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                say(read=[record.partition, record.offset])
    consumer.close()


def kafka_python_assignor(strategy):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    return {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }[strategy]


def aiokafka(bootstrap, group, topic, strategy, instance):
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "sticky": StickyPartitionAssignor}

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked):
            gave_up(revoked)

        async def on_partitions_assigned(self, assigned):
            gained(assigned)

    async def run():
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=None if instance == "-" else instance,
            auto_offset_reset="earliest",
            session_timeout_ms=session_ms(instance),
            heartbeat_interval_ms=500,
            auto_commit_interval_ms=COMMIT_MS,
            partition_assignment_strategy=[assignors.get(strategy, RoundRobinPartitionAssignor)],
        )
        await consumer.start()
        consumer.subscribe([topic], listener=Listener())
        while not stopped.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    say(read=[record.partition, record.offset])
        await consumer.stop()

    asyncio.run(run())


def kohort(bootstrap, group, topic, strategy, instance):
    from kohort import Consumer

    class Listener:
        def on_partitions_revoked(self, partitions):
            gave_up(partitions)

        def on_partitions_lost(self, partitions):
            gave_up(partitions)

        def on_partitions_assigned(self, partitions):
            gained(partitions)

    options = {} if strategy == "-" else {"partition_assignment_strategy": [strategy]}
    consumer = Consumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=None if instance == "-" else instance,
        auto_offset_reset="earliest",
        session_timeout_ms=session_ms(instance),
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=COMMIT_MS,
        **options,
    )
    consumer.subscribe([topic], Listener())
    while not Stop.wanted:
        for record in consumer.poll(timeout_ms=200):
            say(read=[record.partition, record.offset])
    consumer.close()


CLIENTS = {"confluent": confluent, "kafka-python": kafka_python, "aiokafka": aiokafka, "kohort": kohort}


def stop(_signal, _frame):
    Stop.wanted = True


def main(client, verb, bootstrap, group, topic, strategy="-", instance="-"):
    assert verb == "consume", verb
    signal.signal(signal.SIGTERM, stop)
    CLIENTS[client](bootstrap, group, topic, strategy, instance)
    say(left=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
