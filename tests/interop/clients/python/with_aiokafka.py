"""aiokafka behind the command line of ``../README.md``."""

import asyncio
import signal

import contract
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.helpers import create_ssl_context

ASSIGNORS = {"range": RangePartitionAssignor, "sticky": StickyPartitionAssignor}
EXISTS = 36
NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
FILES = {"ssl.ca.location": "cafile", "ssl.certificate.location": "certfile", "ssl.key.location": "keyfile"}


class Tokens(AbstractTokenProvider):
    async def token(self):
        return contract.Security.settings["token"]


def to(bootstrap):
    options = {"bootstrap_servers": bootstrap, **contract.renamed(NAMES)}
    if files := contract.renamed(FILES):
        options["ssl_context"] = create_ssl_context(**files)
    if "token" in contract.Security.settings:
        options["sasl_oauth_token_provider"] = Tokens()
    return options


class Listener(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked):
        contract.gave_up(revoked)

    async def on_partitions_assigned(self, assigned):
        contract.gained(assigned)


async def consume(bootstrap, group, topic, strategy, instance):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    consumer = AIOKafkaConsumer(
        **to(bootstrap),
        group_id=group,
        group_instance_id=None if instance == "-" else instance,
        auto_offset_reset="earliest",
        session_timeout_ms=contract.session_ms(instance),
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=contract.COMMIT_MS,
        partition_assignment_strategy=[ASSIGNORS.get(strategy, RoundRobinPartitionAssignor)],
    )
    await consumer.start()
    consumer.subscribe([topic], listener=Listener())
    while not stopped.is_set():
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for record in records:
                contract.say(read=[record.partition, record.offset])
    contract.gave_up(consumer.assignment())  # the listener is not called when the consumer closes
    await consumer.stop()


async def discover(bootstrap, group, prefix, count):
    consumer = AIOKafkaConsumer(
        **to(bootstrap),
        group_id=group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=contract.METADATA_MS,
    )
    await consumer.start()
    consumer.subscribe(pattern=f"^{prefix}.*")
    for _ in range(int(count)):
        record = await consumer.getone()
        contract.say(found=[record.topic, record.offset])
    await consumer.stop()


async def produce(bootstrap, topic, codec):
    producer = AIOKafkaProducer(
        **to(bootstrap),
        enable_idempotence=True,
        compression_type=None if codec == "none" else codec,
        linger_ms=50,
    )
    await producer.start()
    records = list(contract.records())
    sent = [await producer.send(topic, g.value, g.key, headers=g.headers, partition=g.partition) for g in records]
    for at in await asyncio.gather(*sent):
        contract.say(sent=[at.partition, at.offset])
    await producer.stop()


async def read(bootstrap, topic, partition, count):
    consumer = AIOKafkaConsumer(**to(bootstrap), auto_offset_reset="earliest")
    await consumer.start()
    consumer.assign([TopicPartition(topic, int(partition))])
    for _ in range(int(count)):
        record = await consumer.getone()
        contract.record(record.offset, record.timestamp, record.key, record.value, record.headers)
    await consumer.stop()


async def administer(bootstrap, topic, group, there, time_ms):
    client = AIOKafkaAdminClient(**to(bootstrap))
    await client.start()
    await topics(client, topic)
    await configs(client, topic)
    await nodes(client)
    await offsets(bootstrap, TopicPartition(there, 0), int(time_ms))
    place = TopicPartition(there, 0)
    contract.say(cut=(await client.delete_records({place: RecordsToDelete(before_offset=1)}))[place])
    contract.say(groups=group in [name for name, *_ in await client.list_consumer_groups()])
    (described,) = [g for answer in await client.describe_consumer_groups([group]) for g in answer.groups]
    _, _, state, _, _, members, *_ = described
    contract.say(group=[state, len(members)])
    committed = await client.list_consumer_group_offsets(group)
    contract.say(committed={tp.partition: at.offset for tp, at in committed.items()})
    await client.delete_topics([topic])
    async with asyncio.timeout(contract.WAIT_S):
        while topic in await client.list_topics():  # a broker can learn of the deletion later
            pass
    contract.say(deleted=topic not in await client.list_topics())
    await client.close()


async def topics(client, topic):
    async def partitions():
        (described,) = await client.describe_topics([topic])
        return described["partitions"]

    new_topic = NewTopic(topic, 2, 1, topic_configs={"retention.ms": "1234567"})
    await client.create_topics([new_topic])
    contract.say(created=len(await partitions()))
    again = await client.create_topics([new_topic])
    contract.say(refused=[code for _, code, *_ in again.topic_errors] == [EXISTS])
    await client.create_partitions({topic: NewPartitions(3)})
    # A broker of Apache Kafka may learn of it a little later than the controller has answered.
    async with asyncio.timeout(contract.WAIT_S):
        while len(await partitions()) == 2:
            pass
    contract.say(grown=len(await partitions()))
    every = {t["topic"]: t["partitions"] for t in await client.describe_topics()}
    contract.say(listed=len(every[topic]) if topic in await client.list_topics() else None)
    rows = [[p["partition"], p["leader"], p["replicas"], p["isr"]] for p in await partitions()]
    contract.say(described=sorted(rows))


async def configs(client, topic):
    contract.say(retention=(await options_of(client, ConfigResourceType.TOPIC, topic))["retention.ms"])
    await client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "7654321"})])
    contract.say(altered=(await options_of(client, ConfigResourceType.TOPIC, topic))["retention.ms"])


async def options_of(client, kind, name):
    (answer,) = await client.describe_configs([ConfigResource(kind, name)])
    ((code, message, _, _, entries),) = answer.resources
    assert code == 0, message
    return {option: value for option, value, *_ in entries}


async def nodes(client):
    cluster = await client.describe_cluster()
    controller = cluster["controller_id"]
    contract.say(cluster=[[b["node_id"] for b in cluster["brokers"]], controller])
    options = await options_of(client, ConfigResourceType.BROKER, str(controller))
    contract.say(broker=options["log.cleanup.policy"])


async def offsets(bootstrap, place, time_ms):
    consumer = AIOKafkaConsumer(**to(bootstrap))
    await consumer.start()
    low, high = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
    later = await consumer.offsets_for_times({place: time_ms})
    contract.say(offsets=[low[place], high[place]], at_time=later[place].offset)
    await consumer.stop()


def runs(verb):
    return lambda *arguments: asyncio.run(verb(*arguments))


if __name__ == "__main__":
    verbs = {"consume": consume, "discover": discover, "produce": produce, "read": read, "admin": administer}
    contract.main({name: runs(verb) for name, verb in verbs.items()})
