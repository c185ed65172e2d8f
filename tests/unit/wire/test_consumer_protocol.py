"""Subscriptions and assignments inside JoinGroup and SyncGroup."""

from __future__ import annotations

import struct

import pytest

from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import (
    Assignment,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
    parse_subscribed_topics,
    parse_subscription,
)

OWNED = [TopicPartition("b", 1), TopicPartition("b", 0), TopicPartition("a", 2)]
FULL = Subscription(["b", "a"], b"mine", OWNED, generation_id=4, rack_id="r1")


def test_subscription_has_expected_bytes() -> None:
    assert build_subscription(FULL) == (
        b"\x00\x03" + struct.pack(">i", 2) + b"\x00\x01a\x00\x01b" + struct.pack(">i", 4) + b"mine"
        + struct.pack(">i", 2)
        + b"\x00\x01b" + struct.pack(">iii", 2, 1, 0)
        + b"\x00\x01a" + struct.pack(">ii", 1, 2)
        + struct.pack(">i", 4) + b"\x00\x02r1"
    )  # fmt: skip


def test_subscription_version_has_its_fields() -> None:
    read = [parse_subscription(build_subscription(FULL, version)) for version in range(4)]
    assert all(s.topics == ["a", "b"] and s.user_data == b"mine" for s in read)
    assert [s.owned_partitions for s in read] == [[], OWNED, OWNED, OWNED]
    assert [s.generation_id for s in read] == [-1, -1, 4, 4]
    assert [s.rack_id for s in read] == [None, None, None, "r1"]


def test_newer_version_is_parsed_as_newest_known() -> None:
    blob = b"\x00\x09" + build_subscription(FULL)[2:] + b"what version 9 adds"
    assert parse_subscription(blob) == parse_subscription(build_subscription(FULL))


def test_parse_subscribed_topics_ignores_other_fields() -> None:
    assert parse_subscribed_topics(build_subscription(FULL)) == ["a", "b"]
    broken_after_topics = build_subscription(FULL, 0) + b"\xff\xff"
    assert parse_subscribed_topics(b"\x00\x03" + broken_after_topics[2:]) == ["a", "b"]


@pytest.mark.parametrize("version", range(4))
def test_assignment_round_trips_at_every_version(version: int) -> None:
    assignment = Assignment([TopicPartition("t", 0), TopicPartition("t", 5), TopicPartition("u", 1)], b"x")
    assert parse_assignment(build_assignment(assignment, version)) == assignment


def test_no_bytes_parse_to_empty_assignment() -> None:
    assert parse_assignment(b"") == Assignment([], None)


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (b"", "0 bytes, too short for a version"),
        (b"\x00", "1 bytes, too short for a version"),
        (b"\xff\xff", "version -1"),
        (b"\x00\x00\x7f\xff\xff\xff", "a count of 2147483647 with 0 bytes left"),
        (b"\x00\x01" + bytes(8), "the bytes end before the field does"),
    ],
)
def test_malformed_subscription_is_rejected(blob: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as raised:
        parse_subscription(blob)
    assert raised.value.path.startswith("ConsumerProtocolSubscription")
