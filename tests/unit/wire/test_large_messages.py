"""Responses encoded in parts equal the response encoded as a whole."""

import gc
import weakref
from typing import Any

import pytest

from kohort.errors import ProtocolError
from kohort.steps import at_once
from kohort.wire.codec import decode, decode_in_steps, encode_bytes, encode_framed, encode_framed_in_steps
from kohort.wire.headers import build_response, build_response_in_steps, skip_tags
from kohort.wire.large_messages import GrowingAnswer, free_in_steps
from kohort.wire.messages.group_admin import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.readers import COPIED_AT_ONCE, ELEMENTS_MAX, REQUEST_ELEMENTS_MAX, TAGS_MAX
from kohort.wire.schema import Message, array, int32
from kohort.wire.varints import varint_bytes

PATH = ("groups", "topics", "partitions")


def group(name: str, **topics: range) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=name,
        topics=[
            OffsetFetchResponseTopics(
                name=topic,
                partitions=[OffsetFetchResponsePartitions(partition_index=p, committed_offset=p) for p in partitions],
            )
            for topic, partitions in topics.items()
        ],
    )


def described(*names: str, members: int = 2) -> DescribeGroupsResponse:
    groups = [
        DescribedGroup(group_id=name, members=[DescribedGroupMember(member_id=str(m)) for m in range(members)])
        for name in names
    ]
    return DescribeGroupsResponse(throttle_time_ms=7, groups=groups)


def grown(version: int, path: tuple[str, ...], *parts):
    growing = GrowingAnswer(version, path)
    for part, continued in parts:
        at_once(growing.add(part, continued))
    return at_once(growing.finish())


def written(answer, version: int) -> list[bytes]:
    return [
        b"".join(build_response(1, answer, version)),
        b"".join(at_once(build_response_in_steps(1, answer, version))),
    ]


@pytest.mark.parametrize("version", [4, 6])
def test_parts_of_one_array_encode_like_the_whole(version):
    answer = grown(version, ("groups",), (described("a", "b"), 0), (described("c"), 0), (described(), 0))

    whole = b"".join(build_response(1, described("a", "b", "c"), version))
    assert written(answer, version) == [whole, whole]


@pytest.mark.parametrize("version", [8, 9])
def test_continued_parts_encode_like_the_whole(version):
    answer = grown(
        version,
        PATH,
        (OffsetFetchResponse(groups=[group("a", t=range(2)), group("b", t=range(3))]), 0),
        (OffsetFetchResponse(groups=[group("b", t=range(3, 5), u=range(2))]), 2),
        (OffsetFetchResponse(groups=[group("b", v=range(1))]), 1),
        (OffsetFetchResponse(groups=[group("c"), group("d", t=range(1))]), 0),
    )

    groups = [
        group("a", t=range(2)),
        group("b", t=range(5), u=range(2), v=range(1)),
        group("c"),
        group("d", t=range(1)),
    ]
    whole = b"".join(build_response(1, OffsetFetchResponse(groups=groups), version))
    assert written(answer, version) == [whole, whole]


def test_written_bytes_of_nested_arrays_count_once():
    growing = GrowingAnswer(9, PATH)
    at_once(growing.add(OffsetFetchResponse(groups=[group("a", t=range(100))]), 0))
    at_once(growing.add(OffsetFetchResponse(groups=[group("a", t=range(100, 200), u=range(10))]), 2))

    answer: Any = at_once(growing.finish())

    assert growing.written_bytes == sum(map(len, answer.groups.buffers))


def test_growing_answer_has_bytes_instead_of_structs():
    growing = GrowingAnswer(6, ("groups",))
    at_once(growing.add(described("a", members=100), 0))
    first = growing.written_bytes
    at_once(growing.add(described("b", members=100), 0))

    answer: Any = at_once(growing.finish())

    assert len(answer.groups) == 0
    assert growing.written_bytes == 2 * first


def test_part_not_encodable_in_version_raises_protocol_error():
    growing = GrowingAnswer(2, ("groups",))
    part = described("a")
    part.groups[0].error_message = "of version 6"

    with pytest.raises(ProtocolError, match="error_message"):
        at_once(growing.add(part, 0))


def list_offsets_request(topics: int, partitions: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=f"t{t}", partitions=[ListOffsetsPartition(partition_index=p) for p in range(partitions)]
            )
            for t in range(topics)
        ]
    )


def steps_of(steps):
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.heavy
@pytest.mark.parametrize(("topics", "partitions"), [(1, 30_000), (30_000, 1), (150, 200)])
def test_decode_in_steps_equals_decode(topics, partitions):
    body = encode_bytes(list_offsets_request(topics, partitions), 7)

    (message, end), pauses = steps_of(decode_in_steps(ListOffsetsRequest, 7, b"?" + body, 1))

    assert (message, end - 1) == decode(ListOffsetsRequest, 7, body)
    assert pauses > 3


