"""Codec: encoded bytes, decoded values, errors, and the cost of errors."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from kohort.errors import ProtocolError, UnsupportedVersion
from kohort.wire.codec import JOIN_LIMIT, decode, encode, encode_bytes
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kohort.wire.messages.offsets import OffsetFetchRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.schema import Message, array, int16, int32, string
from kohort.wire.schema import struct as nested

JOIN = JoinGroupRequest(
    group_id="orders",
    session_timeout_ms=45_000,
    rebalance_timeout_ms=300_000,
    member_id="m-1",
    protocol_type="consumer",
    protocols=[
        JoinGroupRequestProtocol(name="range", metadata=b"abc"),
        JoinGroupRequestProtocol(name="sticky", metadata=b""),
    ],
    reason="first join",
)
FETCHED = FetchResponse(
    session_id=5,
    responses=[
        FetchableTopicResponse(
            topic="flights",
            partitions=[
                PartitionData(partition_index=1, high_watermark=9, aborted_transactions=None, records=b"batch")
            ],
        )
    ],
)
CLUSTER = MetadataResponse(
    cluster_id="c", topics=[MetadataResponseTopic(name="flights"), MetadataResponseTopic(name="w")]
)


class Inner(Message):
    number: int = int16()
    word: str | None = string(nullable="0+")


class Outer(Message, versions="0-2", flexible="1+"):
    inner: Inner | None = nested(Inner, nullable="0+", default=None)
    lists: list[list[int]] = array(array(int32()))
    tagged: Inner | None = nested(Inner, "1+", nullable="1+", default=None, tag=3)
    old: int = int32("0", default=-1)
    extra: str = string("2+", ignorable=True)


# ---------------------------------------------------------------- encode


def test_flexible_request_has_expected_bytes() -> None:
    assert encode_bytes(JOIN, 9) == (
        b"\x07orders" + struct.pack(">ii", 45_000, 300_000) + b"\x04m-1" + b"\x00" + b"\x09consumer"
        b"\x03" + b"\x06range\x04abc\x00" + b"\x07sticky\x01\x00" + b"\x0bfirst join" + b"\x00"
    )


def test_version_0_request_has_fixed_lengths_and_no_tags() -> None:
    assert encode_bytes(JOIN, 0) == (
        b"\x00\x06orders" + struct.pack(">i", 45_000) + b"\x00\x03m-1" + b"\x00\x08consumer" + struct.pack(">i", 2)
        + b"\x00\x05range\x00\x00\x00\x03abc" + b"\x00\x06sticky\x00\x00\x00\x00"
    )  # fmt: skip


def test_long_string_has_two_byte_length() -> None:
    word = "x" * 5000
    body = encode_bytes(FindCoordinatorRequest(coordinator_keys=[word]), 4)
    assert body == b"\x00" + b"\x02" + b"\x89\x27" + word.encode() + b"\x00"
    assert decode(FindCoordinatorRequest, 4, body)[0].coordinator_keys == [word]


def test_nullable_struct_has_null_marker_in_field_and_tag() -> None:
    message = Outer(inner=Inner(number=1, word="a"), lists=[[1], []], tagged=Inner(number=2))
    body = encode_bytes(message, 1)
    assert (
        body
        == (
            b"\x01" + b"\x00\x01\x02a\x00"  # present, and its fields
            b"\x03" + b"\x02\x00\x00\x00\x01" + b"\x01"  # two lists
            b"\x01" + b"\x03" + b"\x05" + b"\x01\x00\x02\x01\x00"  # one tag, number 3, five bytes
        )
    )
    assert decode(Outer, 1, body) == (message, len(body))
    assert encode_bytes(Outer(), 1) == b"\xff" + b"\x01" + b"\x00"
    assert decode(Outer, 1, encode_bytes(Outer(), 1))[0] == Outer()


def test_ignorable_field_is_dropped_in_older_version() -> None:
    assert encode_bytes(Outer(extra="more"), 1) == encode_bytes(Outer(), 1)
    assert encode_bytes(JOIN, 7) == encode_bytes(JoinGroupRequest(**fields_of(JOIN, reason=None)), 7)


def test_field_missing_in_version_raises_with_path() -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="static-1")
    with pytest.raises(ProtocolError, match="set, but version 2 has no such field") as raised:
        encode(request, 2)
    assert raised.value.path == "HeartbeatRequest.group_instance_id"
    assert encode_bytes(request, 3)


def test_list_missing_in_version_raises_unless_empty() -> None:
    with pytest.raises(ProtocolError) as raised:
        encode(OffsetFetchRequest(group_id="g", topics=None), 8)
    assert raised.value.path == "OffsetFetchRequest.group_id"
    with pytest.raises(ProtocolError) as raised:
        encode(OffsetFetchRequest(topics=None), 8)
    assert raised.value.path == "OffsetFetchRequest.topics"
    assert encode_bytes(OffsetFetchRequest(), 8)


def test_null_in_non_nullable_version_raises_with_path() -> None:
    with pytest.raises(ProtocolError, match="version 6: null") as raised:
        encode(JoinGroupResponse(protocol_name=None), 6)
    assert raised.value.path == "JoinGroupResponse.protocol_name"
    assert encode_bytes(JoinGroupResponse(protocol_name=None), 7)


def test_number_out_of_range_raises_with_path() -> None:
    topic = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(), ListOffsetsPartition(current_leader_epoch=2**31)]
    )
    with pytest.raises(ProtocolError) as raised:
        encode(ListOffsetsRequest(topics=[topic]), 5)
    assert raised.value.path == "ListOffsetsRequest.topics[0].partitions[1].current_leader_epoch"


def test_value_of_wrong_type_raises_with_path() -> None:
    broken = JoinGroupRequestProtocol(name=b"range")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ProtocolError) as raised:
        encode(JoinGroupRequest(protocols=[broken]), 9)
    assert raised.value.path == "JoinGroupRequest.protocols[0].name"


def test_too_long_string_raises_with_path() -> None:
    with pytest.raises(ProtocolError) as raised:
        encode(HeartbeatRequest(member_id="x" * 40_000), 0)
    assert raised.value.path == "HeartbeatRequest.member_id"


def test_unknown_version_is_rejected_by_encode_and_decode() -> None:
    with pytest.raises(UnsupportedVersion, match="versions 0 to 9, not 10"):
        encode(JOIN, 10)
    with pytest.raises(UnsupportedVersion, match="versions 3 to 13, not 2"):
        decode(ProduceRequest, 2, b"")


# ---------------------------------------------------------------- decode


@pytest.mark.parametrize(
    ("message", "version"),
    [(JOIN, 9), (JOIN, 0), (FETCHED, 7), (FETCHED, 12), (CLUSTER, 1), (CLUSTER, 9), (Outer(inner=Inner()), 2)],
    ids=lambda v: type(v).__name__ if isinstance(v, Message) else f"v{v}",
)
def test_truncated_body_raises_protocol_error_with_path(message: Message, version: int) -> None:
    body = encode_bytes(message, version)
    assert decode(type(message), version, body)[1] == len(body)
    for cut in range(len(body)):
        with pytest.raises(ProtocolError) as raised:
            decode(type(message), version, body[:cut])
        assert raised.value.path.startswith(type(message).__name__)


def test_bytes_after_a_message_are_ignored() -> None:
    body = encode_bytes(JOIN, 9)
    assert decode(JoinGroupRequest, 9, b"head" + body + b"tail", 4) == (JOIN, 4 + len(body))


def test_field_missing_in_version_decodes_to_default() -> None:
    read, _ = decode(JoinGroupRequest, 0, encode_bytes(JOIN, 0))
    assert (read.rebalance_timeout_ms, read.group_instance_id, read.reason) == (-1, None, None)


def test_unknown_tags_are_skipped() -> None:
    body = encode_bytes(JOIN, 9)[:-1] + b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"
    assert decode(JoinGroupRequest, 9, body) == (JOIN, len(body))


def test_tag_longer_than_its_field_is_rejected() -> None:
    head = b"\xff\x01"
    with pytest.raises(ProtocolError, match="its tag is 2 bytes longer") as raised:
        decode(Outer, 1, head + b"\x01\x03\x03" + b"\x00\x00\x00")
    assert raised.value.path == "Outer.tagged"


def test_tag_longer_than_body_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="a size of 100 with 2 bytes left") as raised:
        decode(Outer, 1, b"\xff\x01" + b"\x01\x09\x64" + b"ab")
    assert raised.value.path == "Outer.tags"


def test_invalid_utf_8_is_rejected_with_path() -> None:
    body = encode_bytes(JOIN, 9).replace(b"sticky", b"sti\xffky")
    with pytest.raises(ProtocolError, match="utf-8") as raised:
        decode(JoinGroupRequest, 9, body)
    assert raised.value.path == "JoinGroupRequest.protocols[1].name"


@pytest.mark.parametrize(
    ("body", "version", "problem"),
    [
        (b"\xff\xff", 0, "null, or a negative length (-1)"),
        (b"\xff\xfe", 0, "null, or a negative length (-2)"),
        (b"\x00\x05ab", 0, "a length of 5 with 2 bytes left"),
        (b"\x00", 4, "null, or a negative length (-1)"),
        (b"\x06ab", 4, "a length of 5 with 2 bytes left"),
        (b"\xff\xff\xff\xff\x0f", 4, "a length of 4294967294 with 0 bytes left"),
        (b"\xff\xff\xff\xff\x1f", 4, "varint exceeds 32 bits"),
        (b"\x80\x80\x80\x80\x80\x01", 4, "varint exceeds five bytes"),
        (b"\x80", 4, "the bytes end before the field does"),
        (b"", 0, "the bytes end before the field does"),
    ],
)
def test_invalid_length_is_rejected_with_path(body: bytes, version: int, problem: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        decode(HeartbeatRequest, version, body)
    assert (raised.value.problem, raised.value.path) == (problem, "HeartbeatRequest.group_id")


def test_string_above_32767_bytes_is_rejected_in_every_version() -> None:
    rest = bytes(4) + b"\x02m" + b"\x00" * 2
    longest = b"\x80\x80\x02" + b"g" * 32_767
    assert decode(HeartbeatRequest, 4, longest + rest)[0].group_id == "g" * 32_767
    with pytest.raises(ProtocolError) as raised:
        decode(HeartbeatRequest, 4, b"\x81\x80\x02" + b"g" * 32_768 + rest)
    assert (raised.value.problem, raised.value.path) == ("a string of 32768 bytes", "HeartbeatRequest.group_id")


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_nullable_field_accepts_only_minus_one(length: int) -> None:
    head = b"\x00\x01g" + bytes(4) + b"\x00\x01m"
    assert decode(HeartbeatRequest, 3, head + b"\xff\xff")[0].group_instance_id is None
    with pytest.raises(ProtocolError) as raised:
        decode(HeartbeatRequest, 3, head + struct.pack(">h", length))
    assert raised.value.path == "HeartbeatRequest.group_instance_id"


# ---------------------------------------------------------------- counts and lengths


@pytest.mark.parametrize(
    ("message", "version", "body", "path"),
    [
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f", "MetadataRequest.topics"),
        (MetadataRequest, 1, b"\x7f\xff\xff\xff", "MetadataRequest.topics"),
        (FindCoordinatorRequest, 4, b"\x00\xff\xff\xff\xff\x0f", "FindCoordinatorRequest.coordinator_keys"),
        (Outer, 1, b"\xff\x02\xff\xff\xff\xff\x0f", "Outer.lists[0]"),
        (Outer, 0, b"\xff\x00\x00\x00\x01\x7f\xff\xff\xff", "Outer.lists[0]"),
    ],
)
def test_huge_count_is_rejected_before_allocation(message: type[Message], version: int, body: bytes, path: str) -> None:
    with pytest.raises(ProtocolError):
        decode(message, version, body)  # compile first, so that only decoding is measured

    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="a count of") as raised:
            decode(message, version, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert raised.value.path == path
    assert peak < 50_000


def test_count_is_limited_by_remaining_bytes() -> None:
    three = struct.pack(">iii", 1, 2, 3)
    assert decode(Outer, 1, b"\xff\x02\x04" + three + b"\x00")[0].lists == [[1, 2, 3]]
    with pytest.raises(ProtocolError, match="a count of 4 with 13 bytes left"):
        decode(Outer, 1, b"\xff\x02\x05" + three + b"\x00")


# ---------------------------------------------------------------- batches are not copied


def test_produce_batches_are_views_of_the_frame() -> None:
    batch = bytes(range(256)) * 40
    request = ProduceRequest(
        acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])]
    )
    body = encode_bytes(request, 9)

    read, _ = decode(ProduceRequest, 9, body)

    view = read.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is body
    assert view == batch


def test_fetch_batches_are_encoded_without_copy() -> None:
    first, second, third = (memoryview(bytes([i]) * (JOIN_LIMIT + 1)) for i in range(3))
    response = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(partition_index=0, records=[first, second]),
                    PartitionData(partition_index=1, records=third),
                    PartitionData(partition_index=2, records=[]),
                    PartitionData(partition_index=3, records=None),
                ],
            )
        ]
    )
    for version in (4, 12):
        buffers = encode(response, version)
        assert [b for b in buffers if len(b) > JOIN_LIMIT] == [first, second, third]
        assert all(any(b is batch for b in buffers) for batch in (first, second, third))
        read, _ = decode(FetchResponse, version, b"".join(buffers))
        assert [p.records for p in read.responses[0].partitions] == [bytes(first) + bytes(second), third, b"", None]


def test_small_batches_are_joined_with_their_neighbours() -> None:
    assert len(encode(FETCHED, 12)) == 1


def fields_of(message: Message, **changed: object) -> dict[str, object]:
    return {f.name: getattr(message, f.name) for f in message.FIELDS} | changed
