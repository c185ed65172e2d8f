"""A recorded broker lets people in; the recording holds none of their secrets, and is played again all the same."""

import io
import random
import struct

import pytest

from kohort.broker.concealing import HELD_MOST
from kohort.broker.io import KeysFetched
from kohort.broker.recording_broker import RecordingBroker
from kohort.broker.recording_format import RecordingHead
from kohort.sim.recording_replay import replay_recording
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kohort.wire.messages.scram import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from support.machines.broker_stage import BrokerStage
from support.machines.sasl_peer import (
    authenticate,
    bearer,
    connect,
    framed,
    handshake,
    log_in,
    plain,
    sasl_stage,
    scram,
)

SALTED = b"planted-salted-password-32-bytes"


class RecordedStage(BrokerStage):
    """A stage whose broker is recorded."""

    def start(self) -> None:
        self.file = io.BytesIO()
        self.broker = RecordingBroker(RecordingHead(self.config, 7, self.now_ms), random.Random(7), self.file.write)


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.setattr("support.machines.sasl_peer.BrokerStage", RecordedStage)
    overrides = {
        "plain.sasl.jaas.config": 'PlainLoginModule required user_alice="planted-password";',
        "plain.connections.max.reauth.ms": "8000",
    }
    return sasl_stage("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", overrides=overrides)


def check(stage):
    """Nothing planted is in the file, and it can be played again."""
    data = stage.file.getvalue()
    assert b"planted" not in data
    replayed = replay_recording(io.BytesIO(data))
    assert (replayed.difference, replayed.ended) == (None, None)
    return replayed


def upsertion(name="carol", salt=b"planted-salt"):
    return ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=salt, salted_password=SALTED)


def test_a_password_is_not_written_but_what_came_of_it(stage):
    peer = connect(stage)
    log_in(peer, plain("alice", "planted-password"))
    peer.create("t")
    peer.produce("t", b"one")
    stage.advance(5000)
    log_in(peer, plain("alice", "planted-password"))
    stage.advance(9000)
    peer.send(MetadataRequest(topics=[]), 12)
    assert "expired" in peer.closed

    assert check(stage).events > 8


def test_nor_one_that_is_wrong(stage):
    peer = connect(stage)
    log_in(peer, plain("alice", "planted-too"))
    stage.advance(100)
    assert peer.take().error_code == 58
    check(stage)


def test_nor_one_that_comes_without_a_header(stage):
    peer = connect(stage)
    handshake(peer, version=0)
    peer.send_bytes(framed(plain("alice", "planted-password").first()))
    assert list(peer.raw) == [b""]
    peer.create("t")
    check(stage)


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_however_the_bytes_come(stage, size):
    peer = connect(stage)
    data = b"".join(
        [
            peer.request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1),
            peer.request_bytes(SaslAuthenticateRequest(auth_bytes=plain("alice", "planted-password").first()), 2),
            peer.request_bytes(MetadataRequest(topics=[]), 12),
        ]
    )
    for at in range(0, len(data), size):
        peer.send_bytes(data[at : at + size])
    assert len(peer.take_all()) == 3
    check(stage)


def test_on_a_listener_without_logins_neither(stage):
    peer = stage.connect()
    assert authenticate(peer, b"\0alice\0planted-password").error_code == 34
    check(stage)


def test_users_of_scram_are_changed_without_a_trace_of_their_passwords(stage):
    admin = stage.connect()
    assert admin.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion()]), 0).results[0].error_code == 0
    peer = connect(stage)
    log_in(peer, scram("carol", "planted"))
    stage.advance(100)
    assert peer.closed
    check(stage)


def test_nonces_change_nothing_else(stage):
    """Who logs in draws no chance that others would see: ids of topics stay the same when played again."""
    admin = stage.connect()
    admin.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion()]), 0)
    for _ in range(3):
        log_in(connect(stage), scram("carol", "planted"))
    stage.advance(100)
    admin.create("t")
    assert admin.topic_id("t")
    check(stage)


def test_tokens_and_keys(stage):
    token = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwbGFudGVkIiwiaWF0IjoxNzAwMDAwMDAwLCJleHAiOjE3MDAwMDM2MDB9."
    peer = connect(stage)
    log_in(peer, bearer(token))
    stage.give(KeysFetched("https://nobody", b"{}"))
    peer.create("t")
    assert token.encode() not in stage.file.getvalue()
    replayed = replay_recording(io.BytesIO(stage.file.getvalue()))
    assert replayed.difference is None


def test_passwords_among_options_are_not_written(stage):
    peer = stage.connect()
    configs = [
        AlterableConfig(name="retention.ms", value="60000"),
        AlterableConfig(name="listener.name.sasl.ssl.keystore.password", value="planted-password"),
    ]
    for kind, name in ((2, "t"), (4, "1")):
        if kind == 2:
            peer.create("t")
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        peer.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert b"planted" not in stage.file.getvalue()
    assert b"60000" in stage.file.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nAuthorization: Basic planted\r\n\r\n",
        b"\x16\x03\x01 planted",
        framed(b"\x00\x24\x00\x02planted"),
        framed(b"\x00\x33\x00\x00\x00\x00\x00\x01\xff\xffplanted"),
        struct.pack(">ih", HELD_MOST + 10, 51) + b"planted" * 10,
        struct.pack(">i", 500) + b"\x00\x24\x00",
    ],
)
@pytest.mark.parametrize("listener", ["PLAINTEXT", "SASL"])
def test_what_makes_no_sense_is_not_written_either(stage, data, listener):
    peer = stage.connect(listener=listener)
    peer.send_bytes(data)
    peer.send_bytes(b"planted")
    peer.leave()
    assert b"planted" not in stage.file.getvalue()
    assert replay_recording(io.BytesIO(stage.file.getvalue())).ended is None
