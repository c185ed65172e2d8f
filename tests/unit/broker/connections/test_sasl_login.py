"""SASL logins: order of requests, failures, expiry, relogin, options."""

import logging
import struct

import pytest

from kohort.aio.serving.broker_log import BrokerLog
from kohort.broker.dispatch import SERVED
from kohort.errors import ConfigError, ErrorCode
from kohort.security.acls import user
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from support.machines.broker_stage import BrokerStage
from support.machines.sasl_peer import authenticate, connect, framed, handshake, log_in, plain, sasl_stage

OTHERS = [api for api in SERVED.values() if api.key not in {17, 18, 36}]
DELAY_MS = 100
REQUEST = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.16.0")


@pytest.fixture
def stage():
    return sasl_stage()


@pytest.fixture
def peer(stage):
    return connect(stage)


def principal_of(stage, peer):
    return stage.broker._connections[peer.number].caller.principal


# ---------------------------------------------------------------- successful and failed logins


def test_plain_login_after_api_versions_is_served(stage, peer):
    versions = peer.ask(REQUEST, 3)
    answer = log_in(peer, plain())

    assert {17, 36, 50, 51} <= {r.api_key for r in versions.api_keys}
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, "", 0)
    assert peer.ask(MetadataRequest(topics=[]), 12).cluster_id
    assert principal_of(stage, peer) == user("alice")


def test_responses_of_a_sasl_login_have_the_same_bytes_as_kafkas(stage, peer):
    out = []
    peer.received = lambda buffers: out.append(b"".join(buffers).hex())
    peer.send_bytes(bytes.fromhex("0000001200110001000000010001700005504c41494e"))
    peer.send_bytes(bytes.fromhex("000000210024000200000002000170001400616c69636500616c6963652d73656372657400"))

    assert out[0] == "00000011000000010000000000010005504c41494e"
    assert out[1] == "00000012000000020000000101000000000000000000"


def test_connection_with_a_wrong_password_gets_a_delayed_error_and_is_closed(stage, peer):
    assert log_in(peer, plain("alice", "wrong"), version=1) is None
    stage.advance(DELAY_MS - 1)
    assert peer.take() is None
    stage.advance(1)
    answer = peer.take()

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Authentication failed: Invalid username or password"
    assert peer.closed == (
        "127.0.0.1: Failed authentication with 127.0.0.1 "
        "(Authentication failed: Invalid username or password; user 'alice': wrong password)"
    )
    assert "wrong" not in peer.closed.replace("wrong password", "")


def test_requests_after_a_failed_login_are_not_read(stage, peer):
    log_in(peer, plain("alice", "wrong"))
    peer.send(MetadataRequest(topics=[]), 12)
    stage.advance(DELAY_MS)

    assert len(peer.take_all()) == 1
    assert peer.closed


def test_failed_login_is_answered_at_once_if_the_configured_delay_is_zero():
    stage = sasl_stage(connection_failed_authentication_delay_ms=0)
    peer = connect(stage)

    assert log_in(peer, plain("alice", "wrong")).error_code == 58
    assert peer.closed


def test_failed_logins_of_disconnected_clients_are_counted(stage, peer):
    counters = stage.broker.state.counters
    log_in(peer, plain("alice", "wrong"), version=1)
    peer.leave()
    stage.advance(DELAY_MS)
    assert counters.failed_logins == 1

    patient = connect(stage)
    log_in(patient, plain("alice", "wrong"), version=1)
    stage.advance(DELAY_MS)
    assert patient.closed
    assert (counters.failed_logins, counters.logins) == (2, 0), "each failed login counts once"


def test_client_that_disconnects_during_the_delay_of_its_failed_login_is_dropped(stage, peer):
    log_in(peer, plain("alice", "wrong"))
    peer.leave()
    stage.advance(DELAY_MS)
    assert peer.take() is None


