"""SASL login of a connection, and renewal of the login session."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from kohort.client.requests.connections import Connection, ConnectionState
from kohort.client.requests.login import RENEW_FROM, RENEW_SPREAD
from kohort.errors import ApiTimeout, AuthenticationFailed, ConnectionFailed, ErrorCode, ProtocolError
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import ScramServer, credential_of
from kohort.wire.headers import build_response
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kohort_lab.machines.scripted import HANG_UP, SILENCE, ScriptedBroker
from unit.client.test_engine import World

PASSWORD = "alice-secret"
WRONG = "Authentication failed: Invalid username or password"
NO_TRACE = "the password shows"


def world(mechanism: str = "PLAIN", **options: object) -> World:
    return World(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="alice",
        sasl_password=Secret(PASSWORD),
        bootstrap_servers=["one:9092"],
        **options,
    )


def ask(place: World, node_id: int = 1, **options: object) -> object:
    return place.answer_to(place.asker.ask(HeartbeatRequest(group_id="g"), node_id, **options))


def refuse_password(broker: ScriptedBroker) -> None:
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    broker.on(SaslAuthenticateRequest, lambda *_: SaslAuthenticateResponse(error_code=code, error_message=WRONG))


def names(broker: ScriptedBroker) -> list[str]:
    return [type(received.request).__name__.removesuffix("Request") for received in broker.received]


# Successful logins


def test_login_follows_api_versions_before_other_requests():
    place = world()

    assert ask(place) == HeartbeatResponse()

    assert names(place.one) == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", "Heartbeat"]
    assert place.one.requests(SaslHandshakeRequest)[0].mechanism == "PLAIN"
    assert place.one.requests(SaslAuthenticateRequest)[0].auth_bytes == f"\0alice\0{PASSWORD}".encode()
    assert [s.header.api_version for s in place.one.received] == [5, 1, 2, 4]


def test_scram_login_takes_two_requests_and_verifies_the_broker():
    for password, outcome in ((PASSWORD, HeartbeatResponse), ("another", AuthenticationFailed)):
        place = world("SCRAM-SHA-256")
        server = scram_server(password)
        place.one.on(SaslAuthenticateRequest, lambda r, _, s=server: SaslAuthenticateResponse(auth_bytes=s(r)))

        answer = ask(place)

        assert isinstance(answer, outcome), answer
        assert place.one.requests(SaslAuthenticateRequest)[0].auth_bytes.startswith(b"n,,n=alice,r=")
        if outcome is AuthenticationFailed:
            assert "does not know the password" in str(answer)


def scram_server(password: str) -> Callable[[SaslAuthenticateRequest], bytes]:
    salted = Derivation(Secret(password), b"salt", 4096, "sha256").derive()
    credential = credential_of("sha256", b"salt", 4096, salted)

    def answer(request: SaslAuthenticateRequest) -> bytes:
        token = bytes(request.auth_bytes)
        if not token.startswith(b"n,,") and password != PASSWORD:
            return b"v=AAAA"
        if token.startswith(b"n,,"):
            servers.append(ScramServer("SCRAM-SHA-256", lambda _name: credential, "servers"))
        return servers[-1].evaluate(token, 0)

    servers: list[ScramServer] = []
    return answer


def test_broker_with_sasl_handshake_version_0_gets_tokens_without_header():
    connection = Connection(1, ("one", 9092), client_id="p", max_bytes=10_000, deadline_ms=10_000)
    connection.require_login("PLAIN", "", random.Random(1))
    connection.opened(0)
    keys = [ApiVersion(api_key=17, min_version=0, max_version=0), ApiVersion(api_key=18, min_version=0, max_version=4)]

    (handshake, _) = connection.received(answer(ApiVersionsResponse(api_keys=keys), 4, 1), 0)
    assert b"".join(handshake)[4:8] == bytes([0, 17, 0, 0])
    connection.received(answer(SaslHandshakeResponse(mechanisms=["PLAIN"]), 0, 2), 0)
    assert connection.take_challenge() == (None,)
    assert b"".join(connection.token(b"\0alice\0x", "", 0)) == b"\0\0\0\x08\0alice\0x"

    connection.received(bytes(4), 0)
    assert connection.take_challenge() == (b"",)
    assert connection.state is ConnectionState.LOGIN
    connection.token(None, "", 0)
    assert connection.state is ConnectionState.READY


def answer(message: object, version: int, correlation_id: int) -> bytes:
    return b"".join(bytes(part) for part in build_response(correlation_id, message, version))


# Rejected logins


def test_wrong_password_error_has_broker_message_but_no_password():
    place = world()
    refuse_password(place.one)

    error = ask(place, -1)

    assert isinstance(error, AuthenticationFailed)
    message = f"no broker accepts this client: one:9092 ({WRONG}; user 'alice', sasl.mechanism=PLAIN)"
    assert str(error) == message
    assert PASSWORD not in str(error), NO_TRACE


def test_disabled_mechanism_error_names_enabled_mechanisms():
    place = world()
    off = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    enabled = ["SCRAM-SHA-256", "OAUTHBEARER"]
    place.one.on(SaslHandshakeRequest, lambda *_: SaslHandshakeResponse(error_code=off, mechanisms=enabled))

    error = ask(place)

    assert isinstance(error, AuthenticationFailed)
    assert "sasl.mechanism=PLAIN is not enabled on this listener; enabled: SCRAM-SHA-256, OAUTHBEARER" in str(error)


def test_error_of_login_at_listener_without_sasl_suggests_security_protocol():
    place = world()
    place.one.on(SaslHandshakeRequest, lambda *_: SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))

    error = ask(place)

    assert isinstance(error, AuthenticationFailed)
    assert "this listener does not use SASL: set security.protocol=PLAINTEXT" in str(error)


def test_rejected_login_is_retried_by_next_call_after_long_back_off():
    place = world()
    refuse_password(place.one)
    tries: list[int] = []
    for _ in range(20):
        assert isinstance(ask(place, -1), AuthenticationFailed)
        tries.append(place.clock.now_ms())
    waits = [after - before for before, after in itertools.pairwise(tries)]
    assert min(waits) >= 800
    assert max(waits) <= 12_000
    assert len(place.loop.opened) <= 22

    place.one.on(SaslAuthenticateRequest, lambda *_: SaslAuthenticateResponse())
    assert ask(place, -1) == HeartbeatResponse()


def test_broker_that_rejects_login_does_not_block_other_brokers():
    place = world()
    refuse_password(place.one)

    assert isinstance(ask(place, 1), AuthenticationFailed)
    assert ask(place, 2) == HeartbeatResponse()


def test_rejected_login_is_a_permanent_error_of_metadata_until_a_login_succeeds():
    place = world()
    refuse_password(place.one)
    place.metadata.track({"t"})
    place.loop.run_until(lambda: place.metadata.permanent_error is not None)
    assert isinstance(place.metadata.permanent_error, AuthenticationFailed)

    place.one.on(SaslAuthenticateRequest, lambda *_: SaslAuthenticateResponse())
    place.loop.run_until(lambda: place.metadata.permanent_error is None)


@pytest.mark.parametrize("lost", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_connection_lost_during_login_raises_connection_failed(lost):
    place = world()
    place.one.on(lost, lambda *_: HANG_UP)

    error = ask(place)

    assert isinstance(error, ConnectionFailed)
    assert error.retriable
    assert "during the login" in str(error)
    assert "sasl.mechanism=PLAIN" in str(error)


def test_unanswered_login_times_out():
    place = world(request_timeout_ms=5000)
    place.one.on(SaslAuthenticateRequest, lambda *_: SILENCE)

    error = ask(place)

    assert isinstance(error, ApiTimeout | ConnectionFailed)
    assert "the login (user 'alice', sasl.mechanism=PLAIN) was not answered" in str(error)


@pytest.mark.parametrize("garbage", [b"\0\0\0\x05hello", b"\0\0\0\x04\0\0\0\x63", bytes(4), b"\xff" * 40])
@pytest.mark.parametrize("at", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_invalid_bytes_during_login_close_only_that_connection(at, garbage):
    place = world()
    place.one.on(at, lambda *_: garbage)

    assert isinstance(ask(place), ConnectionFailed | ProtocolError)

    place.one.on(at, lambda *_: SaslHandshakeResponse() if at is SaslHandshakeRequest else SaslAuthenticateResponse())
    assert ask(place) == HeartbeatResponse()


def test_error_of_connection_closed_after_api_versions_request_suggests_sasl():
    place = World(bootstrap_servers=["one:9092"])
    place.one.on(HeartbeatRequest, lambda *_: HANG_UP)

    error = ask(place)

    assert isinstance(error, ConnectionFailed)
    assert error.retriable
    assert "right after ApiVersions: does this listener require a login (security.protocol=SASL_PLAINTEXT" in str(error)


# Renewal of login sessions (KIP-368)


def sessions_of(broker: ScriptedBroker, lifetime_ms: int) -> None:
    broker.on(SaslAuthenticateRequest, lambda *_: SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))


def test_login_session_is_renewed_between_85_and_95_percent_of_lifetime():
    place = world()
    sessions_of(place.one, 10_000)
    ask(place)
    begun_ms = place.clock.now_ms()
    while len(place.one.requests(SaslHandshakeRequest)) == 1:
        place.clock.advance(100)
        assert ask(place) == HeartbeatResponse()

    took_ms = place.clock.now_ms() - begun_ms
    assert 10_000 * RENEW_FROM <= took_ms <= 10_000 * (RENEW_FROM + RENEW_SPREAD) + 100
    assert place.loop.opened == [("one", 9092)]
    assert names(place.one)[-3:] == ["SaslHandshake", "SaslAuthenticate", "Heartbeat"]


def test_login_session_renewal_delays_later_requests():
    place = world()
    sessions_of(place.one, 10_000)
    ask(place)
    place.clock.advance(9_400)
    place.loop.holding_answers = True
    place.clock.advance(-0)
    first = place.asker.ask(HeartbeatRequest(group_id="first"), 1)
    place.loop.settle()
    second = place.asker.ask(HeartbeatRequest(group_id="second"), 1)
    place.loop.settle()

    assert names(place.one)[-1] == "SaslHandshake", "no request is sent while the session is renewed"
    place.loop.release_answers()
    assert place.answer_to(first) == HeartbeatResponse()
    assert place.answer_to(second) == HeartbeatResponse()
    assert names(place.one)[-4:] == ["SaslHandshake", "SaslAuthenticate", "Heartbeat", "Heartbeat"]


def test_login_session_renewal_starts_while_earlier_requests_are_in_flight():
    place = world()
    sessions_of(place.one, 10_000)
    ask(place)
    place.loop.holding_answers = True
    before = place.asker.ask(HeartbeatRequest(group_id="before"), 1)
    place.loop.settle()
    place.clock.advance(9_500)
    after = place.asker.ask(HeartbeatRequest(group_id="after"), 1)
    place.loop.settle()
    assert names(place.one)[-2:] == ["Heartbeat", "SaslHandshake"]

    place.loop.release_answers()
    assert place.answer_to(before) == HeartbeatResponse()
    assert place.answer_to(after) == HeartbeatResponse()


def test_rejected_login_session_renewal_counts_as_lost_connection():
    place = world()
    sessions_of(place.one, 10_000)
    ask(place)
    refuse_password(place.one)
    place.clock.advance(9_500)

    lost = ask(place)
    assert isinstance(lost, ConnectionFailed)
    assert lost.retriable
    assert f"the session could not be renewed: {WRONG}" in str(lost)

    assert isinstance(ask(place), AuthenticationFailed)


def test_unanswered_login_session_renewal_closes_connection():
    place = world(request_timeout_ms=5000)
    sessions_of(place.one, 10_000)
    ask(place)
    place.one.on(SaslHandshakeRequest, lambda *_: SILENCE)
    place.clock.advance(9_500)

    assert isinstance(ask(place, timeout_ms=60_000), ConnectionFailed)

    place.one.on(SaslHandshakeRequest, lambda *_: SaslHandshakeResponse())
    assert ask(place) == HeartbeatResponse()


def test_idle_login_session_is_renewed_by_next_request():
    place = world()
    sessions_of(place.one, 10_000)
    ask(place)

    place.loop.run(60_000)
    assert len(place.one.requests(SaslHandshakeRequest)) == 1

    assert ask(place) == HeartbeatResponse()
    assert len(place.one.requests(SaslHandshakeRequest)) == 2


def test_client_without_sasl_sends_no_sasl_requests():
    place = World(bootstrap_servers=["one:9092"])
    ask(place)
    assert len(place.one.requests(ApiVersionsRequest)) == 1
    assert names(place.one) == ["ApiVersions", "Heartbeat"]
