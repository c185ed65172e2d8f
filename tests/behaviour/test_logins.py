from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import threading
import time

import pytest

import kohort
from kohort.errors import AuthenticationFailed, ConfigError, ConnectionFailed
from kohort.testing import StagedBroker
from support.security.tokens import Issuer, unsecured
from support.waiting import eventually

pytestmark = pytest.mark.ours
PASSWORD = "planted-secret"
MODULES = "org.apache.kafka.common.security"
ALICE = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": PASSWORD}
OPTIONS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,IN://127.0.0.1:0,SHORT://127.0.0.1:0,SIGNED://127.0.0.1:0",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "listener.name.in.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "listener.name.short.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
    "listener.name.signed.sasl.enabled.mechanisms": "OAUTHBEARER",
    "listener.name.in.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "listener.name.short.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "listener.name.signed.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "listener.name.signed.oauthbearer.sasl.server.callback.handler.class": (
        f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    ),
    "listener.name.signed.sasl.oauthbearer.expected.audience": "kafka",
    "listener.name.short.connections.max.reauth.ms": "3000",
    "connection.failed.authentication.delay.ms": "0",
}


def scram_user(name):
    return kohort.UserScramCredentialUpsertion(name, PASSWORD, mechanism="SCRAM-SHA-256")


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def broker(issuer, tmp_path_factory):
    jwks = issuer.write_jwks(tmp_path_factory.mktemp("keys") / "jwks.json").as_uri()
    with StagedBroker({**OPTIONS, "listener.name.signed.sasl.oauthbearer.jwks.endpoint.url": jwks}) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"t": 1})
            admin.alter_user_scram_credentials([scram_user("carol")])
        yield broker


def client(broker, listener="IN", **login):
    settings = {name.replace("_", "."): value for name, value in login.items()}
    return {
        "bootstrap.servers": broker.bootstrap_of(listener),
        "security.protocol": "SASL_PLAINTEXT",
        **(settings or ALICE),
    }


def topics(options):
    with kohort.Admin(options) as admin:
        return [topic.name for topic in admin.list_topics()]


def token_of(name):
    return lambda: unsecured(name)


# Let in


def test_every_client_can_log_in(broker):
    options = client(broker)
    with kohort.Producer(options) as producer:
        offset = producer.send("t", b"one").result().offset
    with kohort.Consumer(options, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe("t")
        records = []
        while not any(record.offset == offset for record in records):
            records += consumer.poll(1000)
        consumer.commit()
    assert topics(options) == ["t"]

    async def both() -> int:
        async with kohort.AsyncProducer(options) as producer, kohort.AsyncConsumer(options) as consumer:
            sent = await (await producer.send("t", b"two"))
            consumer.assign([kohort.TopicPartition("t", 0)])
            consumer.seek(kohort.TopicPartition("t", 0), sent.offset)
            while not (found := await consumer.poll(1000)):
                pass
            return found[0].offset - sent.offset

    assert asyncio.run(both()) == 0


@pytest.mark.parametrize(
    "login",
    [
        {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "carol", "sasl_plain_password": PASSWORD},
        {
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": (
                f'kafkashaded.{MODULES}.plain.PlainLoginModule required username="alice" password="{PASSWORD}";'
            ),
        },
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token_of("dave")},
        {
            "sasl_mechanism": "OAUTHBEARER",
            "enable_sasl_oauthbearer_unsecure_jwt": True,
            "sasl_oauthbearer_config": "principal=dave",
        },
    ],
)
def test_every_mechanism_can_log_in(broker, login):
    assert topics(client(broker, **login)) == ["t"]


def test_signed_token_can_log_in(broker, issuer):
    login = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: issuer.token("erin")}
    assert topics(client(broker, "SIGNED", **login)) == ["t"]


def test_async_token_callback_is_awaited_on_the_clients_loop(broker):
    loops = []

    async def provider() -> str:
        loops.append(asyncio.get_running_loop())
        return unsecured("dave")

    async def run() -> None:
        async with kohort.AsyncAdmin(
            client(broker, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider)
        ) as admin:
            assert [topic.name for topic in await admin.list_topics()] == ["t"]
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(run())


def test_sessions_are_reauthenticated_during_traffic(broker, caplog):
    options = client(broker, "SHORT")
    with kohort.Producer(options) as producer, kohort.Consumer(options) as consumer:
        partition = kohort.TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, consumer.end_offsets([partition])[partition])
        sent, got = [], []

        def pass_one_on():
            sent.append(producer.send("t", b"x").result(30_000).offset)
            eventually(lambda: got.extend(r.offset for r in consumer.poll(50)) or len(got) >= len(sent), pause_s=0)

        pass_one_on()
        before = logins_at(broker)
        eventually(lambda: pass_one_on() or logins_at(broker) >= before + 2, "the sessions are not renewed")
    assert got == sent
    assert "lost" not in caplog.text, "a session that is not renewed in time is cut off"


def logins_at(broker):
    return sum(server.broker._counters.logins for server in broker._servers.values())


# Not let in


def wrong(broker, listener="IN"):
    return client(broker, listener) | {"sasl.password": "not " + PASSWORD}


