"""OAUTHBEARER logins: lifetime, and fetched keys."""

import base64
import json

import pytest
from joserfc import jws
from joserfc.jwk import RSAKey

from kohort.broker.io import FetchKeys, KeysFetched, Tick, WallClockSet
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.sasl_peer import bearer, connect, log_in, sasl_stage

URL = "https://issuer.example/jwks"
KEY = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
JWKS = json.dumps({"keys": [KEY.as_dict(private=False)]}).encode()
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
SIGNED = {
    "oauthbearer.sasl.server.callback.handler.class": HANDLER,
    "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": URL,
    "sasl.oauthbearer.expected.audience": "kafka,other",
}


def part(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def unsecured(stage, seconds=3600):
    now = stage.now_ms // 1000
    return f"{part({'alg': 'none'})}.{part({'sub': 'carol', 'iat': now - 60, 'exp': now + seconds})}."


def signed(stage, seconds=3600, kid="one", **claims):
    now = stage.now_ms // 1000
    all_claims = {"sub": "carol", "aud": "kafka", "iat": now - 60, "exp": now + seconds} | claims
    return jws.serialize_compact({"alg": "RS256", "kid": kid}, json.dumps(all_claims), KEY)


def wishes(stage):
    return [out for out in stage.broker.handle(Tick(), stage.now_ms) if isinstance(out, FetchKeys)]


@pytest.fixture
def tests_stage():
    return sasl_stage("OAUTHBEARER")


@pytest.fixture
def stage():
    return sasl_stage("OAUTHBEARER", overrides=SIGNED)


def test_login_lasts_as_long_as_its_token(tests_stage):
    stage = tests_stage
    peer = connect(stage)
    assert log_in(peer, bearer(unsecured(stage, 30))).session_lifetime_ms == 30_000
    stage.advance(29_999)
    peer.ask(MetadataRequest(topics=[]), 12)
    assert log_in(peer, bearer(unsecured(stage, 40))).session_lifetime_ms == 40_000 - stage.now_ms % 1000
    stage.advance(40_000)
    peer.send(MetadataRequest(topics=[]), 12)
    assert "expired" in peer.closed


@pytest.mark.parametrize("overrides", [{}, SIGNED])
def test_token_expires_by_the_wall_clock(overrides):
    stage = sasl_stage("OAUTHBEARER", overrides=overrides)
    made = signed if overrides else unsecured
    if overrides:
        stage.give(KeysFetched(URL, JWKS))
    in_an_hour, in_three = made(stage, 3_600), made(stage, 3 * 3_600)
    stage.give(WallClockSet(2 * 3_600_000))

    refused = connect(stage)
    log_in(refused, bearer(in_an_hour))
    stage.advance(100)
    assert "claim exp was 3600 s ago" in refused.closed
    lifetime_ms = log_in(connect(stage), bearer(in_three)).session_lifetime_ms
    assert lifetime_ms == 3_600_000 - stage.now_ms % 1000


def test_login_lasts_at_most_connections_max_reauth_ms():
    stage = sasl_stage("OAUTHBEARER", connections_max_reauth_ms=8000)
    assert log_in(connect(stage), bearer(unsecured(stage, 30))).session_lifetime_ms == 8000
    assert log_in(connect(stage), bearer(unsecured(stage, 3))).session_lifetime_ms == 3000


def test_expired_token_is_rejected_with_json(tests_stage):
    stage = tests_stage
    peer = connect(stage)
    assert log_in(peer, bearer(unsecured(stage, -1))) is None
    stage.advance(100)
    answer = peer.take()
    assert (answer.error_code, answer.error_message) == (58, '{"status":"invalid_token"}')
    assert "claim exp was 1 s ago" in peer.closed


def test_oauthbearer_keys_are_fetched_at_broker_start_and_tokens_wait_for_them(stage):
    peer = connect(stage)
    assert log_in(peer, bearer(signed(stage))) is None
    assert peer.closed is None
    assert [wish.url for wish in wishes(stage)] == [URL]
    assert wishes(stage) == []

    stage.give(KeysFetched(URL, JWKS))

    assert peer.take().error_code == 0
    assert peer.ask(MetadataRequest(topics=[]), 12).cluster_id


def test_token_waits_at_most_ten_seconds_for_keys(stage):
    peer = connect(stage)
    log_in(peer, bearer(signed(stage)))
    wishes(stage)
    stage.advance(10_000 + 100)
    answer = peer.take()
    assert answer.error_code == 58
    assert "were not fetched in time" in peer.closed


def test_failed_key_fetch_is_logged_and_retried(stage):
    wishes(stage)
    stage.log_lines()
    stage.give(KeysFetched(URL, None, "nobody answers"))
    assert stage.log_lines() == [f"OAUTHBEARER keys cannot be fetched from {URL}: nobody answers"]
    assert wishes(stage) == []
    stage.clock.advance(100)
    assert len(wishes(stage)) == 1


def test_client_that_disconnects_during_a_key_fetch_is_dropped(stage):
    peer = connect(stage)
    log_in(peer, bearer(signed(stage)))
    wishes(stage)
    peer.leave()
    stage.give(KeysFetched(URL, JWKS))
    assert peer.take() is None


def test_token_with_unknown_key_id_fetches_the_oauthbearer_keys_again(stage):
    wishes(stage)
    stage.give(KeysFetched(URL, b'{"keys": []}'))
    stage.clock.advance(5000)
    peer = connect(stage)
    log_in(peer, bearer(signed(stage)))
    assert len(wishes(stage)) == 1
    stage.give(KeysFetched(URL, JWKS))
    assert peer.take().error_code == 0


def test_token_with_wrong_audience_is_logged(stage):
    wishes(stage)
    stage.give(KeysFetched(URL, JWKS))
    peer = connect(stage)
    log_in(peer, bearer(signed(stage, aud="nobody")))
    stage.advance(100)
    assert peer.take().error_message == '{"status":"invalid_token"}'
    assert 'claim aud is "nobody", expected kafka, other' in peer.closed


def test_login_with_an_expired_token_lasts_for_the_rest_of_the_clock_skew(stage):
    wishes(stage)
    stage.give(KeysFetched(URL, JWKS))
    peer = connect(stage)
    assert log_in(peer, bearer(signed(stage, -10))).session_lifetime_ms == 20_000
    peer.ask(MetadataRequest(topics=[]), 12)
