"""confluent-kafka behind the command line of ``../README.md``: every version since 2.0.

    with_confluent.py LIBRDKAFKA VERB ...

LIBRDKAFKA is the version of librdkafka that must be behind it. There is one verb more:

    with_confluent.py LIBRDKAFKA transact BOOTSTRAP TRANSACTIONAL_ID

It does a step per line of the standard input (``begin``, ``send TOPIC VALUE``, ``flush``,
``offset GROUP TOPIC OFFSET``, ``commit``, ``abort``) and prints ``{"done": STEP}`` behind each.
"""

import json
import sys
import time

import confluent_kafka
import contract
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition, admin
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

WAIT_S = contract.WAIT_S
OF_OTHERS = ("ssl.truststore.location", "ssl.keystore.location", "store.password", "token")
"""Options without a librdkafka equivalent, or with another name."""
HOUR_S = 3600


def to(bootstrap):
    settings = contract.Security.settings
    options = {name: value for name, value in settings.items() if name not in OF_OTHERS}
    tokens = {"oauth_cb": lambda _: (settings["token"], time.time() + HOUR_S)} if "token" in settings else {}
    return {"bootstrap.servers": bootstrap, **options, **tokens}


def consume(bootstrap, group, topic, strategy, instance):
    options = {"auto.commit.interval.ms": contract.COMMIT_MS}
    if strategy == contract.BY_COORDINATOR:
        options["group.protocol"] = "consumer"
    else:
        options |= {"session.timeout.ms": contract.session_ms(instance), "heartbeat.interval.ms": 500}
    if strategy not in ("-", contract.BY_COORDINATOR):
        options["partition.assignment.strategy"] = strategy
    if instance != "-":
        options["group.instance.id"] = instance
    consumer = member(bootstrap, group, options)
    consumer.subscribe(
        [topic],
        on_assign=lambda _consumer, partitions: contract.gained(partitions),
        on_revoke=lambda _consumer, partitions: contract.gave_up(partitions),
        on_lost=lambda _consumer, partitions: contract.gave_up(partitions),
    )
    while not contract.Stop.is_requested:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            contract.say(read=[message.partition(), message.offset()])
    consumer.close()


def play(*words):
    role = contract.role(words)
    options = {
        "client.id": role["client"],
        "auto.commit.interval.ms": contract.COMMIT_MS,
        "max.poll.interval.ms": role["poll"],
    }
    if role["strategy"] == contract.BY_COORDINATOR:
        options["group.protocol"] = "consumer"
    else:
        options["partition.assignment.strategy"] = role["strategy"]
        options |= {"session.timeout.ms": role["session"], "heartbeat.interval.ms": role["heartbeat"]}
    if role["instance"] != "-":
        options["group.instance.id"] = role["instance"]
    consumer = member(role["bootstrap"], role["group"], options)
    pattern = contract.PATTERN in role
    consumer.subscribe([f"^{role[contract.PATTERN]}.*"] if pattern else role[contract.TOPICS].split(","))
    orders = contract.Orders()
    while not contract.Stop.is_requested:
        order = orders.next()
        contract.stall(order)
        if order[:1] == ["subscribe"]:
            consumer.subscribe(order[1].split(","))
        message = consumer.poll(0.2)
        if message is not None and message.error() is not None and message.error().fatal():
            raise KafkaException(message.error())
    consumer.close()


def member(bootstrap, group, options):
    return Consumer(
        {
            **to(bootstrap),
            "group.id": group,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": contract.METADATA_MS,
            **options,
        }
    )


def discover(bootstrap, group, prefix, count):
    consumer = member(bootstrap, group, {"session.timeout.ms": contract.SESSION_MS, "heartbeat.interval.ms": 500})
    consumer.subscribe([f"^{prefix}.*"])
    found = 0
    while found < int(count):
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            contract.say(found=[message.topic(), message.offset()])
            found += 1
    consumer.close()


def produce(bootstrap, topic, codec):
    def on_delivery(error, message):
        if error is not None:
            raise KafkaException(error)
        contract.say(sent=[message.partition(), message.offset()])

    settings = {
        **to(bootstrap),
        "enable.idempotence": True,
        "linger.ms": 50,
        "compression.type": codec,
        "partitioner": "murmur2_random",  # Java's, and ours
    }
    producer = Producer(settings)
    for record in contract.records():
        placed = {} if record.partition is None else {"partition": record.partition}
        producer.produce(topic, record.value, record.key, headers=record.headers, on_delivery=on_delivery, **placed)
    assert producer.flush(WAIT_S) == 0


