"""Records of ``__consumer_offsets``: bytes as in Kafka, timestamps, partition that stores a group."""

from __future__ import annotations

import tracemalloc

import pytest

from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.records import (
    GroupWritten,
    OffsetCommitted,
    RegexResolved,
    TargetEpochWritten,
    build_record,
    is_plain_offset,
    moved_record,
    parse_record,
    partition_of,
)
from kohort.coordinator.replay import Skipped, replay_log
from kohort.errors import CorruptLog, ProtocolError
from kohort.wire.codec import encode_bytes
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitKey, OffsetCommitValue

TOPIC_ID = bytes(range(16))


def test_offset_record_has_version_4_with_topic_id_as_tagged_field():
    value = OffsetCommitValue(offset=7, leader_epoch=3, metadata="m", commit_timestamp=1000, topic_id=TOPIC_ID)

    key, data = build_record(OffsetCommitted("g", "t", 5, value))

    assert key == bytes.fromhex("0001 0001 67 0001 74 00000005")
    assert data == bytes.fromhex("0004 0000000000000007 00000003 02 6d 00000000000003e8 01 00 10") + TOPIC_ID
    assert parse_record(key, data) == OffsetCommitted("g", "t", 5, value)


@pytest.mark.parametrize(
    ("change", "is_plain"),
    [({}, True), ({"metadata": "m"}, False), ({"topic_id": bytes(16)}, False), ({"expire_timestamp": 5}, False)],
)
def test_offset_record_without_metadata_is_parsed_without_the_codec(change: dict[str, object], is_plain: bool):
    value = OffsetCommitValue(**{"offset": 7, "metadata": "", "commit_timestamp": 1000, "topic_id": TOPIC_ID} | change)

    data = build_record(OffsetCommitted("g", "t", 5, value))[1]

    assert data is not None
    assert is_plain_offset(data) == is_plain


def test_offset_record_with_expiry_time_has_version_1():
    value = OffsetCommitValue(offset=7, metadata="", commit_timestamp=1000, expire_timestamp=2000)

    key, data = build_record(OffsetCommitted("g", "t", 5, value))

    assert data == bytes.fromhex("0001 0000000000000007 0000 00000000000003e8 00000000000007d0")
    assert parse_record(key, data) == OffsetCommitted("g", "t", 5, value)


def test_group_metadata_record_has_version_3():
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=2,
        session_timeout=1,
        subscription=b"S",
        assignment=b"A",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=9,
        members=[member],
    )

    key, data = build_record(GroupWritten("g", value))

    assert key == bytes.fromhex("0002 0001 67")
    assert data == (
        bytes.fromhex("0003 0008") + b"consumer" + bytes.fromhex("00000004 0005") + b"range"
        + bytes.fromhex("0001 6d 0000000000000009 00000001")
        + bytes.fromhex("0001 6d 0001 69 0001 63 0002 2f68 00000002 00000001 00000001 53 00000001 41")
    )  # fmt: skip
    assert parse_record(key, data) == GroupWritten("g", value)


@pytest.mark.parametrize("record", [OffsetCommitted("g", "t", 0, None), GroupWritten("g", None)])
def test_tombstone_record_has_no_value(record):
    key, data = build_record(record)

    assert data is None
    assert parse_record(key, data) == record


def test_offset_records_of_all_older_versions_are_parsed():
    key = bytes.fromhex("0001 0001 67 0001 74 00000005")
    body = {
        0: "0000000000000007 0001 6d 00000000000003e8",
        1: "0000000000000007 0001 6d 00000000000003e8 00000000000007d0",
        2: "0000000000000007 0001 6d 00000000000003e8",
        3: "0000000000000007 00000002 0001 6d 00000000000003e8",
    }

    read = {v: parse_record(key, v.to_bytes(2, "big") + bytes.fromhex(b)).value for v, b in body.items()}

    assert {v: (x.offset, x.metadata, x.commit_timestamp) for v, x in read.items()} == dict.fromkeys(
        body, (7, "m", 1000)
    )
    assert (read[1].expire_timestamp, read[3].leader_epoch) == (2000, 2)


def test_offset_record_key_in_the_oldest_version_is_parsed():
    key = bytes.fromhex("0000 0001 67 0001 74 00000005")

    assert parse_record(key, None) == OffsetCommitted("g", "t", 5, None)


def test_records_of_unknown_types_in_consumer_offsets_are_skipped():
    assert parse_record(bytes.fromhex("000b 0001 67"), b"\x00\x00\x01") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("", None),
        ("0002", None),
        ("0002 0001 67", ""),
        ("0002 0001 67", "0005"),
        ("0001 0001 67 0001 74 00000005", "0004 00"),
        ("0001 0001 67 ffff 00000005", None),
        ("0001 0001 67 ffff 000005", None),
        ("0001 ffff 0001 74 00000005", None),
    ],
)
def test_consumer_offsets_record_with_invalid_bytes_raises_corrupt_log(key, value):
    with pytest.raises(CorruptLog, match="__consumer_offsets"):
        parse_record(bytes.fromhex(key), None if value is None else bytes.fromhex(value))


