"""KIP-496: OffsetDelete deletes offsets of topics to which no member is subscribed."""

from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.consumer_protocol import subscription


def delete(broker, group, topics):
    request_topics = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    answer = broker.ask(OffsetDeleteRequest(group_id=group, topics=request_topics), 0)
    return answer.error_code, {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def test_offsets_of_an_empty_group_can_be_deleted(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1, 1: 2})

    assert delete(broker, group, {topic: [0]}) == (0, {(topic, 0): 0})

    assert broker.committed(group, topic, [0, 1]) == [-1, 2]


def test_deleting_missing_offsets_is_no_error(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1})

    assert delete(broker, group, {topic: [1]}) == (0, {(topic, 1): 0})


def test_unknown_topic_is_reported(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 1})

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(broker, group, {topic: [0, 9], "no-such-topic": [0]}) == (
        0,
        {(topic, 0): 0, (topic, 9): unknown, ("no-such-topic", 0): unknown},
    )


def test_offsets_of_subscribed_topics_are_not_deleted(broker):
    group, mine, other = broker.group(), broker.topic("mine"), broker.topic("other")
    ann = broker.member(group, protocols=[("range", subscription(mine))])
    broker.stable(ann)
    assert ann.commit(mine, {0: 1}) == ann.commit(other, {0: 2}) == [0]

    busy = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(broker, group, {mine: [0], other: [0]}) == (0, {(mine, 0): busy, (other, 0): 0})

    assert broker.committed(group, mine, [0]) == [1]
    assert broker.committed(group, other, [0]) == [-1]


def test_unparsable_subscription_counts_as_all_topics(broker):
    group, topic = broker.group(), broker.topic()
    ann = broker.member(group, protocols=[("range", b"\x00")])
    broker.stable(ann)
    ann.commit(topic, {0: 1})

    assert delete(broker, group, {topic: [0]}) == (0, {(topic, 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})


def test_group_of_another_protocol_type_with_members_is_rejected(broker):
    group, topic = broker.group(), broker.topic()
    ann = broker.member(group, protocol_type="connect")
    broker.stable(ann)

    assert delete(broker, group, {topic: [0]}) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_missing_group_and_empty_group_id_are_rejected(broker):
    group, topic = broker.group(), broker.topic()

    assert delete(broker, group, {topic: [0]}) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert delete(broker, "", {topic: [0]}) == (ErrorCode.INVALID_GROUP_ID, {})
