"""Our clients at an Apache Kafka that asks for Kerberos tickets: a KDC, a keytab for the broker, one for each client.

`make kerberos` brings what this needs from Debian and PyPI, and runs it; elsewhere it is skipped.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kohort
from kohort import AuthenticationFailed
from support.peers.apache_kafka import OPTIONS, RUNNING, kafka_tool
from support.security.kerberos_realm import Realm, kerberos_realm, skip_where_missing
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
WAIT_MS = 60_000
PARTITIONS = 6
SESSION_MS = 3000
"""Logins are good for so long: a group that lives longer renews its tickets' logins meanwhile."""
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
Options = dict[str, Any]


class Place(NamedTuple):
    """An Apache Kafka in a realm, and the keytab of ``alice``."""

    realm: Realm
    bootstrap: str
    alice: Path

    def options(self, keytab: Path | None = None, **more: Any) -> Options:
        """Return client options with a keytab, by Java's names, as in a ``client.properties``."""
        module = (
            f'{MODULE} required useKeyTab=true keyTab="{keytab or self.alice}" principal="alice@{self.realm.name}";'
        )
        return {**self.of_ticket(), "sasl.jaas.config": module, **more}

    def of_ticket(self) -> Options:
        """Return client options with the ticket of the environment."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    skip_where_missing()
    tool = kafka_tool()
    folder = tmp_path_factory.mktemp("realm")
    with kerberos_realm(folder) as realm:
        broker = realm.add("kafka/127.0.0.1")
        who = f"kafka/127.0.0.1@{realm.name}"
        login = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{broker}" principal="{who}";'
        options = {
            "listener.name.kerberos.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.kerberos.gssapi.sasl.jaas.config": login,
            "listener.name.kerberos.connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": "0",
            "sasl.kerberos.service.name": "kafka",
        }
        security = tool.Security(
            listeners={"KERBEROS": "SASL_PLAINTEXT"}, system={"java.security.krb5.conf": str(realm.config)}
        )
        with tool.Kafka(security, **OPTIONS, **options) as running:
            RUNNING.append(running)
            try:
                yield Place(realm, running.addresses["KERBEROS"], realm.add("alice", "secret"))
            finally:
                RUNNING.remove(running)


@pytest.fixture
def topic(place: Place) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with kohort.Admin(place.options()) as admin:
        admin.create_topics({name: PARTITIONS})
    return name


def share_everything(members: Sequence[kohort.Consumer], count: int) -> bool:
    """Return True if the members own all partitions, each at least one; each is polled."""
    for member in members:
        member.poll(50)
    owned = [tp for member in members for tp in member.assignment()]
    return (
        all(m.assignment() for m in members) and len(members) == count and len(owned) == len(set(owned)) == PARTITIONS
    )


def test_three_of_a_group_share_a_topic_and_outlive_their_logins(place: Place, topic: str) -> None:
    options = place.options(**{"group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 10_000})
    with kohort.Producer(place.options()) as producer, ExitStack() as open_ones:
        sent = [producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(60)]
        assert [found.result(WAIT_MS).offset for found in sent] == [n // PARTITIONS for n in range(60)]

        members = [open_ones.enter_context(kohort.Consumer(options)) for _ in range(2)]
        for member in members:
            member.subscribe([topic])
        eventually(lambda: share_everything(members, 2), "two do not share the topic", pause_s=0)
        third = open_ones.enter_context(kohort.Consumer(options))
        third.subscribe([topic])
        members.append(third)
        eventually(lambda: share_everything(members, 3), "three do not share the topic", pause_s=0)

        until = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < until:
            producer.send(topic, b"later").result(WAIT_MS)
            assert share_everything(members, 3), "a login that was renewed has cost a member its partitions"

        members.pop(0).close()
        eventually(lambda: share_everything(members, 2), "the two that are left do not share the topic", pause_s=0)
        for member in members:
            member.commit()
    with kohort.Admin(place.options()) as admin:
        committed = admin.list_group_offsets(topic)
        assert sum(at.offset for at in committed.values()) > 60


def test_login_with_ticket_of_environment(place: Place, topic: str) -> None:
    with kohort.Admin(place.of_ticket()) as admin:
        assert topic in {found.name for found in admin.list_topics()}


def refusal(options: Options) -> str:
    """The error of a client's first call, which may take an hour of retries."""
    an_hour = {"default.api.timeout.ms": 3_600_000}
    with kohort.Admin({**options, **an_hour}) as admin, pytest.raises(AuthenticationFailed) as caught:
        admin.list_topics()
    words = str(caught.value)
    assert "\n" not in words
    return words


def test_a_keytab_that_is_no_use_ends_the_call_in_one_sentence(place: Place, tmp_path: Path) -> None:
    assert f"file {tmp_path}/none is missing" in refusal(place.options(tmp_path / "none"))
    bob = place.realm.add("bob")
    assert f"{bob}: No key table entry found for alice@{place.realm.name}" in refusal(place.options(bob))


def test_an_expired_ticket_ends_the_call_in_one_sentence(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(place.realm.expired_ticket("alice", "secret")))
    assert "Ticket expired; get a ticket with kinit" in refusal(place.of_ticket())


def test_unreachable_kdc_is_reported_in_one_sentence(place: Place) -> None:
    fresh = place.realm.add("carol")
    options = {**place.of_ticket(), "sasl.kerberos.keytab": str(fresh), "sasl.kerberos.principal": "carol"}
    with place.realm.without_kdc():
        assert f"Cannot contact any KDC for realm '{place.realm.name}'" in refusal(options)
    with kohort.Admin(options) as admin:
        admin.list_topics()


def test_a_ticket_for_another_broker_is_refused_by_kafka(place: Place) -> None:
    place.realm.add("kafka/elsewhere")
    words = refusal(place.options(**{"sasl.kerberos.domain.name": "elsewhere"}))
    assert "GSSAPI" in words