@pytest.mark.parametrize(
    ("group", "topic"), [("", ""), ("g", ""), ("grüppe", "t"), ("g", "\U0001f600"), ("g" * 300, "t")]
)
def test_offset_record_key_survives_a_round_trip(group, topic):
    record = OffsetCommitted(group, topic, 2**31 - 1, None)

    assert parse_record(*build_record(record)) == record


def test_truncated_offset_record_key_raises_an_error():
    key, value = build_record(OffsetCommitted("group", "topic", 5, OffsetCommitValue(offset=1)))

    for cut in range(3, len(key)):
        with pytest.raises(CorruptLog):
            parse_record(key[:cut], value)


@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize("topic_id", [b"\x07" * 16, bytes(16)])
@pytest.mark.parametrize("offset", [-1, 0, 2**62])
def test_offset_record_survives_a_round_trip(metadata, topic_id, offset):
    value = OffsetCommitValue(
        offset=offset, leader_epoch=3, metadata=metadata, commit_timestamp=2**40, topic_id=topic_id
    )
    record = OffsetCommitted("g", "t", 1, value)

    assert parse_record(*build_record(record)) == record


@pytest.mark.parametrize("group", ["", "g", "grüppe", "x" * 200])
@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize("topic_id", [TOPIC_ID, bytes(16)])
def test_offset_record_encoded_without_the_codec_has_the_same_bytes_as_with_the_codec(group, metadata, topic_id):
    value = OffsetCommitValue(offset=2**40, leader_epoch=-1, metadata=metadata, commit_timestamp=5, topic_id=topic_id)

    key, data = build_record(OffsetCommitted(group, "topic", 3, value))

    assert key == b"\x00\x01" + encode_bytes(OffsetCommitKey(group=group, topic="topic", partition=3), 0)
    assert data == b"\x00\x04" + encode_bytes(value, 4)


def test_offset_record_with_a_too_long_name_is_rejected():
    with pytest.raises(ProtocolError, match="group"):
        build_record(OffsetCommitted("x" * 40_000, "t", 0, None))


@pytest.mark.parametrize("at", range(2))
def test_offset_record_value_of_unknown_version_raises_corrupt_log(at):
    key, value = build_record(OffsetCommitted("g", "t", 1, OffsetCommitValue(offset=1, topic_id=b"\x07" * 16)))
    wrong = bytearray(value)
    wrong[at] = 9

    with pytest.raises(CorruptLog):
        parse_record(key, bytes(wrong))


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("hello", 99162322 % 50),
        ("Hello World", 862545276 % 50),
        ("polygenelubricants", 0),  # the hash is the smallest int32, which has no absolute value in Java
    ],
)
def test_consumer_offsets_partition_of_a_group_follows_javas_string_hash(group_id, partition):
    assert partition_of(group_id, 50) == partition


@pytest.mark.heavy
def test_consumer_offsets_partitions_of_long_group_ids_are_not_cached():
    tracemalloc.start()
    try:
        partitions = {partition_of(f"{i:>30000}", 50) for i in range(100)}
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(partitions) > 1
    assert kept < 1_000_000, "100 names have 3 MB"


NOW_MS = 1_700_000_000_000
AHEAD_MS = 7_200_000
TIMED = [
    OffsetCommitted("g", "a", 0, OffsetCommitValue(offset=1, commit_timestamp=NOW_MS)),
    OffsetCommitted("g", "a", 0, OffsetCommitValue(offset=1, commit_timestamp=NOW_MS, expire_timestamp=NOW_MS + 5)),
    GroupWritten("g", GroupMetadataValue(current_state_timestamp=NOW_MS)),
    TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue(assignment_timestamp=NOW_MS)),
    RegexResolved("g", "a.*", ConsumerGroupRegularExpressionValue(timestamp=NOW_MS)),
]
UNTIMED = [
    OffsetCommitted("g", "a", 0, None),
    GroupWritten("g", GroupMetadataValue(current_state_timestamp=-1)),
    TargetEpochWritten("g", ConsumerGroupTargetAssignmentMetadataValue()),
]


@pytest.mark.parametrize("record", TIMED)
def test_record_converted_to_wall_clock_time_and_back_is_unchanged(record):
    key, value = build_record(moved_record(record, AHEAD_MS))

    assert value != build_record(record)[1]
    assert moved_record(parse_record(key, value), -AHEAD_MS) == record


@pytest.mark.parametrize("record", UNTIMED)
def test_unset_timestamp_of_a_record_is_not_converted_to_wall_clock_time(record):
    assert moved_record(record, AHEAD_MS) == record


def test_times_of_loaded_offsets_are_converted_from_wall_clock_time():
    log = [
        build_record(moved_record(OffsetCommitted("g", "a", p, OffsetCommitValue(commit_timestamp=NOW_MS)), AHEAD_MS))
        for p in range(3)
    ]
    groups = Groups()

    replay_log(groups, log, NOW_MS, Skipped(), AHEAD_MS)

    assert [value.commit_timestamp for _, _, value in groups.offsets["g"]] == [NOW_MS] * 3
