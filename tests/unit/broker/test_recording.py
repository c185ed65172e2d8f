"""A recording holds everything that went into a broker, and says what is wrong with a file that is none."""

import io
import json
import random
import struct
import zlib

import pytest

from kohort.broker.io import Connected, Disconnected, Received, Secured, Stalled, Tick, WallClockSet
from kohort.broker.recording_broker import RecordingBroker
from kohort.broker.recording_format import (
    MAGIC,
    RecordedEvent,
    RecordingEnd,
    RecordingHead,
    build_event,
    build_head,
    parse_events,
    parse_head,
)
from kohort.config import BrokerConfig, parse_config
from kohort.errors import NotARecording
from kohort.sim.recording_replay import replay_recording
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupRequestProtocol
from support.machines.broker_stage import BrokerStage

HEAD = RecordingHead(BrokerConfig(), seed=7, started_ms=1_000)


class RecordedHouse(BrokerStage):
    """A stage whose broker is recorded."""

    most_bytes = 1 << 20

    def start(self) -> None:
        self.file = io.BytesIO()
        head = RecordingHead(self.config, 7, self.now_ms)
        self.broker = RecordingBroker(head, random.Random(7), self.file.write, self.most_bytes)


def recorded_day(stage: RecordedHouse) -> bytes:
    """Somebody makes a topic, writes, reads, joins a group and goes."""
    peer = stage.connect()
    peer.create("t", 2)
    peer.produce("t", b"one", b"two")
    peer.fetch("t")
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    peer.send(
        JoinGroupRequest(group_id="g", protocol_type="consumer", protocols=protocols, session_timeout_ms=6_000), 5
    )
    stage.advance(7_000)
    peer.leave()
    return stage.file.getvalue()


def events_of(data: bytes):
    file = io.BytesIO(data)
    parse_head(file.read)
    return list(parse_events(file.read, file.tell()))


def test_events_come_back_as_they_were():
    given = [
        Connected(1, "10.0.0.1"),
        Received(1, b"\x00bytes"),
        Tick(),
        Stalled(1_700_000_000_123),
        WallClockSet(-7_200_000),
        Connected(2, "::1", "OUTER"),
        Secured(2, "CN=alice,O=Größe"),
        Connected(3, "", "INNER"),
        Secured(3, None),
        Secured(3, ""),
        Disconnected(1),
    ]
    data = build_head(HEAD) + b"".join(build_event(one, 1_000 + i, i) for i, one in enumerate(given))

    assert parse_head(io.BytesIO(data).read) == HEAD
    assert events_of(data) == [RecordedEvent(one, 1_000 + i, i) for i, one in enumerate(given)]


def test_no_secret_is_written():
    given = {
        "listeners": "OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:SASL_SSL",
        "ssl.keystore.password": "planted",
        "sasl.jaas.config": 'PlainLoginModule required user_alice="planted";',
        "listener.name.outer.ssl.key.password": "planted",
        "listener.name.outer.plain.sasl.jaas.config": 'PlainLoginModule required user_bob="planted";',
        "listener.name.outer.ssl.client.auth": "required",
    }
    head = RecordingHead(parse_config(BrokerConfig, given), seed=7, started_ms=1_000)

    data = build_head(head)
    told = parse_head(io.BytesIO(data).read).config

    assert b"planted" not in data
    assert b"alice" not in data
    assert told.listener_overrides == {"outer": {"ssl.client.auth": "required"}}
    assert told.listeners == ["OUTER://127.0.0.1:0"]
    assert (told.ssl_keystore_password, told.sasl_jaas_config) == (None, None)


def test_a_recording_played_again_takes_the_same_decisions():
    replayed = replay_recording(io.BytesIO(recorded_day(RecordedHouse())))

    assert replayed.events > 6
    assert replayed.lasted_ms == 7_000
    assert (replayed.difference, replayed.ended) == (None, None)


def test_another_decision_is_told_with_its_event():
    data = recorded_day(RecordedHouse())
    head = parse_head(io.BytesIO(data).read)
    other = RecordingHead(head.config, head.seed + 1, head.started_ms)  # other chance: other ids

    replayed = replay_recording(io.BytesIO(build_head(other) + data[len(build_head(head)) :]))

    assert "what follows is not what followed then" in replayed.difference
    assert replayed.difference.startswith("event ")