@pytest.mark.parametrize(("topics", "partitions"), [(1, 30_000), (30_000, 1), (1, 1)])
def test_encode_in_steps_equals_encode(topics, partitions):
    message = list_offsets_request(topics, partitions)

    buffers, pauses = steps_of(encode_framed_in_steps(b"head", message, 7))

    assert b"".join(buffers) == b"".join(encode_framed(b"head", message, 7))
    assert (pauses > 3) == (topics * partitions > 1)


def test_encode_in_steps_does_not_copy_batches():
    batch = bytes(100_000)
    data = [PartitionProduceData(index=i, records=batch) for i in range(3)]
    message = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=data)])
    framed = b"".join(encode_framed(b"", message, 9))

    read, _ = at_once(decode_in_steps(ProduceRequest, 9, framed, 4))

    assert [bytes(p.records) for p in read.topic_data[0].partition_data] == [batch] * 3
    assert b"".join(at_once(encode_framed_in_steps(b"", message, 9))) == framed


def test_large_bytes_field_is_decoded_in_steps():
    blob = bytes(range(256)) * (3 * COPIED_AT_ONCE // 256 + 1)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=blob), JoinGroupRequestProtocol(metadata=b"small")]
    body = encode_bytes(JoinGroupRequest(protocols=protocols), 5)

    (message, _), pauses = steps_of(decode_in_steps(JoinGroupRequest, 5, bytearray(body)))

    assert pauses >= 4
    assert message == decode(JoinGroupRequest, 5, body)[0]
    assert type(message.protocols[1].metadata) is bytes


class Numbers(Message, versions="0", flexible="none"):
    numbers: list[int] = array(int32())


@pytest.mark.parametrize(
    ("read", "most"),
    [(decode, ELEMENTS_MAX), (lambda *arguments: at_once(decode_in_steps(*arguments)), REQUEST_ELEMENTS_MAX)],
    ids=["at once", "in steps"],
)
def test_array_above_element_limit_is_malformed(read, most):
    assert len(read(Numbers, 0, encode_bytes(Numbers(numbers=[0] * most), 0))[0].numbers) == most
    with pytest.raises(ProtocolError, match=rf"numbers: {most + 1} elements, more than the {most} accepted"):
        read(Numbers, 0, encode_bytes(Numbers(numbers=[0] * (most + 1)), 0))


def test_decode_in_steps_limits_elements_of_all_arrays():
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0] * 10_000) for _ in range(10)]
    body = encode_bytes(OffsetFetchRequest(group_id="g", topics=topics), 5)

    assert decode(OffsetFetchRequest, 5, body)[1] == len(body)
    with pytest.raises(ProtocolError, match="100010 elements"):
        at_once(decode_in_steps(OffsetFetchRequest, 5, body))


def test_count_above_limit_is_rejected_before_elements():
    body = encode_bytes(MetadataRequest(topics=[MetadataRequestTopic(name="")] * (REQUEST_ELEMENTS_MAX + 1)), 1)

    with pytest.raises(ProtocolError, match="elements"):
        next(decode_in_steps(MetadataRequest, 1, body))


def test_tagged_fields_above_limit_are_rejected():
    def body(count: int) -> bytes:
        tags = b"".join(uvarint(1000 + i) + b"\x00" for i in range(count))
        return encode_bytes(MetadataRequest(topics=[]), 12)[:-1] + uvarint(count) + tags

    def uvarint(value: int) -> bytes:
        return varint_bytes(value // 2 if value % 2 == 0 else -(value + 1) // 2)  # zig-zag undone

    assert decode(MetadataRequest, 12, body(TAGS_MAX))[1] == len(body(TAGS_MAX))
    with pytest.raises(ProtocolError, match="10001 tagged fields"):
        decode(MetadataRequest, 12, body(TAGS_MAX + 1))
    with pytest.raises(ProtocolError, match="10001 tagged fields"):
        skip_tags(uvarint(TAGS_MAX + 1) + bytes(50_000), 0, "RequestHeader")


class Watched(ListOffsetsPartition):
    __slots__ = ("__weakref__",)


@pytest.mark.heavy
def test_free_in_steps_frees_all_messages():
    shared = [ListOffsetsPartition(partition_index=i) for i in range(5)]
    watched = Watched()
    message = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name="shared", partitions=shared),
            ListOffsetsTopic(name="own", partitions=[*(ListOffsetsPartition() for _ in range(200_000)), watched]),
        ]
    )
    end = weakref.ref(watched)
    messages = [message]
    del message, watched
    gc.disable()
    try:
        _, pauses = steps_of(free_in_steps(messages))
    finally:
        gc.enable()

    assert pauses > 5
    assert (messages, end()) == ([], None)
    assert [p.partition_index for p in shared] == [0, 1, 2, 3, 4]