# ---------------------------------------------------------------- every API in every state


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_unrelated_request_before_the_login_closes_the_connection(stage, peer, api):
    peer.send(api.request(), api.high)

    assert peer.take() is None
    assert "before the SASL login" in peer.closed


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_unrelated_request_between_api_versions_and_login_closes_the_connection(stage, peer, api):
    peer.ask(REQUEST, 3)
    peer.send(api.request(), api.high)

    assert peer.take() is None
    assert peer.closed


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_unrelated_request_within_a_login_returns_illegal_sasl_state(stage, peer, api):
    handshake(peer)
    peer.send(api.request(), api.high)
    assert peer.closed is None
    stage.advance(DELAY_MS)
    answer = peer.take()

    assert peer.closed
    if "error_code" in {f.name for f in api.response.FIELDS if api.high in f.versions}:
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.name)
def test_request_instead_of_a_raw_token_is_rejected(stage, peer, api):
    handshake(peer, version=0)
    peer.send(api.request(), api.high, answered=False)
    stage.advance(DELAY_MS)

    assert peer.take() is None
    assert peer.closed


def test_metadata_request_within_a_login_gets_empty_lists(stage, peer):
    handshake(peer)
    peer.send(MetadataRequest(topics=[]), 1)
    stage.advance(DELAY_MS)
    answer = peer.take()
    assert (answer.brokers, answer.topics) == ([], [])


def test_api_versions_may_follow_an_unsupported_version_before_the_login(stage, peer):
    for version in (6, 99):
        peer.send_bytes(framed(struct.pack(">hhihB", 18, version, 7, -1, 0)))
    assert [raw[:6] for raw in peer.raw] == [b"\0\0\0\7\0\x23"] * 2
    assert peer.ask(REQUEST, 3).error_code == 0
    assert log_in(peer, plain()).error_code == 0


def test_second_api_versions_before_the_login_closes_the_connection(stage, peer):
    peer.ask(REQUEST, 3)
    peer.send(REQUEST, 3)
    assert peer.take() is None
    assert peer.closed


def test_api_versions_may_be_repeated_after_an_invalid_software_name(stage, peer):
    bad = peer.ask(ApiVersionsRequest(client_software_name="", client_software_version="1"), 3)
    assert bad.error_code == ErrorCode.INVALID_REQUEST
    assert peer.ask(REQUEST, 3).error_code == 0
    assert log_in(peer, plain()).error_code == 0


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "plain", "", "GSSAPI"])
def test_disabled_mechanism_is_rejected(stage, peer, mechanism):
    assert handshake(peer, mechanism) is None
    stage.advance(DELAY_MS)
    answer = peer.take()

    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN"]
    assert peer.closed


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x11",
        b"\x00\x11\x00\x02\x00\x00\x00\x01\x00\x00\x00\x05PLAIN",
        b"\xff" * 40,
        bytes(8),
        b"\x00\x11\x00\x01" + b"\xff" * 30,
    ],
)
def test_malformed_frame_before_the_login_closes_the_connection(stage, peer, frame):
    peer.send_bytes(framed(frame))
    assert peer.closed
    assert not peer.raw


@pytest.mark.parametrize("size", [524_289, -1, 0x7FFFFFFF])
def test_large_frame_before_the_login_closes_the_connection(stage, peer, size):
    peer.send_bytes(struct.pack(">i", size))
    assert peer.closed


def test_large_frame_after_the_login_is_accepted(stage, peer):
    log_in(peer, plain())
    peer.send_bytes(struct.pack(">i", 524_289))
    assert peer.closed is None


def test_malformed_token_request_closes_the_connection(stage, peer):
    handshake(peer)
    peer.send_bytes(framed(bytes.fromhex("0024000200000002000170001500")))
    assert peer.closed


# ---------------------------------------------------------------- tokens without a header


def test_raw_tokens_log_in_after_handshake_version_0(stage, peer):
    assert handshake(peer, version=0).error_code == 0
    peer.send_bytes(framed(plain().first()))

    assert list(peer.raw) == [b""]
    assert principal_of(stage, peer) == user("alice")
    assert peer.ask(MetadataRequest(topics=[]), 12).cluster_id


