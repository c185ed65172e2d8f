from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import kohort
from kohort import AclBinding, AclBindingFilter, ApiError
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS
from support.waiting import eventually

pytestmark = pytest.mark.ours
HOUR_MS = 3_600_000
FETCH_WAIT_MS = 500
TOPIC, OTHER, GROUP = ("topic", "t"), ("topic", "other"), ("group", "g")


@dataclass
class Rights:
    bootstrap: str
    inside: str
    root: kohort.Admin

    def give(self, *resources: tuple[str, str]) -> None:
        self.root.create_acls([AclBinding(kind, name, "User:alice", "read") for kind, name in resources])

    def take(self, kind: str, name: str) -> None:
        self.root.delete_acls([AclBindingFilter(kind, name, "User:alice")])

    def produce(self) -> None:
        with kohort.Producer(bootstrap_servers=self.inside) as producer:
            producer.send("t", b"v").result(60_000)

    def reader(self, protocol: str) -> kohort.Consumer:
        options = {
            "group.id": "g",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "metadata.max.age.ms": HOUR_MS,
        }
        if protocol == "classic":
            options |= {"heartbeat.interval.ms": 100, "session.timeout.ms": HOUR_MS}
        consumer = kohort.Consumer({"bootstrap.servers": self.bootstrap, **AS_ALICE, **options})
        consumer.subscribe(["t"])
        return consumer


@pytest.fixture
def rights() -> Iterator[Rights]:
    options = {
        **ASKS_FOR_RIGHTS,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.max.session.timeout.ms": HOUR_MS,
        "group.consumer.session.timeout.ms": HOUR_MS,
        "group.max.session.timeout.ms": HOUR_MS,
        "group.initial.rebalance.delay.ms": 0,
    }
    with kohort.Broker(options) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as root:
        root.create_topics({"t": 1, "other": 1})
        yield Rights(broker.bootstrap_of("SASL"), broker.bootstrap, root)


def poll_error(consumer: kohort.Consumer) -> str:
    try:
        consumer.poll(50)
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_continues_soon_after_a_revoked_right_is_granted_again(rights: Rights, protocol: str):
    rights.give(TOPIC, GROUP)
    rights.produce()
    with rights.reader(protocol) as consumer:
        eventually(lambda: consumer.poll(100))

        consumer.pause(consumer.assignment())  # fetch responses would wake the client
        consumer.poll(2 * FETCH_WAIT_MS)
        consumer.subscribe(["t", "other"])
        eventually(lambda: poll_error(consumer).startswith("TOPIC_AUTHORIZATION_FAILED: topic 'other'"))
        rights.take(*GROUP)
        eventually(lambda: poll_error(consumer).startswith("GROUP_AUTHORIZATION_FAILED: "))
        polls = iter(range(100))  # until requests in flight and retries are finished
        eventually(lambda: poll_error(consumer) and next(polls, None) is None)
        rights.give(OTHER, GROUP)

        eventually(lambda: not poll_error(consumer), "nobody told it that it may read again")
        consumer.resume(consumer.assignment())
        rights.produce()
        eventually(lambda: consumer.poll(100))
