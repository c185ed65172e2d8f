"""Records of __consumer_offsets, with the bytes of Apache Kafka 4.4: no other client encodes them."""

from __future__ import annotations

import struct

import pytest

from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kohort.wire.schema import Message

TOPIC_ID = bytes(range(16))
COMMIT = OffsetCommitValue(offset=42, leader_epoch=3, metadata="note", commit_timestamp=1000, topic_id=TOPIC_ID)
OFFSET, EPOCH, NOTE, AT = struct.pack(">q", 42), struct.pack(">i", 3), b"\x00\x04note", struct.pack(">q", 1000)

MEMBER = MemberMetadata(
    member_id="m",
    client_id="c",
    client_host="/h",
    rebalance_timeout=60,
    session_timeout=45,
    subscription=b"s",
    assignment=b"a",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer", generation=7, protocol="range", leader="m", current_state_timestamp=1000, members=[MEMBER]
)


@pytest.mark.parametrize(
    ("message", "version", "body"),
    [
        (OffsetCommitKey(group="g", topic="t", partition=5), 0, b"\x00\x01g\x00\x01t\x00\x00\x00\x05"),
        (GroupMetadataKey(group="g"), 0, b"\x00\x01g"),
        (COMMIT, 0, OFFSET + NOTE + AT),
        (COMMIT, 1, OFFSET + NOTE + AT + b"\xff" * 8),
        (COMMIT, 2, OFFSET + NOTE + AT),
        (COMMIT, 3, OFFSET + EPOCH + NOTE + AT),
        (COMMIT, 4, OFFSET + EPOCH + b"\x05note" + AT + b"\x01\x00\x10" + TOPIC_ID),
        (OffsetCommitValue(offset=42, leader_epoch=3, metadata="note", commit_timestamp=1000), 4,
         OFFSET + EPOCH + b"\x05note" + AT + b"\x00"),
        (GROUP, 3,
         b"\x00\x08consumer" + struct.pack(">i", 7) + b"\x00\x05range" + b"\x00\x01m" + AT + struct.pack(">i", 1)
         + b"\x00\x01m" + b"\xff\xff" + b"\x00\x01c" + b"\x00\x02/h" + struct.pack(">ii", 60, 45)
         + b"\x00\x00\x00\x01s" + b"\x00\x00\x00\x01a"),
        (GROUP, 0,
         b"\x00\x08consumer" + struct.pack(">i", 7) + b"\x00\x05range" + b"\x00\x01m" + struct.pack(">i", 1)
         + b"\x00\x01m" + b"\x00\x01c" + b"\x00\x02/h" + struct.pack(">i", 45)
         + b"\x00\x00\x00\x01s" + b"\x00\x00\x00\x01a"),
        (GroupMetadataValue(protocol_type="consumer", protocol=None, leader=None), 3,
         b"\x00\x08consumer" + bytes(4) + b"\xff\xff" + b"\xff\xff" + b"\xff" * 8 + bytes(4)),
    ],
)  # fmt: skip
def test_group_record_has_expected_bytes_and_round_trips(message: Message, version: int, body: bytes) -> None:
    assert encode_bytes(message, version) == body
    read, end = decode(type(message), version, body)
    assert end == len(body)
    assert encode_bytes(read, version) == body


def test_version_0_member_uses_session_timeout_for_rebalance() -> None:
    read, _ = decode(GroupMetadataValue, 0, encode_bytes(GROUP, 0))
    assert (read.members[0].rebalance_timeout, read.members[0].session_timeout) == (-1, 45)
    assert read.current_state_timestamp == -1
