"""KIP-709: OffsetFetch 8 takes several groups, each with its own topics or all."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)


def by_topic(group):
    return {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}


def test_each_group_of_an_offset_fetch_has_its_own_result(broker):
    one, two, none = broker.group("one"), broker.group("two"), broker.group("none")
    t, u = broker.topic("t"), broker.topic("u")
    broker.commit(one, t, {0: 1, 1: 2})
    broker.commit(two, u, {0: 3})
    ask_t = [OffsetFetchRequestTopics(name=t, partition_indexes=[0, 1])]
    groups = [
        OffsetFetchRequestGroup(group_id=one, topics=ask_t),
        OffsetFetchRequestGroup(group_id=two, topics=None),
        OffsetFetchRequestGroup(group_id=none, topics=ask_t),
        OffsetFetchRequestGroup(group_id=none, topics=None),
    ]

    answer = broker.ask(OffsetFetchRequest(groups=groups), 8)

    assert [(g.group_id, g.error_code) for g in answer.groups] == [(one, 0), (two, 0), (none, 0), (none, 0)]
    assert [by_topic(g) for g in answer.groups] == [
        {(t, 0): 1, (t, 1): 2},
        {(u, 0): 3},
        {(t, 0): -1, (t, 1): -1},
        {},
    ]


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7])
def test_offset_fetch_of_earlier_versions_has_one_group_or_all_topics(broker, version):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 9}, metadata="note")

    answer = broker.ask(OffsetFetchRequest(group_id=group, topics=None), version)

    assert answer.error_code == 0
    (found,) = answer.topics
    (partition,) = found.partitions
    assert (found.name, partition.committed_offset, partition.metadata) == (topic, 9, "note")


def test_offset_fetch_version_1_answers_uncommitted_partitions(broker):
    group, topic = broker.group(), broker.topic()
    request_topic = OffsetFetchRequestTopic(name=topic, partition_indexes=[1])

    (found,) = broker.ask(OffsetFetchRequest(group_id=group, topics=[request_topic]), 1).topics

    (partition,) = found.partitions
    assert (partition.committed_offset, partition.metadata, partition.error_code) == (-1, "", 0)


def test_offset_fetch_version_10_uses_topic_ids(broker):
    group, topic = broker.group(), broker.topic()
    assert broker.commit(group, topic, {0: 4}, version=10) == [0]
    topic_id, stranger = broker.topic_id(topic), b"\x01" * 16
    request_topics = [OffsetFetchRequestTopics(topic_id=i, partition_indexes=[0]) for i in (topic_id, stranger)]
    entry = OffsetFetchRequestGroup(group_id=group, topics=request_topics)

    (found,) = broker.ask(OffsetFetchRequest(groups=[entry]), 10).groups

    answers = {t.topic_id: (p.committed_offset, p.error_code) for t in found.topics for p in t.partitions}
    assert answers == {topic_id: (4, 0), stranger: (-1, ErrorCode.UNKNOWN_TOPIC_ID)}


def test_offset_fetch_of_a_group_without_members_ignores_member_and_epoch(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 4})
    request_topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    entry = OffsetFetchRequestGroup(group_id=group, member_id="someone", member_epoch=7, topics=request_topics)

    (found,) = broker.ask(OffsetFetchRequest(groups=[entry]), 9).groups

    assert (found.error_code, by_topic(found)) == (0, {(topic, 0): 4})
