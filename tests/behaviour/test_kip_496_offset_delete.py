"""KIP-496: OffsetDelete forgets offsets of topics that nobody in the group works on."""

from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.consumer_protocol import subscription


def delete(broker, group, topics):
    """The top-level error, and the errors by topic and partition."""
    asked = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    answer = broker.ask(OffsetDeleteRequest(group_id=group, topics=asked), 0)
    return answer.error_code, {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def test_the_offsets_of_an_empty_group_can_be_deleted(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1, 1: 2})

    assert delete(broker, group, {topic: [0]}) == (0, {(topic, 0): 0})

    assert broker.committed(group, topic, [0, 1]) == [-1, 2]


def test_deleting_what_is_not_there_is_no_error(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1})

    assert delete(broker, group, {topic: [1]}) == (0, {(topic, 1): 0})


def test_a_topic_that_does_not_exist_is_told(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1})

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(broker, group, {topic: [0, 9], "no-such-topic": [0]}) == (
        0,
        {(topic, 0): 0, (topic, 9): unknown, ("no-such-topic", 0): unknown},
    )


def test_a_subscribed_topic_is_kept_and_another_is_not(broker):
    group, mine, other = broker.group(), broker.topic("mine"), broker.topic("other")
    ann = broker.member(group, protocols=[("range", subscription(mine))])
    broker.stable(ann)
    assert ann.commit(mine, {0: 1}) == ann.commit(other, {0: 2}) == [0]

    busy = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(broker, group, {mine: [0], other: [0]}) == (0, {(mine, 0): busy, (other, 0): 0})

    assert broker.committed(group, mine, [0]) == [1]
    assert broker.committed(group, other, [0]) == [-1]


def test_a_subscription_that_cannot_be_read_counts_as_every_topic(broker):
    group, topic = broker.group(), broker.topic()
    ann = broker.member(group, protocols=[("range", b"\x00")])
    broker.stable(ann)
    ann.commit(topic, {0: 1})

    assert delete(broker, group, {topic: [0]}) == (0, {(topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})


def test_a_busy_group_of_another_kind_is_not_touched(broker):
    group, topic = broker.group(), broker.topic()
    ann = broker.member(group, protocol_type="connect")
    broker.stable(ann)

    assert delete(broker, group, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_a_group_that_is_not_there_or_has_no_name_is_refused(broker):
    group, topic = broker.group(), broker.topic()

    assert delete(broker, group, {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete(broker, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
