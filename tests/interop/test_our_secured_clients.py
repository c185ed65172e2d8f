"""kohort's own clients over secured listeners, of Apache Kafka and of our broker: what holds here holds there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import kohort
from kohort import ApiError, AuthenticationFailed, ErrorCode, KohortError
from kohort.security.acls import Operation, ResourceType
from support.security.access import Grant, allow_all, grant, take_all
from support.security.certificates import PASSWORD
from support.security.secured_cluster import REAUTH_MS, WAYS, SecuredCluster, our_options
from support.security.tokens import CLIENT, CLIENT_SECRET, token_service
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]
WAIT_MS = 60_000
Options = dict[str, Any]


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> SecuredCluster:
    """A secured cluster, where ``alice`` may do everything."""
    found: SecuredCluster = request.getfixturevalue(f"secured_{request.param}")
    allow_all(found.setup, "alice")
    return found


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def options_for(cluster: SecuredCluster, way: str, **more: Any) -> Options:
    """Return the options of a kohort client for a login method."""
    return {"bootstrap.servers": cluster.address(way), **our_options(cluster.properties(way)), **more}


def live_a_life(options: Options, topic: str) -> None:
    """Create and fill a topic; a member of a group reads, commits and leaves; the next one resumes."""
    with kohort.Admin(options) as admin:
        admin.create_topics({topic: 2})
    with kohort.Producer(options) as producer:
        sent = [producer.send(topic, b"%d" % n, partition=n % 2) for n in range(100)]
        assert [found.result(WAIT_MS).offset for found in sent] == [n // 2 for n in range(100)]
    assert read(options, topic, 100) == {b"%d" % n for n in range(100)}
    with kohort.Producer(options) as producer:
        producer.send(topic, b"later", partition=0).result(WAIT_MS)
    assert read(options, topic, 1) == {b"later"}


def read(options: Options, topic: str, count: int) -> set[bytes | None]:
    """Return ``count`` records that a member of a group reads; it commits and leaves."""
    found: list[bytes | None] = []
    with kohort.Consumer({**options, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        while len(found) < count:
            found += [record.value for record in consumer.poll(WAIT_MS)]
        consumer.commit()
    return set(found)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "tls"])
def test_a_client_lives_its_life_by_every_way_in(cluster: SecuredCluster, topic: str, way: str) -> None:
    live_a_life(options_for(cluster, way), topic)


def test_who_shows_no_certificate_is_served_as_anonymous(cluster: SecuredCluster, topic: str) -> None:
    live_a_life(options_for(cluster, "tls"), topic)


def test_options_as_java_has_them_are_understood(cluster: SecuredCluster, topic: str) -> None:
    certificates = cluster.certificates
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    live_a_life(
        {
            "bootstrap.servers": cluster.address("scram"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{module} required username="alice" password="alice-secret";',
            "ssl.truststore.location": str(certificates.authority.store),
            "ssl.truststore.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
        },
        topic,
    )
    live_a_life(
        {
            "bootstrap.servers": cluster.address("mtls"),
            "security.protocol": "SSL",
            "ssl.truststore.location": str(certificates.authority.store),
            "ssl.truststore.password": PASSWORD,
            "ssl.keystore.location": str(certificates.alice.store),
            "ssl.keystore.password": PASSWORD,
        },
        f"{topic}-again",
    )


def test_a_token_comes_from_an_identity_provider(cluster: SecuredCluster, topic: str) -> None:
    with token_service(cluster.issuer) as service:
        live_a_life(
            {
                "bootstrap.servers": cluster.address("signed"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": service.token_url,
                "sasl.oauthbearer.client.id": CLIENT,
                "sasl.oauthbearer.client.secret": CLIENT_SECRET,
            },
            topic,
        )
        assert {form["grant_type"] for form in service.forms} == {"client_credentials"}


def test_sessions_are_renewed_while_records_go_on(cluster: SecuredCluster, topic: str) -> None:
    options = options_for(cluster, "renewed")
    until = time.monotonic() + 2.5 * REAUTH_MS / 1000
    sent = 0
    with kohort.Admin(options) as admin:
        admin.create_topics({topic: 1})
    with kohort.Producer(options) as producer:
        while time.monotonic() < until:
            assert producer.send(topic, b"%d" % sent).result(WAIT_MS).offset == sent
            sent += 1
    assert len(read(options, topic, sent)) == sent


def refusal(options: Options, call: Callable[[kohort.Admin], Any] = lambda admin: admin.list_topics()) -> KohortError:
    """The error of a client's first call, which may take an hour of retries."""
    an_hour = {"default.api.timeout.ms": 3_600_000}
    with kohort.Admin({**options, **an_hour}) as admin, pytest.raises(KohortError) as caught:
        call(admin)
    return caught.value


