"""Partitions with fetch errors share one back-off; other partitions of the node are fetched."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kohort.client.reading.context import ConsumerContext, Failures
from kohort.client.reading.fetcher import Fetcher
from kohort.client.reading.subscription import Position, SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.source import Unsent
from kohort.config.client import ConsumerConfig
from kohort.errors import ErrorCode
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from support.machines.consumer_stage import tp

TOPIC_ID = b"t" * 16
GOOD, *REFUSED = [tp(f"t-{number}") for number in range(4)]


class Leader:
    def __init__(self) -> None:
        rng, config, notes = random.Random(1), ConsumerConfig(bootstrap_servers=["one:9092"]), Notes()
        metadata = Metadata(config, rng)
        subscription = self.subscription = SubscriptionState(metadata)
        subscription.assign([GOOD, *REFUSED])
        (sent,) = metadata.poll(0).unsent
        partitions = [MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(4)]
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)
        brokers = [MetadataResponseBroker(node_id=1, host="one", port=9092)]
        metadata.on_response(sent, MetadataResponse(brokers=brokers, topics=[topic]), 0)
        for partition in subscription.assigned:
            subscription.seek(partition, Position(0))
        outages, failures = Outages(notes), Failures(subscription)
        context = ConsumerContext(config, subscription, metadata, failures, notes, outages, rng)
        self.fetcher = Fetcher(context, lambda _partition, _state: None)
        self.wake_at_ms: int | None = None

    def fetch(self, now_ms: int) -> list[int]:
        poll: Any = self.fetcher.poll(now_ms)
        self.wake_at_ms = poll.wake_at_ms
        partition_numbers = [p.partition for sent in poll.unsent for t in sent.request.topics for p in t.partitions]
        for sent in poll.unsent:
            self._answer(sent, partition_numbers, now_ms)
        return partition_numbers

    def _answer(self, sent: Unsent, partition_numbers: list[int], now_ms: int) -> None:
        assert isinstance(sent.request, FetchRequest)
        codes = {number: ErrorCode.KAFKA_STORAGE_ERROR if number else 0 for number in partition_numbers}
        partitions = [PartitionData(partition_index=n, error_code=code, records=b"") for n, code in codes.items()]
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)
        self.fetcher.on_response(sent, FetchResponse(session_id=0, responses=[topic]), now_ms)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_partitions_with_fetch_error_do_not_delay_other_partitions_of_node(leader: Leader):
    assert leader.fetch(0) == [0, 1, 2, 3]

    assert leader.fetch(1) == [0]
    assert leader.fetch(2) == [0]


def test_partitions_with_fetch_error_are_fetched_together_after_one_back_off(leader: Leader):
    leader.fetch(0)
    leader.fetch(1)
    retry_at_ms = leader.wake_at_ms

    assert retry_at_ms is not None
    assert 80 <= retry_at_ms <= 120
    assert leader.fetch(retry_at_ms) == [0, 1, 2, 3]


def test_fetch_back_off_of_failed_partition_grows_until_success(leader: Leader):
    state = leader.subscription.state(REFUSED[0])
    waits = []
    for _ in range(3):
        now_ms = state.retry_at_ms
        leader.fetch(now_ms)
        waits.append(state.retry_at_ms - now_ms)

    assert waits == sorted(waits)
    assert waits[-1] >= 320
    assert leader.subscription.state(GOOD).refusals == 0
