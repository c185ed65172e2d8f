"""kafka-python behind the command line of ``../README.md``."""

import contract
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, KafkaAdminClient, OffsetSpec
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import TopicAlreadyExistsError
from kafka.net.sasl.oauth import AbstractTokenProvider

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


NAMES = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}


class Tokens(AbstractTokenProvider):
    def token(self):
        return contract.Security.settings["token"]


def to(bootstrap):
    tokens = {"sasl_oauth_token_provider": Tokens()} if "token" in contract.Security.settings else {}
    return {"bootstrap_servers": bootstrap, **contract.renamed(NAMES), **tokens}


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        contract.gave_up(revoked)

    def on_partitions_assigned(self, assigned):
        contract.gained(assigned)


def consume(bootstrap, group, topic, strategy, instance):
    options = {} if strategy == "-" else {"partition_assignment_strategy": [ASSIGNORS[strategy]]}
    consumer = KafkaConsumer(
        **to(bootstrap),
        group_id=group,
        group_instance_id=None if instance == "-" else instance,
        auto_offset_reset="earliest",
        session_timeout_ms=contract.session_ms(instance),
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=contract.COMMIT_MS,
        **options,
    )
    consumer.subscribe([topic], listener=Listener())
    while not contract.Stop.is_requested:
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                contract.say(read=[record.partition, record.offset])
    consumer.close()


def discover(bootstrap, group, prefix, count):
    consumer = KafkaConsumer(
        **to(bootstrap),
        group_id=group,
        auto_offset_reset="earliest",
        metadata_max_age_ms=contract.METADATA_MS,
    )
    consumer.subscribe(pattern=f"^{prefix}.*")
    for _, record in zip(range(int(count)), consumer, strict=False):
        contract.say(found=[record.topic, record.offset])
    consumer.close()


def produce(bootstrap, topic, codec):
    producer = KafkaProducer(**to(bootstrap), compression_type=None if codec == "none" else codec, linger_ms=50)
    records = list(contract.records())
    for sent in [producer.send(topic, g.value, g.key, headers=g.headers, partition=g.partition) for g in records]:
        at = sent.get(contract.WAIT_S)
        contract.say(sent=[at.partition, at.offset])
    producer.close()


def read(bootstrap, topic, partition, count):
    consumer = KafkaConsumer(**to(bootstrap), auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, int(partition))])
    for _, record in zip(range(int(count)), consumer, strict=False):
        contract.record(record.offset, record.timestamp, record.key, record.value, record.headers)
    consumer.close()


def administer(bootstrap, topic, group, there, time_ms):
    client = KafkaAdminClient(**to(bootstrap))
    topics(client, topic)
    configs(client, topic)
    nodes(client, there)
    place = TopicPartition(there, 0)
    specs = [OffsetSpec.EARLIEST, OffsetSpec.LATEST, int(time_ms)]
    low, high, later = [client.list_partition_offsets({place: one})[place].offset for one in specs]
    contract.say(offsets=[low, high], at_time=later)
    contract.say(cut=client.delete_records({place: 1})[place]["low_watermark"])
    groups(client, group, place)
    client.delete_topics([topic])
    contract.say_deleted(topic, client.list_topics)
    client.close()


def topics(client, topic):
    def partitions():
        (described,) = client.describe_topics([topic])
        return described["partitions"]

    new_topics = {topic: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1234567"}}}
    client.create_topics(new_topics)
    contract.say(created=len(partitions()))
    try:
        client.create_topics(new_topics)
    except TopicAlreadyExistsError:
        contract.say(refused=True)
    client.create_partitions({topic: 3})
    contract.say_grown(lambda: len(partitions()))
    every = {t["name"]: t["partitions"] for t in client.describe_topics()}
    contract.say(listed=len(every[topic]) if topic in client.list_topics() else None)
    rows = [[p["partition_index"], p["leader_id"], p["replica_nodes"], p["isr_nodes"]] for p in partitions()]
    contract.say(described=sorted(rows))


def configs(client, topic):
    def retention():
        (named,) = client.describe_configs([ConfigResource("topic", topic)])["topic"].values()
        return named["retention.ms"]["value"]

    contract.say(retention=(before := retention()))
    client.alter_configs([ConfigResource("topic", topic, {"retention.ms": "7654321"})])
    contract.say_altered(retention, before)


def nodes(client, there):
    cluster = client.describe_cluster()
    controller = cluster["controller_id"]
    contract.say(cluster=[[b["broker_id"] for b in cluster["brokers"]], controller])
    resources = [ConfigResource("broker", str(controller))]
    (options,) = client.describe_configs(resources, config_filter="all")["broker"].values()
    contract.say(broker=options["log.cleanup.policy"]["value"])
    (described,) = client.describe_log_dirs([there])
    contract.say(on_disk=[t["name"] for folder in described["log_dirs"] for t in folder["topics"]] == [there])


def groups(client, group, place):
    def listed():
        return [g["group_id"] for g in client.list_groups()]

    def committed():
        return {tp.partition: at.offset for tp, at in client.list_group_offsets(group)[group].items()}

    contract.say(groups=group in listed())
    described = client.describe_groups([group])[group]
    contract.say(group=[described["group_state"], len(described["members"])])
    contract.say(committed=committed())
    client.alter_group_offsets(group, {place: OffsetAndMetadata(2, "", -1)})
    contract.say(moved=committed())
    client.delete_groups([group])
    contract.say(group_deleted=group not in listed())


if __name__ == "__main__":
    contract.main({"consume": consume, "discover": discover, "produce": produce, "read": read, "admin": administer})
