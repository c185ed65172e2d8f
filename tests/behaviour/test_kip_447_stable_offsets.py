"""KIP-447: OffsetFetch can require stable offsets."""

import pytest

from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic


@pytest.mark.parametrize("stable", [False, True])
def test_commits_without_transactions_are_stable_immediately(broker, stable):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 41})

    assert broker.committed(group, topic, [0, 1], stable=stable) == [41, -1]


def test_require_stable_is_a_top_level_field_of_version_7(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {1: 5})

    request_topic = OffsetFetchRequestTopic(name=topic, partition_indexes=[1])
    answer = broker.ask(OffsetFetchRequest(group_id=group, topics=[request_topic], require_stable=True), 7)

    assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 5)
