"""Large messages are read, written and let go of in steps, with Kafka's limits on what they may hold."""

import gc
import weakref

import pytest

from kohort.errors import ProtocolError
from kohort.steps import at_once
from kohort.wire.codec import decode, decode_in_steps, encode_bytes, encode_framed, encode_framed_in_steps
from kohort.wire.headers import skip_tags
from kohort.wire.large_messages import let_go
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.readers import COPIED_AT_ONCE, ELEMENTS_MAX, REQUEST_ELEMENTS_MAX, TAGS_MAX
from kohort.wire.schema import Message, array, int32
from kohort.wire.varints import varint_bytes


def asked(topics: int, partitions: int) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(
                name=f"t{t}", partitions=[ListOffsetsPartition(partition_index=p) for p in range(partitions)]
            )
            for t in range(topics)
        ]
    )


def steps_of(steps):
    """The result, and after how many pauses."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.heavy
@pytest.mark.parametrize(("topics", "partitions"), [(1, 30_000), (30_000, 1), (150, 200)])
def test_what_is_read_in_steps_is_what_is_read_at_once(topics, partitions):
    body = encode_bytes(asked(topics, partitions), 7)

    (message, end), pauses = steps_of(decode_in_steps(ListOffsetsRequest, 7, b"?" + body, 1))

    assert (message, end - 1) == decode(ListOffsetsRequest, 7, body)
    assert pauses > 3


@pytest.mark.parametrize(("topics", "partitions"), [(1, 30_000), (30_000, 1), (1, 1)])
def test_what_is_written_in_steps_is_what_is_written_at_once(topics, partitions):
    message = asked(topics, partitions)

    buffers, pauses = steps_of(encode_framed_in_steps(b"head", message, 7))

    assert b"".join(buffers) == b"".join(encode_framed(b"head", message, 7))
    assert (pauses > 3) == (topics * partitions > 1)


def test_record_batches_are_passed_through():
    batch = bytes(100_000)
    data = [PartitionProduceData(index=i, records=batch) for i in range(3)]
    message = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=data)])
    framed = b"".join(encode_framed(b"", message, 9))

    read, _ = at_once(decode_in_steps(ProduceRequest, 9, framed, 4))

    assert [bytes(p.records) for p in read.topic_data[0].partition_data] == [batch] * 3
    assert b"".join(at_once(encode_framed_in_steps(b"", message, 9))) == framed


def test_a_large_field_is_gathered_in_steps():
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
    [(decode, ELEMENTS_MAX), (lambda *given: at_once(decode_in_steps(*given)), REQUEST_ELEMENTS_MAX)],
    ids=["at once", "in steps"],
)
def test_array_of_the_most_elements_is_read_and_one_more_is_malformed(read, most):
    assert len(read(Numbers, 0, encode_bytes(Numbers(numbers=[0] * most), 0))[0].numbers) == most
    with pytest.raises(ProtocolError, match=rf"numbers: {most + 1} elements, more than the {most} accepted"):
        read(Numbers, 0, encode_bytes(Numbers(numbers=[0] * (most + 1)), 0))


def test_request_read_in_steps_counts_the_elements_of_all_arrays_together():
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0] * 10_000) for _ in range(10)]
    body = encode_bytes(OffsetFetchRequest(group_id="g", topics=topics), 5)

    assert decode(OffsetFetchRequest, 5, body)[1] == len(body)
    with pytest.raises(ProtocolError, match="100010 elements"):
        at_once(decode_in_steps(OffsetFetchRequest, 5, body))


def test_a_count_is_refused_before_anything_is_read_of_it():
    body = encode_bytes(MetadataRequest(topics=[MetadataRequestTopic(name="")] * (REQUEST_ELEMENTS_MAX + 1)), 1)

    with pytest.raises(ProtocolError, match="elements"):
        next(decode_in_steps(MetadataRequest, 1, body))


def test_so_many_tagged_fields_and_no_more():
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
def test_letting_go_frees_everything_and_changes_nothing():
    shared = [ListOffsetsPartition(partition_index=i) for i in range(5)]
    watched = Watched()
    message = ListOffsetsRequest(
        topics=[
            ListOffsetsTopic(name="shared", partitions=shared),
            ListOffsetsTopic(name="own", partitions=[*(ListOffsetsPartition() for _ in range(200_000)), watched]),
        ]
    )
    end = weakref.ref(watched)
    held = [message]
    del message, watched
    gc.disable()
    try:
        _, pauses = steps_of(let_go(held))
    finally:
        gc.enable()

    assert pauses > 5
    assert (held, end()) == ([], None)
    assert [p.partition_index for p in shared] == [0, 1, 2, 3, 4]