def test_bad_credentials_end_the_call_in_words(cluster: SecuredCluster) -> None:
    wrong = refusal(options_for(cluster, "plain", **{"sasl.password": "wrong-secret"}))
    assert isinstance(wrong, AuthenticationFailed)
    assert "Invalid username or password" in str(wrong)
    assert "wrong-secret" not in str(wrong)

    scram = refusal(options_for(cluster, "scram", **{"sasl.password": "wrong-secret"}))
    assert isinstance(scram, AuthenticationFailed)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in str(scram)

    expired = cluster.issuer.token("alice", exp=1_700_000_000)
    late = refusal(options_for(cluster, "signed", **{"sasl.oauth.token.provider": lambda: expired}))
    assert isinstance(late, AuthenticationFailed)
    assert expired not in str(late)


def test_bad_certificates_end_the_call_in_words(cluster: SecuredCluster) -> None:
    certificates = cluster.certificates
    foreign = certificates.foreign_authority.certificate
    unknown = refusal(options_for(cluster, "scram", **{"ssl.ca.location": str(foreign)}))
    assert isinstance(unknown, AuthenticationFailed)
    assert str(foreign) in str(unknown)

    own = certificates.foreign("alice")
    strange = {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    assert isinstance(refusal(options_for(cluster, "mtls", **strange)), AuthenticationFailed)

    without = options_for(cluster, "mtls")
    del without["ssl.certificate.location"], without["ssl.key.location"]
    nothing = refusal(without)
    assert isinstance(nothing, AuthenticationFailed)
    assert "certificate" in str(nothing)


def test_wrong_protocols_end_the_call_in_words(cluster: SecuredCluster) -> None:
    plain_to_tls = refusal({"bootstrap.servers": cluster.addresses["TLS"]})
    assert "TLS" in str(plain_to_tls)
    tls_to_plain = refusal(options_for(cluster, "tls", **{"bootstrap.servers": cluster.setup}))
    assert "TLS" in str(tls_to_plain)
    sasl_to_plain = refusal(options_for(cluster, "plain", **{"bootstrap.servers": cluster.setup}))
    assert "SASL" in str(sasl_to_plain)
    plain_to_sasl = refusal({"bootstrap.servers": cluster.addresses["SASLP"]})
    assert "SASL" in str(plain_to_sasl)


def is_written(producer: kohort.Producer, topic: str) -> bool:
    try:
        return producer.send(topic, b"x").result(WAIT_MS).offset >= 0
    except ApiError:
        return False


def test_unauthorized_client_gets_the_missing_right_and_continues(cluster: SecuredCluster, topic: str) -> None:
    with kohort.Admin(options_for(cluster, "plain")) as admin:
        admin.create_topics({topic: 1})
    bob = {"bootstrap.servers": cluster.address("plain"), **our_options(cluster.properties("plain", "bob"))}
    take_all(cluster.setup, "bob")
    with kohort.Producer(bob) as producer:
        with pytest.raises(ApiError) as caught:
            producer.send(topic, b"x").result(WAIT_MS)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

        grant(cluster.setup, "bob", [Grant(ResourceType.TOPIC, topic, Operation.WRITE)])
        eventually(lambda: is_written(producer, topic), "the right that was given is of no use")
    take_all(cluster.setup, "bob")