def test_a_torn_recording_is_played_up_to_the_tear():
    data = recorded_day(RecordedHouse())

    replayed = replay_recording(io.BytesIO(data[:-3]))

    assert replayed.difference is None
    assert "torn at byte" in replayed.ended
    assert replayed.events == len(events_of(data)) - 1


def test_a_bit_that_flipped_is_noticed_and_ends_the_recording():
    data = bytearray(recorded_day(RecordedHouse()))
    data[-1] ^= 1

    *_, last = events_of(bytes(data))

    assert isinstance(last, RecordingEnd)
    assert "damaged at byte" in last.why


def test_a_length_that_cannot_be_is_not_believed():
    *_, last = events_of(build_head(HEAD) + b"\x7f\xff\xff\xff\x00\x00\x00\x00")

    assert "a length of 2147483647" in last.why


@pytest.mark.parametrize("data", [b"", b"not at all", b"kohort recording\n", b"kohort recording\n\x00\x00"])
def test_a_foreign_file_is_refused(data):
    with pytest.raises(NotARecording):
        parse_head(io.BytesIO(data).read)


HEADS = [b"[]", b"7", b"[" * 200_000, b'{"version": 1, "config": [], "seed": 1}', b"\xff"]


@pytest.mark.parametrize("body", HEADS)
def test_a_whole_head_of_another_shape_is_refused(body):
    data = MAGIC + struct.pack(">II", len(body), zlib.crc32(body)) + body

    with pytest.raises(NotARecording):
        parse_head(io.BytesIO(data).read)


def test_options_that_are_not_known_are_refused():
    said = json.loads(build_head(HEAD).removeprefix(MAGIC)[8:])
    body = json.dumps({**said, "config": {**said["config"], "from.tomorrow": 1}}).encode()
    data = MAGIC + struct.pack(">II", len(body), zlib.crc32(body)) + body

    with pytest.raises(NotARecording, match=r"does not know: from\.tomorrow"):
        parse_head(io.BytesIO(data).read)


def head_with(**options):
    said = json.loads(build_head(HEAD).removeprefix(MAGIC)[8:])
    body = json.dumps({**said, "config": {**said["config"], **options}}).encode()
    return MAGIC + struct.pack(">II", len(body), zlib.crc32(body)) + body


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"as_version": "0.9"}, "kohort.as.version"),
        ({"num_partitions": None}, "num.partitions"),
        ({"add_scram": 5}, "kohort.add.scram"),
        ({"listener_security_protocol_map": ["PLAINTEXT:GUESSED"]}, "listener.security.protocol.map"),
        ({"listener_security_protocol_map": [5]}, "listener.security.protocol.map"),
        ({"listener_security_protocol_map": []}, "says nothing of PLAINTEXT"),
        ({"listener_overrides": {"plaintext": {"max.connections": "many"}}}, "listener.name.plaintext.max.connections"),
        ({"group_consumer_min_heartbeat_interval_ms": 5_008}, "group.consumer.heartbeat.interval.ms"),
    ],
)
def test_options_that_make_no_broker_are_refused(options, said):
    with pytest.raises(NotARecording, match=said):
        replay_recording(io.BytesIO(head_with(**options)))


def test_what_is_said_of_a_listener_comes_back():
    config = parse_config(BrokerConfig, {"listener.name.plaintext.max.connections": 5})

    read = parse_head(io.BytesIO(build_head(RecordingHead(config, 7, 1_000))).read)

    assert read.config == config


def test_a_recording_does_not_outgrow_its_bound():
    class SmallBrokerStage(RecordedHouse):
        most_bytes = 9_000

    stage = SmallBrokerStage()
    peer = stage.connect()
    peer.create("t")
    for number in range(200):
        peer.produce("t", b"%d" % number * 20)

    data = stage.file.getvalue()

    assert len(data) <= 9_000 + 100
    assert replay_recording(io.BytesIO(data)).ended == "the file had become as large as it may be"
    assert "the recording is as large as it may be: nothing more is written to it" in stage.said()
