"""KIP-496: OffsetDelete forgets offsets of topics that nobody in the group works on."""

from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.raw.broker_under_test import subscription


def delete(crew, group, topics):
    """The top-level error, and the errors by topic and partition."""
    asked = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    answer = crew.ask(OffsetDeleteRequest(group_id=group, topics=asked), 0)
    return answer.error_code, {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def test_the_offsets_of_an_empty_group_can_be_deleted(crew):
    group, topic = crew.group(), crew.topic()
    crew.commit(group, topic, {0: 1, 1: 2})

    assert delete(crew, group, {topic: [0]}) == (0, {(topic, 0): 0})

    assert crew.committed(group, topic, [0, 1]) == [-1, 2]


def test_deleting_what_is_not_there_is_no_error(crew):
    group, topic = crew.group(), crew.topic()
    crew.commit(group, topic, {0: 1})

    assert delete(crew, group, {topic: [1]}) == (0, {(topic, 1): 0})


def test_a_topic_that_does_not_exist_is_told(crew):
    group, topic = crew.group(), crew.topic()
    crew.commit(group, topic, {0: 1})

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(crew, group, {topic: [0, 9], "no-such-topic": [0]}) == (
        0,
        {(topic, 0): 0, (topic, 9): unknown, ("no-such-topic", 0): unknown},
    )


def test_a_subscribed_topic_is_kept_and_another_is_not(crew):
    group, mine, other = crew.group(), crew.topic("mine"), crew.topic("other")
    ann = crew.member(group, protocols=[("range", subscription(mine))])
    crew.stable(ann)
    assert ann.commit(mine, {0: 1}) == ann.commit(other, {0: 2}) == [0]

    busy = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(crew, group, {mine: [0], other: [0]}) == (0, {(mine, 0): busy, (other, 0): 0})

    assert crew.committed(group, mine, [0]) == [1]
    assert crew.committed(group, other, [0]) == [-1]


def test_a_subscription_that_cannot_be_read_counts_as_every_topic(crew):
    group, topic = crew.group(), crew.topic()
    ann = crew.member(group, protocols=[("range", b"\x00")])
    crew.stable(ann)
    ann.commit(topic, {0: 1})

    assert delete(crew, group, {topic: [0]}) == (0, {(topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})


def test_a_busy_group_of_another_kind_is_not_touched(crew):
    group, topic = crew.group(), crew.topic()
    ann = crew.member(group, protocol_type="connect")
    crew.stable(ann)

    assert delete(crew, group, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_a_group_that_is_not_there_or_has_no_name_is_refused(crew):
    group, topic = crew.group(), crew.topic()

    assert delete(crew, group, {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete(crew, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