def test_invalid_raw_token_has_no_response(stage, peer):
    handshake(peer, version=0)
    peer.send_bytes(framed(plain("alice", "wrong").first()))
    assert peer.closed is None
    stage.advance(DELAY_MS)
    assert not peer.raw
    assert peer.closed


# ---------------------------------------------------------------- login requests without a login


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_login_request_without_sasl_or_after_the_login_is_rejected_and_the_connection_stays_open(stage, listener):
    peer = stage.connect(listener=listener)
    if listener == "SASL":
        log_in(peer, plain())

    again = handshake(peer)
    answer = authenticate(peer, b"token")

    assert (again.error_code, again.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert peer.ask(MetadataRequest(topics=[]), 12).cluster_id


# ---------------------------------------------------------------- expiry and relogin


def limited(**options):
    stage = sasl_stage(overrides={"plain.connections.max.reauth.ms": "8000"}, **options)
    return stage, connect(stage)


def test_expired_login_closes_the_connection_at_the_next_request():
    stage, peer = limited()
    assert log_in(peer, plain()).session_lifetime_ms == 8000
    stage.advance(7999)
    peer.ask(MetadataRequest(topics=[]), 12)
    stage.advance(1)
    assert peer.closed is None  # a connection without requests is not closed
    peer.send(MetadataRequest(topics=[]), 12)

    assert peer.take() is None
    assert "expired" in peer.closed  # type: ignore[attr-defined]  # closed since


def test_login_by_raw_tokens_expires():
    stage, peer = limited()
    assert log_in(peer, plain(), version=0).session_lifetime_ms == 0
    stage.advance(8000)
    peer.send(MetadataRequest(topics=[]), 12)
    assert peer.closed


@pytest.mark.parametrize("after_ms", [0, 5000, 20_000])
def test_relogin_is_possible_at_any_time(after_ms):
    stage, peer = limited()
    log_in(peer, plain())
    stage.advance(after_ms)

    assert log_in(peer, plain()).session_lifetime_ms == 8000

    stage.advance(7999)
    assert peer.ask(MetadataRequest(topics=[]), 12).cluster_id


def test_second_relogin_within_a_second_is_rejected():
    stage, peer = limited()
    log_in(peer, plain())
    log_in(peer, plain())
    stage.advance(999)
    assert handshake(peer).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.closed is None
    stage.advance(1)
    assert log_in(peer, plain()).error_code == 0


def test_relogin_as_another_user_is_rejected():
    stage, peer = limited()
    log_in(peer, plain())
    assert log_in(peer, plain("bob")) is None
    stage.advance(DELAY_MS)
    answer = peer.take()

    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert peer.closed


def test_failed_relogin_has_its_own_message():
    stage, peer = limited()
    log_in(peer, plain())
    handshake(peer)
    authenticate(peer, b"\xff")
    stage.advance(DELAY_MS)
    assert peer.take().error_message == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
    )


def test_relogin_by_another_mechanism_is_rejected():
    stage = sasl_stage("PLAIN", "SCRAM-SHA-256", overrides={"plain.connections.max.reauth.ms": "8000"})
    peer = connect(stage)
    log_in(peer, plain())
    assert handshake(peer, "SCRAM-SHA-256") is None
    assert "expected PLAIN as before" in peer.closed


def test_unrelated_request_within_a_relogin_is_rejected():
    stage, peer = limited()
    log_in(peer, plain())
    handshake(peer)
    peer.send(MetadataRequest(topics=[]), 12)
    stage.advance(DELAY_MS)
    peer.take()
    assert peer.closed


def test_sasl_authenticate_without_handshake_is_rejected_and_the_connection_stays_open():
    _, peer = limited()
    log_in(peer, plain())
    assert authenticate(peer, plain().first()).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert peer.closed is None


# ---------------------------------------------------------------- pipelined requests


