"""Answers that are written part by part are the bytes of the answer as a whole."""

from typing import Any

import pytest

from kohort.errors import ProtocolError
from kohort.steps import at_once
from kohort.wire.headers import build_response, build_response_in_steps
from kohort.wire.large_messages import GrowingAnswer
from kohort.wire.messages.group_admin import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kohort.wire.messages.offsets import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

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
    """The frame, at once and in steps."""
    return [
        b"".join(build_response(1, answer, version)),
        b"".join(at_once(build_response_in_steps(1, answer, version))),
    ]


@pytest.mark.parametrize("version", [4, 6])
def test_parts_of_one_array_are_written_as_the_whole(version):
    answer = grown(version, ("groups",), (described("a", "b"), 0), (described("c"), 0), (described(), 0))

    whole = b"".join(build_response(1, described("a", "b", "c"), version))
    assert written(answer, version) == [whole, whole]


@pytest.mark.parametrize("version", [8, 9])
def test_parts_that_go_on_with_a_group_or_a_topic_are_written_as_the_whole(version):
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


def test_growing_answer_holds_bytes_instead_of_structs():
    growing = GrowingAnswer(6, ("groups",))
    at_once(growing.add(described("a", members=100), 0))
    first = growing.written_bytes
    at_once(growing.add(described("b", members=100), 0))

    answer: Any = at_once(growing.finish())

    assert len(answer.groups) == 0
    assert growing.written_bytes == 2 * first


def test_part_that_its_version_cannot_say_is_a_protocol_error():
    growing = GrowingAnswer(2, ("groups",))
    part = described("a")
    part.groups[0].error_message = "of version 6"

    with pytest.raises(ProtocolError, match="error_message"):
        at_once(growing.add(part, 0))