def read(bootstrap, topic, partition, count):
    consumer = Consumer({**to(bootstrap), "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, int(partition), 0)])
    found = 0
    while found < int(count):
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            contract.record(message.offset(), message.timestamp()[1], message.key(), message.value(), message.headers())
            found += 1
    consumer.close()


def administer(bootstrap, topic, group, there, time_ms):
    client = AdminClient(to(bootstrap))
    topics(client, topic)
    configs(client, topic)
    nodes(client)
    offsets(client, bootstrap, there, int(time_ms))
    groups(client, group, there)
    only(client.delete_topics([topic]))
    contract.say_deleted(topic, lambda: client.list_topics(timeout=WAIT_S).topics)


def only(futures):
    """Return the result of a single future."""
    (future,) = futures.values()
    return future.result(WAIT_S)


def topics(client, topic):
    def partitions():
        return len(client.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)

    new_topic = NewTopic(topic, num_partitions=2, replication_factor=1, config={"retention.ms": "1234567"})
    only(client.create_topics([new_topic]))
    contract.say(created=partitions())
    try:
        only(client.create_topics([new_topic]))
    except KafkaException as error:
        contract.say(refused=error.args[0].name() == "TOPIC_ALREADY_EXISTS")
    only(client.create_partitions([NewPartitions(topic, 3)]))
    contract.say_grown(partitions)
    listed = client.list_topics(timeout=WAIT_S).topics[topic].partitions
    contract.say(listed=len(listed))
    if hasattr(client, "describe_topics"):
        described = only(client.describe_topics(confluent_kafka.TopicCollection([topic]))).partitions
        rows = [[p.id, p.leader.id, [n.id for n in p.replicas], [n.id for n in p.isr]] for p in described]
    else:
        rows = [[p.id, p.leader, p.replicas, p.isrs] for p in listed.values()]
    contract.say(described=sorted(rows))


def configs(client, topic):
    resource = ConfigResource("topic", topic)

    def retention():
        return only(client.describe_configs([resource]))["retention.ms"].value

    contract.say(retention=(before := retention()))
    if hasattr(client, "incremental_alter_configs"):
        change = admin.ConfigEntry("retention.ms", "7654321", incremental_operation=admin.AlterConfigOpType.SET)
        only(client.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[change])]))
    else:
        only(client.alter_configs([ConfigResource("topic", topic, set_config={"retention.ms": "7654321"})]))
    contract.say_altered(retention, before)


def nodes(client):
    if hasattr(client, "describe_cluster"):
        cluster = client.describe_cluster().result(WAIT_S)
        ids, controller = [node.id for node in cluster.nodes], cluster.controller.id
    else:
        cluster = client.list_topics(timeout=WAIT_S)
        ids, controller = list(cluster.brokers), cluster.controller_id
    contract.say(cluster=[ids, controller])
    options = only(client.describe_configs([ConfigResource("broker", str(controller))]))
    contract.say(broker=options["log.cleanup.policy"].value)


def offsets(client, bootstrap, there, time_ms):
    place = TopicPartition(there, 0)
    if hasattr(client, "list_offsets"):
        spec = admin.OffsetSpec
        specs = [spec.earliest(), spec.latest(), spec.for_timestamp(time_ms)]
        low, high, later = [only(client.list_offsets({place: one})).offset for one in specs]
    else:
        consumer = Consumer({**to(bootstrap), "group.id": "unused"})
        low, high = consumer.get_watermark_offsets(place, timeout=WAIT_S)
        (at,) = consumer.offsets_for_times([TopicPartition(there, 0, time_ms)], timeout=WAIT_S)
        later = at.offset
        consumer.close()
    contract.say(offsets=[low, high], at_time=later)
    if hasattr(client, "delete_records"):
        contract.say(cut=only(client.delete_records([TopicPartition(there, 0, 1)])).low_watermark)


def groups(client, group, there):
    def listed():
        return [g.group_id for g in client.list_consumer_groups().result(WAIT_S).valid]

    contract.say(groups=group in listed() and group in [g.id for g in client.list_groups(timeout=WAIT_S)])
    described = only(client.describe_consumer_groups([group]))
    contract.say(group=[described.state.name.capitalize(), len(described.members)])
    whole = confluent_kafka.ConsumerGroupTopicPartitions(group)

    def committed():
        found = only(client.list_consumer_group_offsets([whole])).topic_partitions
        return {p.partition: p.offset for p in found}

    contract.say(committed=committed())
    moved = confluent_kafka.ConsumerGroupTopicPartitions(group, [TopicPartition(there, 0, 2)])
    only(client.alter_consumer_group_offsets([moved]))
    contract.say(moved=committed())
    only(client.delete_consumer_groups([group]))
    contract.say(group_deleted=group not in listed())


def transact(bootstrap, transactional_id):
    producer = Producer({**to(bootstrap), "transactional.id": transactional_id})
    producer.init_transactions(WAIT_S)

    def offset(group, topic, at):
        consumer = Consumer({"bootstrap.servers": "unused", "group.id": group})
        places = [TopicPartition(topic, 0, int(at))]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), WAIT_S)
        consumer.close()

    steps = {
        "begin": producer.begin_transaction,
        "send": lambda topic, *words: producer.produce(topic, " ".join(words), partition=0),
        "flush": lambda: producer.flush(WAIT_S),
        "offset": offset,
        "commit": lambda: producer.commit_transaction(WAIT_S),
        "abort": lambda: producer.abort_transaction(WAIT_S),
    }
    for line in sys.stdin:
        step, *arguments = line.split()
        steps[step](*arguments)
        contract.say(done=step)


if __name__ == "__main__":
    expected = sys.argv.pop(1)
    found = confluent_kafka.libversion()[0]
    assert found == expected, f"librdkafka {found} where {expected} was asked for: {json.dumps(sys.path)}"
    contract.main(
        {
            "consume": consume,
            "play": play,
            "discover": discover,
            "produce": produce,
            "read": read,
            "admin": administer,
            "transact": transact,
        }
    )
