import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
import struct

import pytest

import kohort
from kohort.aio.tls import server_side
from kohort.errors import AuthenticationFailed, ConfigError, ConnectionFailed, NotKafka
from support.raw.raw_client import RawClient, fetch_request
from support.security.certificates import PASSWORD, Certificates
from support.waiting import eventually

pytestmark = pytest.mark.ours
ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def options(certificates, **more):
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,TLS://127.0.0.1:0,MTLS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MTLS:SSL",
        "ssl.keystore.location": str(certificates.server.store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(certificates.authority.store),
        "ssl.truststore.password": PASSWORD,
        "listener.name.mtls.ssl.client.auth": "required",
        **more,
    }


@pytest.fixture(scope="module")
def broker(certificates):
    with kohort.Broker(options(certificates)) as broker:
        yield broker


def server_options(certified):
    return {"ssl.keystore.location": str(certified.store)}


def believing(authority):
    return {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}


def own(certified):
    return {"ssl.certificate.location": str(certified.certificate), "ssl.key.location": str(certified.key)}


def produce_and_consume(address, security, topic, payload=b"v" * 100):
    common = {"bootstrap.servers": address, **security}
    with kohort.Producer(common) as producer:
        producer.send(topic, payload).result()
    with kohort.Consumer({**common, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([kohort.TopicPartition(topic, 0)])
        return eventually(lambda: consumer.poll(1000), pause_s=0)[0].value


def refusal(address, security, error=AuthenticationFailed):
    with kohort.Admin({"bootstrap.servers": address, "default.api.timeout.ms": 60_000, **security}) as admin:
        with pytest.raises(error) as raised:
            admin.list_topics()
        return str(raised.value)


def log_messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "kohort.server"]


def test_records_pass_over_tls(broker, certificates):
    security = believing(certificates.authority)
    assert produce_and_consume(broker.bootstrap_of("TLS"), security, "plain") == b"v" * 100


def test_responses_of_many_megabytes_pass_over_tls(broker, certificates):
    address = broker.bootstrap_of("TLS")
    security = believing(certificates.authority)
    payload = bytes(range(256)) * 3000
    with kohort.Producer({"bootstrap.servers": address, **security}) as producer:
        for _ in range(20):
            producer.send("large", payload)
        producer.flush()
    with kohort.Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest", **security}) as consumer:
        consumer.assign([kohort.TopicPartition("large", 0)])
        found = []
        eventually(lambda: found.extend(r.value for r in consumer.poll(1000)) or len(found) == 20, pause_s=0)
    assert set(found) == {payload}


def test_async_clients_use_tls(broker, certificates):
    async def story():
        common = {"bootstrap.servers": broker.bootstrap_of("TLS"), **believing(certificates.authority)}
        async with kohort.AsyncProducer(common) as producer:
            await (await producer.send("async", b"v" * 300_000))
        async with kohort.AsyncConsumer({**common, "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([kohort.TopicPartition("async", 0)])
            while not (found := await consumer.poll(1000)):
                pass
            return len(found[0].value)

    assert asyncio.run(asyncio.wait_for(story(), DEADLINE_S)) == 300_000


def test_tls_clients_get_the_advertised_address_of_their_listener(broker, certificates):
    address = broker.bootstrap_of("TLS")
    with kohort.Admin({"bootstrap.servers": address, **believing(certificates.authority)}) as admin:
        node = admin.describe_cluster().nodes[0]
    assert f"{node.host}:{node.port}" == address


@pytest.mark.parametrize("form", ["files", "store", "text", "one file"])
def test_client_certificate_from_any_store(broker, certificates, form):
    alice = certificates.alice
    shown = {
        "files": own(alice),
        "store": {"ssl.keystore.location": str(alice.store), "ssl.keystore.password": PASSWORD},
        "text": {"ssl.certificate.pem": alice.certificate.read_text(), "ssl.key.pem": alice.key.read_text()},
        "one file": {"ssl.keystore.location": str(alice.pem)},
    }[form]
    security = {**believing(certificates.authority), **shown}
    assert produce_and_consume(broker.bootstrap_of("MTLS"), security, "mtls") == b"v" * 100


def test_sasl_login_over_tls(certificates):
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";'
    settings = options(certificates) | {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SASL_SSL,MTLS:SSL",
        "listener.name.tls.plain.sasl.jaas.config": users,
    }
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with kohort.Broker(settings) as broker:
        address = broker.bootstrap_of("TLS")
        security = {**believing(certificates.authority), **login}
        assert produce_and_consume(address, {**security, "sasl.password": "alice-secret"}, "t") == b"v" * 100
        assert "Invalid username or password" in refusal(address, {**security, "sasl.password": "wrong"})


# What goes wrong


def test_unknown_issuer_error_names_issuer_and_file(broker, certificates, caplog):
    address = broker.bootstrap_of("TLS")
    words = refusal(address, believing(certificates.foreign_authority))
    assert "the broker's certificate (CN=localhost,OU=tests,O=Kohort) was signed by OU=Testing CA" in words
    assert f"ssl.ca.location={certificates.foreign_authority.certificate}" in words
    eventually(
        lambda: any(
            "the client does not trust the issuer of the listener's certificate" in line
            for line in log_messages(caplog)
        )
    )


def test_wrong_host_name_error_names_both_hosts(certificates, caplog):
    with kohort.Broker({**options(certificates), **server_options(certificates.wrong_host())}) as broker:
        address = broker.bootstrap_of("TLS")
        words = refusal(address, believing(certificates.authority))
        assert "is for elsewhere.example; the client connects to 127.0.0.1" in words
        unchecked = {**believing(certificates.authority), "ssl.endpoint.identification.algorithm": "none"}
        assert produce_and_consume(address, unchecked, "t") == b"v" * 100


def test_disabled_verification_accepts_any_certificate(broker):
    security = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    assert produce_and_consume(broker.bootstrap_of("TLS"), security, "unchecked") == b"v" * 100


def test_broker_with_an_expired_certificate_does_not_start(certificates):
    broker = kohort.Broker({**options(certificates), **server_options(certificates.expired())})
    with pytest.raises(ConfigError, match=r"its certificate \(CN=localhost,OU=tests,O=Kohort\) expired on 20"):
        broker.start()


def test_expired_broker_certificate_error_has_both_dates(certificates):
    expired = certificates.expired()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(expired.certificate, expired.key)

    async def story():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        security = believing(certificates.authority)
        words = await asyncio.to_thread(refusal, f"127.0.0.1:{port}", security)
        server.close()
        return words

    words = asyncio.run(asyncio.wait_for(story(), DEADLINE_S))
    assert "(CN=localhost,OU=tests,O=Kohort) expired on 20" in words
    assert "this machine's clock: 20" in words


def test_missing_client_certificate_is_reported_on_both_sides(broker, certificates, caplog):
    words = refusal(broker.bootstrap_of("MTLS"), believing(certificates.authority))
    assert "the broker requires a client certificate: set ssl.certificate.location" in words
    eventually(
        lambda: any(
            "the client sent no certificate, but ssl.client.auth=required" in line for line in log_messages(caplog)
        )
    )


def test_untrusted_client_certificate_is_reported_on_both_sides(broker, certificates, caplog):
    stranger = certificates.foreign()
    words = refusal(broker.bootstrap_of("MTLS"), {**believing(certificates.authority), **own(stranger)})
    assert "the broker does not trust the issuer of this client's certificate" in words
    expected = "its certificate is not signed by a CA in ssl.truststore.location"
    eventually(lambda: any(expected in line for line in log_messages(caplog)))


def test_no_common_version_or_cipher_suite_is_reported(certificates):
    with kohort.Broker({**options(certificates), "ssl.enabled.protocols": "TLSv1.3"}) as broker:
        security = {**believing(certificates.authority), "ssl.enabled.protocols": "TLSv1.2"}
        words = refusal(broker.bootstrap_of("TLS"), security)
        assert "have no common TLS version (ssl.enabled.protocols)" in words
    strong = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    with kohort.Broker({**options(certificates), **strong}) as broker:
        security = {**believing(certificates.authority), "ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256"}
        words = refusal(broker.bootstrap_of("TLS"), security)
        assert "have no common cipher suite (ssl.cipher.suites)" in words


def test_tls_at_a_plaintext_port_is_reported_on_both_sides(broker, certificates, caplog):
    words = refusal(broker.bootstrap_of("PLAINTEXT"), believing(certificates.authority))
    assert "the server uses Kafka's protocol without TLS: set security.protocol=PLAINTEXT" in words
    eventually(
        lambda: any("the client uses TLS on listener PLAINTEXT without TLS" in line for line in log_messages(caplog))
    )


def test_plaintext_at_a_tls_port_is_reported_on_both_sides(broker, caplog):
    words = refusal(broker.bootstrap_of("TLS"), {}, NotKafka)
    assert "it answers in TLS" in words
    expected = "sends plaintext to a TLS listener: set security.protocol=SSL"
    eventually(lambda: any(expected in line for line in log_messages(caplog)))


def test_plaintext_client_at_a_tls_port_gets_an_alert(broker):
    host, port = broker.bootstrap_of("TLS").split(":")
    for beginning in (b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as plain:
            plain.sendall(beginning)
            assert plain.recv(100) == ALERT
            assert plain.recv(100) == b""


def test_port_that_closes_at_the_tls_hello_is_retried(certificates):
    async def story():
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        words = await asyncio.to_thread(
            refusal, f"127.0.0.1:{port}", believing(certificates.authority), ConnectionFailed
        )
        server.close()
        return words

    assert "the server closed the connection at the first bytes of TLS" in asyncio.run(
        asyncio.wait_for(story(), DEADLINE_S)
    )


# Strangers


def tls_socket(broker, certificates):
    host, port = broker.bootstrap_of("TLS").split(":")
    context = ssl.create_default_context(cafile=certificates.authority.certificate)
    return context.wrap_socket(socket.create_connection((host, int(port)), DEADLINE_S), server_hostname="localhost")


@contextlib.contextmanager
def raw_client(broker, certificates):
    with RawClient(broker.bootstrap_of("TLS")) as client:
        client.close()
        client.socket = tls_socket(broker, certificates)
        yield client


def test_incomplete_handshake_times_out_without_blocking_others(certificates, monkeypatch, caplog):
    monkeypatch.setattr(server_side, "HANDSHAKE_S", 0.3)
    with kohort.Broker(options(certificates)) as broker:
        address = broker.bootstrap_of("TLS")
        host, port = address.split(":")
        halves = [socket.create_connection((host, int(port)), DEADLINE_S) for _ in range(20)]
        for half in halves:
            half.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert produce_and_consume(address, believing(certificates.authority), "t") == b"v" * 100
        for half in halves:
            assert half.recv(100) == b""
            half.close()
        eventually(lambda: broker.failed_handshakes >= 20)
    assert any("the TLS handshake took longer than 0.3 s" in line for line in log_messages(caplog))


def test_endless_handshake_is_cut_off(broker, caplog):
    host, port = broker.bootstrap_of("TLS").split(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as endless:
        record = b"\x16\x03\x01" + struct.pack(">H", 16000) + b"\x01\xff\xff\xff" + bytes(15996)
        with contextlib.suppress(ConnectionError):
            for _ in range(1000):
                endless.sendall(record)
    eventually(lambda: broker.failed_handshakes > 0)


def test_garbage_after_the_handshake_closes_only_that_connection(broker, certificates):
    failed = broker.failed_handshakes
    with raw_client(broker, certificates) as other:
        other.create("kept")
        with tls_socket(broker, certificates) as tls, socket.socket(fileno=os.dup(tls.fileno())) as raw:
            raw.settimeout(DEADLINE_S)
            raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            with contextlib.suppress(ConnectionError):
                while raw.recv(4096):
                    pass
        eventually(lambda: broker.failed_handshakes == failed + 1)
        assert other.produce("kept", b"v").base_offset == 0


def test_client_that_does_not_read_uses_bounded_memory(certificates):
    with kohort.Broker(options(certificates)) as broker, raw_client(broker, certificates) as client:
        client.create("large")
        for _ in range(20):
            assert client.produce("large", bytes(1_000_000)).error_code == 0
        unread = broker._server.broker.state.unread
        most = unread.most_held_bytes
        request = fetch_request("large")
        request.topics[0].partitions[0].partition_max_bytes = request.max_bytes
        for _ in range(4):
            client.send(request, 12)
        eventually(lambda: unread.most_held_bytes > most, "nothing waits to be read")
        assert [len(client.take().responses[0].partitions[0].records) > 10 << 20 for _ in range(4)] == [True] * 4
        assert unread.most_held_bytes < 4 << 20
        eventually(lambda: unread.held_bytes == 0)


# Certificates that change


def test_renewed_certificate_is_reloaded_and_a_bad_one_is_not(certificates, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="kohort.server")
    store = tmp_path / "broker.pem"
    shutil.copy(certificates.server.pem, store)
    with kohort.Broker({**options(certificates), "ssl.keystore.location": str(store)}) as broker:

        def shown():
            with tls_socket(broker, certificates) as tls:
                return tls.getpeercert(binary_form=True)

        first = shown()
        store.write_text("rubbish")
        eventually(lambda: shown() and any("stay in use" in line for line in log_messages(caplog)), pause_s=0.2)
        assert shown() == first
        shutil.copy(certificates.renewed().pem, store)
        eventually(lambda: shown() != first, pause_s=0.2)
    assert any("reloaded certificates" in line for line in log_messages(caplog))
