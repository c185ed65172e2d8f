"""The Subscription and Assignment blobs, every version, against kio and kafka-python."""

from __future__ import annotations

import importlib
import io
import struct
from typing import Any

import kio.serial
import pytest
from hypothesis import given, settings
from kafka.protocol.consumer import metadata as kafka_python

from kohort.model import TopicPartition
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.consumer_protocol import (
    Assignment,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
    parse_subscription,
)
from kohort.wire.schema import Message
from support.wire_values import messages

SOME = settings(max_examples=10)
BLOBS = {
    ConsumerProtocolSubscription: "consumer_protocol_subscription",
    ConsumerProtocolAssignment: "consumer_protocol_assignment",
}
CASES = [(blob, version) for blob in BLOBS for version in range(4)]


@pytest.mark.parametrize(("blob", "version"), CASES)
def test_peers_read_and_write_the_same_blob(blob: type[Message], version: int) -> None:
    kio_module = importlib.import_module(f"kio.schema.{BLOBS[blob]}.v{version}.data")
    kio_class: Any = getattr(kio_module, blob.__name__)
    kafka_python_class: Any = getattr(kafka_python, blob.__name__)

    @SOME
    @given(ours=messages(blob, version))
    def check(ours: Message) -> None:
        body = encode_bytes(ours, version)
        framed = struct.pack(">h", version) + body

        kio_blob, size = kio.serial.entity_reader(kio_class)(body, 0)
        out = io.BytesIO()
        kio.serial.entity_writer(kio_class)(out, kio_blob)
        assert size == len(body)
        assert out.getvalue() == body

        decoded = kafka_python_class.decode(framed)
        assert decoded.encode(version=version) == framed
        assert decode(blob, version, body) == (ours, len(body))

    check()


def test_kafka_python_sees_what_a_member_owns_and_when_it_owned_it() -> None:
    owned = [TopicPartition("flights", 0), TopicPartition("flights", 3), TopicPartition("weather", 1)]
    ours = Subscription(["weather", "flights"], b"extra", owned, generation_id=7, rack_id="rack-1")

    theirs = kafka_python.ConsumerProtocolSubscription.decode(build_subscription(ours))

    assert theirs.topics == ["flights", "weather"]
    assert theirs.user_data == b"extra"
    assert [(t.topic, t.partitions) for t in theirs.owned_partitions] == [("flights", [0, 3]), ("weather", [1])]
    assert theirs.generation_id == 7
    assert theirs.rack_id == "rack-1"
    assert parse_subscription(theirs.encode(version=3)) == Subscription(
        ["flights", "weather"], b"extra", owned, generation_id=7, rack_id="rack-1"
    )


def test_kafka_python_sees_what_a_member_is_given() -> None:
    assigned_partitions = [TopicPartition("flights", 5), TopicPartition("flights", 1)]

    theirs = kafka_python.ConsumerProtocolAssignment.decode(build_assignment(Assignment(assigned_partitions)))

    assert [(t.topic, t.partitions) for t in theirs.assigned_partitions] == [("flights", [5, 1])]
    assert parse_assignment(theirs.encode(version=1)) == Assignment(assigned_partitions)
