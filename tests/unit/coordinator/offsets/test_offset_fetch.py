"""OffsetFetch requests: all versions, unknown groups, deleted topics, errors."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from support.machines.coordinator_stage import GROUP


def old(partition: int, offset: int, metadata: str = "") -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition_index=partition, committed_offset=offset, metadata=metadata)


def new(partition: int, offset: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=offset, metadata="", error_code=code
    )


def fetch(stage, version: int, topics: dict[str, list[int]] | None, group: str = GROUP):
    request_topics = None if topics is None else [
        OffsetFetchRequestTopic(name=name, partition_indexes=partitions) for name, partitions in topics.items()
    ]  # fmt: skip
    return stage.answer(stage.ask(OffsetFetchRequest(group_id=group, topics=request_topics), version))


def fetch_groups(stage, version: int, **groups: list[OffsetFetchRequestTopics] | None):
    request_groups = [OffsetFetchRequestGroup(group_id=name, topics=topics) for name, topics in groups.items()]
    return stage.answer(stage.ask(OffsetFetchRequest(groups=request_groups), version))


@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_up_to_v7_returns_offsets_of_one_group(stage, version):
    stage.commit({("t", 1): 5}, metadata="m")

    answer = fetch(stage, version, {"t": [0, 1], "never": [0]})

    assert answer == OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name="t", partitions=[old(0, -1), old(1, 5, "m")]),
            OffsetFetchResponseTopic(name="never", partitions=[old(0, -1)]),
        ]
    )


def test_offset_fetch_with_null_topics_returns_all_offsets_since_v2(stage):
    stage.commit({("t", 1): 5, ("t", 0): 4, ("u", 0): 7})

    assert fetch(stage, 7, None) == OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name="t", partitions=[old(0, 4), old(1, 5)]),
            OffsetFetchResponseTopic(name="u", partitions=[old(0, 7)]),
        ]
    )
    assert fetch(stage, 7, {}) == OffsetFetchResponse()


def test_offset_fetch_of_an_unknown_group_returns_no_offsets_and_creates_no_group(stage):
    assert fetch(stage, 7, {"t": [0]}, group="nobody").topics[0].partitions == [old(0, -1)]
    assert fetch(stage, 7, None, group="nobody") == OffsetFetchResponse()
    assert stage.records() == []


def test_offset_fetch_returns_offsets_of_several_groups_since_v8(stage):
    stage.commit({("t", 1): 5}, group="a")
    stage.commit({("u", 0): 7}, group="b")

    answer = fetch_groups(
        stage, 8, a=None, b=[OffsetFetchRequestTopics(name="u", partition_indexes=[0, 1])], nobody=None
    )

    t_id = stage.topics.topic_id("t")
    assert answer == OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(
                group_id="a", topics=[OffsetFetchResponseTopics(name="t", topic_id=t_id, partitions=[new(1, 5)])]
            ),
            OffsetFetchResponseGroup(
                group_id="b", topics=[OffsetFetchResponseTopics(name="u", partitions=[new(0, 7), new(1, -1)])]
            ),
            OffsetFetchResponseGroup(group_id="nobody"),
        ]
    )


def test_offset_fetch_uses_topic_ids_since_v10(stage):
    stage.commit({("t", 1): 5, ("u", 1): 6})
    unknown = b"\x09" * 16
    request_topics = [
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[1])
        for topic_id in (stage.topics.topic_id("t"), unknown)
    ]

    (group,) = fetch_groups(stage, 10, g=request_topics).groups

    assert [t.partitions for t in group.topics] == [[new(1, 5)], [new(1, -1, ErrorCode.UNKNOWN_TOPIC_ID)]]
    assert group.topics[1].topic_id == unknown


def test_offset_fetch_of_all_topics_omits_deleted_topics_since_v10(stage):
    stage.commit({("t", 1): 5, ("u", 1): 6})
    stage.topics.delete("t")

    (group,) = fetch_groups(stage, 10, g=None).groups
    assert [t.name for t in group.topics] == ["u"]


def test_offset_fetch_omits_offsets_committed_before_their_topic_was_recreated(stage):
    stage.commit({("t", 1): 5})
    stage.topics.ids["t"] = b"\x07" * 16

    assert fetch(stage, 7, {"t": [1]}).topics[0].partitions == [old(1, -1)]


class TestErrorPlaces:
    @pytest.fixture
    def stage(self, stage):
        stage.unload()
        return stage

    def test_offset_fetch_v1_returns_an_error_for_each_partition(self, stage):
        (p,) = fetch(stage, 1, {"t": [3]}).topics[0].partitions
        assert (p.partition_index, p.committed_offset, p.error_code) == (3, -1, ErrorCode.NOT_COORDINATOR)

    def test_offset_fetch_v2_to_v7_returns_an_error_at_top_level(self, stage):
        assert fetch(stage, 7, {"t": [3]}) == OffsetFetchResponse(error_code=ErrorCode.NOT_COORDINATOR)

    def test_offset_fetch_returns_an_error_for_each_group_since_v8(self, stage):
        assert fetch_groups(stage, 8, a=None) == OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id="a", error_code=ErrorCode.NOT_COORDINATOR)]
        )
