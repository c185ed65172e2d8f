"""Cached list of partitions without a valid position."""

import random

import pytest

from kohort.client.reading.subscription import FetchState, Position, SubscriptionState
from kohort.client.requests.metadata import LeaderAndEpoch, Metadata
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition

ALL = [TopicPartition("t", number) for number in range(6)]
LEADER = LeaderAndEpoch(1, 5)


def happens(subscription, rng):
    assigned = list(subscription.assigned)
    if not assigned or rng.random() < 0.1:
        subscription.assign(rng.sample(ALL, rng.randrange(1, 6)))
        return
    state = subscription.assigned[rng.choice(assigned)]
    offset = rng.randrange(100)
    match rng.randrange(7):
        case 0:
            state.seek(Position(offset))
        case 1:
            state.seek(Position(offset, 3))
        case 2:
            state.seek(Position(offset, 3), LEADER, trusted=True)
        case 3:
            state.await_reset("earliest")
        case 4 if state.position is not None:
            state.await_validation()
        case 5 if state.position is not None:
            state.validated(LEADER)
        case 6 if rng.random() < 0.2:
            subscription.unsubscribe()


@pytest.mark.parametrize("seed", range(20))
def test_list_of_partitions_without_valid_position_is_correct_after_each_change(seed):
    rng = random.Random(seed)
    subscription = SubscriptionState(Metadata(ConsumerConfig(bootstrap_servers=["one:9092"]), rng))
    observed = set()
    for _ in range(300):
        happens(subscription, rng)
        found = [(p, s) for p, s in subscription.assigned.items() if s.state is not FetchState.FETCHING]
        assert list(subscription.not_fetching) == found
        observed.add(bool(found))
    assert observed == {True, False}
