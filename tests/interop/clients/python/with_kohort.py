"""kohort's own client behind the command line of ``../README.md``; its other calls have tests of their own."""

import re

import contract

from kohort import Consumer, Producer, SubscriptionPattern

OF_OTHERS = ("ssl.truststore.location", "ssl.keystore.location", "store.password", "token")
"""Options without a kohort equivalent, or with another name."""


def to(bootstrap):
    settings = contract.Security.settings
    options = {name.replace(".", "_"): value for name, value in settings.items() if name not in OF_OTHERS}
    tokens = {"sasl_oauth_token_provider": lambda: settings["token"]} if "token" in settings else {}
    return {"bootstrap_servers": bootstrap, **options, **tokens}


class Listener:
    def on_partitions_revoked(self, partitions):
        contract.gave_up(partitions)

    def on_partitions_lost(self, partitions):
        contract.gave_up(partitions)

    def on_partitions_assigned(self, partitions):
        contract.gained(partitions)


def consume(bootstrap, group, topic, strategy, instance):
    consumer = Consumer(
        **to(bootstrap),
        group_id=group,
        group_instance_id=None if instance == "-" else instance,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=contract.COMMIT_MS,
        **membership(strategy, instance),
    )
    consumer.subscribe([topic], Listener())
    while not contract.Stop.is_requested:
        for record in consumer.poll(timeout_ms=200):
            contract.say(read=[record.partition, record.offset])
    consumer.close()


def membership(strategy, instance):
    if strategy == contract.BY_COORDINATOR:
        return {"group_protocol": "consumer"}
    classic = {"session_timeout_ms": contract.session_ms(instance), "heartbeat_interval_ms": 500}
    return classic if strategy == "-" else {**classic, "partition_assignment_strategy": [strategy]}


def play(*words):
    role = contract.role(words)
    classic = {
        "session_timeout_ms": role["session"],
        "heartbeat_interval_ms": role["heartbeat"],
        "partition_assignment_strategy": str(role["strategy"]).split(","),
    }
    modern = role["strategy"] == contract.BY_COORDINATOR
    consumer = Consumer(
        bootstrap_servers=role["bootstrap"],
        group_id=role["group"],
        client_id=role["client"],
        group_instance_id=None if role["instance"] == "-" else role["instance"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=contract.COMMIT_MS,
        max_poll_interval_ms=role["poll"],
        metadata_max_age_ms=contract.METADATA_MS,
        **({"group_protocol": "consumer"} if modern else classic),
    )
    if contract.PATTERN in role:
        expression = f"{role[contract.PATTERN]}.*"
        consumer.subscribe(SubscriptionPattern(expression) if modern else re.compile(expression))
    else:
        consumer.subscribe(role[contract.TOPICS].split(","))
    orders = contract.Orders()
    while not contract.Stop.is_requested:
        order = orders.next()
        contract.stall(order)
        if order[:1] == ["enforce"]:
            consumer.enforce_rebalance(" ".join(order[1:]))
        elif order[:1] == ["subscribe"]:
            consumer.subscribe(order[1].split(","))
        consumer.poll(timeout_ms=200)
    consumer.close()


def produce(bootstrap, topic, codec):
    with Producer(**to(bootstrap), compression_type=codec, linger_ms=50) as producer:
        records = list(contract.records())
        for sent in [producer.send(topic, g.value, g.key, partition=g.partition, headers=g.headers) for g in records]:
            at = sent.result(contract.WAIT_S * 1000)
            contract.say(sent=[at.partition, at.offset])


if __name__ == "__main__":
    contract.main({"consume": consume, "play": play, "produce": produce})
