"""KIP-447, as far as it concerns groups without transactions: OffsetFetch can ask for stable offsets only."""

import pytest

from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic


@pytest.mark.parametrize("stable", [False, True])
def test_without_transactions_every_commit_is_stable_at_once(broker, stable):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {0: 41})

    assert broker.committed(group, topic, [0, 1], stable=stable) == [41, -1]


def test_version_7_asks_for_it_at_the_top(broker):
    group, topic = broker.group(), broker.topic()
    broker.commit(group, topic, {1: 5})

    asked = OffsetFetchRequestTopic(name=topic, partition_indexes=[1])
    answer = broker.ask(OffsetFetchRequest(group_id=group, topics=[asked], require_stable=True), 7)

    assert (answer.error_code, answer.topics[0].partitions[0].committed_offset) == (0, 5)