def test_wrong_password_fails_every_clients_call_with_the_brokers_message(broker):
    options = wrong(broker)
    address = broker.bootstrap_of("IN")
    message = (
        f"no broker accepts this client: {address} "
        "(Authentication failed: Invalid username or password; user 'alice', sasl.mechanism=PLAIN)"
    )

    def ended(call) -> None:
        with pytest.raises(AuthenticationFailed) as raised:
            call()
        assert str(raised.value) == message

    ended(lambda: topics(options))
    with kohort.Producer(options) as producer:
        ended(lambda: producer.send("t", b"x").result())
    with kohort.Producer(options, transactional_id="x") as producer:
        ended(producer.init_transactions)
    with kohort.Consumer(options, group_id="g") as consumer:
        consumer.subscribe("t")
        ended(lambda: consumer.poll(60_000))
        ended(lambda: consumer.committed([kohort.TopicPartition("t", 0)]))
        ended(lambda: consumer.end_offsets([kohort.TopicPartition("t", 0)]))

    async def consume() -> None:
        async with kohort.AsyncConsumer(options, group_id="g") as consumer:
            consumer.subscribe("t")
            await consumer.poll(60_000)

    ended(lambda: asyncio.run(consume()))


def test_failed_logins_are_retried_with_backoff(broker):
    an_hour = {"reconnect.backoff.ms": "3600000", "reconnect.backoff.max.ms": "3600000"}
    with Door(broker.bootstrap_of("IN")) as door:
        options = wrong(broker) | {"bootstrap.servers": door.address} | an_hour
        with kohort.Consumer(options, group_id="g") as consumer:
            consumer.subscribe("t")
            for _ in range(20):
                with pytest.raises(AuthenticationFailed):
                    consumer.poll(3_600_000)
        assert door.knocks == 1


class Door:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._behind = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.knocks = 0

    def __enter__(self) -> Door:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.knocks += 1
                broker = socket.create_connection(self._behind)
                for one, other in ((client, broker), (broker, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_client_continues_after_its_login_is_allowed(broker):
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as root:
        options = client(broker, sasl_mechanism="SCRAM-SHA-256", sasl_username="late", sasl_password=PASSWORD)
        with kohort.Consumer(options, auto_offset_reset="earliest") as consumer:
            consumer.assign([kohort.TopicPartition("t", 0)])
            with pytest.raises(AuthenticationFailed):
                consumer.poll(10_000)
            root.alter_user_scram_credentials([scram_user("late")])

            def reads():
                with contextlib.suppress(AuthenticationFailed):
                    return consumer.poll(1000)

            eventually(reads, "the client is not let in although it should be")


def test_disabled_mechanism_error_lists_the_enabled_ones(broker):
    with pytest.raises(
        AuthenticationFailed,
        match=r"sasl\.mechanism=PLAIN is not enabled on this listener; enabled: OAUTHBEARER; user 'alice'",
    ):
        topics(client(broker, "SIGNED"))


def test_rejected_token_error_describes_the_token(broker, issuer):
    for claims, words in (
        ({"aud": "another"}, "aud='another'"),
        ({"exp": int(time.time()) - 400}, "expired 4"),
    ):
        token = issuer.token("erin", **claims)
        login = {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda token=token: token}
        with pytest.raises(AuthenticationFailed) as raised:
            topics(client(broker, "SIGNED", **login))
        assert words in str(raised.value)
        assert token not in str(raised.value)


def test_login_at_a_listener_without_sasl_and_missing_login_are_rejected(broker):
    with pytest.raises(
        AuthenticationFailed, match=r"this listener does not use SASL: set security\.protocol=PLAINTEXT"
    ):
        topics(client(broker, "PLAINTEXT"))
    with pytest.raises(ConnectionFailed, match="right after ApiVersions: does this listener require a login"):
        topics({"bootstrap.servers": broker.bootstrap_of("IN")})


def test_rejected_logins_do_not_disturb_other_clients(broker):
    with kohort.Producer(client(broker)) as producer:
        producer.send("t", b"before").result()
        with pytest.raises(AuthenticationFailed):
            topics(wrong(broker))
        producer.send("t", b"after").result()


def test_contradicting_login_options_raise_config_error(broker):
    for make in (kohort.Producer, kohort.Consumer, kohort.Admin, kohort.AsyncProducer, kohort.AsyncConsumer):
        with pytest.raises(ConfigError, match=r"set sasl\.mechanism to PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"):
            make(client(broker) | {"sasl.mechanism": "GSSAPI"})


def test_logs_and_reprs_do_not_contain_the_password(broker, caplog):
    caplog.set_level(logging.DEBUG)
    options = wrong(broker) | {"sasl.password": PASSWORD + "-wrong"}
    with kohort.Consumer(options, group_id="g") as consumer:
        consumer.subscribe("t")
        with pytest.raises(AuthenticationFailed) as raised:
            consumer.poll(10_000)
        shown = [repr(consumer.config), str(raised.value), repr(raised.value), caplog.text]
        shown += [json.dumps(vars(consumer.config), default=str)] if hasattr(consumer.config, "__dict__") else []
    assert "login rejected at" in caplog.text
    assert not any(PASSWORD in text for text in shown)