def test_requests_pipelined_after_a_login_are_served(stage, peer):
    ahead = b"".join(
        [
            peer.request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1),
            peer.request_bytes(SaslAuthenticateRequest(auth_bytes=plain().first()), 2),
            peer.request_bytes(MetadataRequest(topics=[]), 12),
        ]
    )
    peer.send_bytes(ahead)
    assert len(peer.take_all()) == 3


def test_requests_pipelined_after_a_failed_login_are_not_served(stage, peer):
    ahead = b"".join(
        [
            peer.request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1),
            peer.request_bytes(SaslAuthenticateRequest(auth_bytes=plain("alice", "wrong").first()), 2),
            peer.request_bytes(MetadataRequest(topics=[]), 12),
        ]
    )
    peer.send_bytes(ahead)
    stage.advance(DELAY_MS)
    assert [type(a).__name__ for a in peer.take_all()] == ["SaslHandshakeResponse", "SaslAuthenticateResponse"]
    assert peer.closed


def test_connection_without_login_is_closed_when_idle():
    stage = sasl_stage(connections_max_idle_ms=5000)
    peer = connect(stage)
    peer.ask(REQUEST, 3)
    stage.advance(5000)
    assert "idle" in peer.closed


# ---------------------------------------------------------------- required options


@pytest.mark.parametrize(
    ("mechanism", "overrides", "words"),
    [
        (
            "PLAIN",
            {"plain.sasl.jaas.config": "PlainLoginModule required;"},
            "PLAIN has no users on listener SASL",
        ),
        (
            "PLAIN",
            {"plain.sasl.jaas.config": "ScramLoginModule required;"},
            "expected an entry of PlainLoginModule, not of ScramLoginModule",
        ),
        ("PLAIN", {"plain.sasl.jaas.config": "PlainLoginModule required user_a=b"}, "not terminated by semi-colon"),
        (
            "OAUTHBEARER",
            {"sasl.server.callback.handler.class": "org.apache.x.secured.OAuthBearerValidatorCallbackHandler"},
            "needs the URL of the keys that sign its tokens",
        ),
        ("OAUTHBEARER", {"sasl.server.callback.handler.class": "com.example.Own"}, r"com\.example\.Own"),
        ("OAUTHBEARER", {"sasl.oauthbearer.jwks.endpoint.url": "ftp://x"}, "expected https://HOST/PATH or file:/PATH"),
    ],
)
def test_mechanism_without_required_option_prevents_the_broker_start(mechanism, overrides, words):
    with pytest.raises(ConfigError, match=words):
        sasl_stage(mechanism, overrides=overrides)


def test_sasl_plain_without_users_prevents_the_broker_start():
    with pytest.raises(ConfigError, match="user_NAME="):
        BrokerStage(listeners=["SASL_PLAINTEXT://127.0.0.1:9093"])


def test_unsecured_oauthbearer_mechanism_is_logged_at_broker_start():
    stage = sasl_stage("OAUTHBEARER")
    assert any("accepts any token" in line for line in stage.log_lines())


def failure_of(stage, user, host="127.0.0.1"):
    peer = stage.connect(host, "SASL")
    log_in(peer, plain(user, "guessed"))
    stage.advance(DELAY_MS)
    return peer.close_note


def test_failed_logins_are_logged_once_a_minute_for_each_user_and_address(stage, caplog):
    log = BrokerLog(logging.getLogger("kohort.server"))
    caplog.set_level(logging.INFO)
    users = ["admin" if number == 117 else f"user-{number % 40}" for number in range(200)]

    for name in users:
        log.write([failure_of(stage, name)], stage.now_ms)
    log.write([failure_of(stage, "admin", "10.0.0.9")], stage.now_ms)

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 42
    assert [line.partition(":")[0] for line in lines if "user 'admin'" in line] == ["127.0.0.1", "10.0.0.9"]
    assert stage.broker.state.counters.closed["login"] == 201

    stage.advance(60_000)
    log.write([], stage.now_ms)
    counted = [record.getMessage() for record in caplog.records][42:]
    assert len(counted) == 40, "one line for each user with repeated failures"
    assert all("(the last of " in line or "user 'user-37'" in line for line in counted)
