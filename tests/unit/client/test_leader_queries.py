"""Requests to partition leaders: one per leader, retried after a back-off, dropped after a seek."""

from __future__ import annotations

import random

import pytest

from kohort.client.reading.context import ConsumerContext, Failures
from kohort.client.reading.resets import LeaderQueries, LeaderQuery
from kohort.client.reading.subscription import FetchState, Position, SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.source import Unsent
from kohort.config.client import ConsumerConfig
from kohort.model import TopicPartition
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from support.machines.consumer_stage import tp

T0, T1, T2 = tp("t-0"), tp("t-1"), tp("t-2")


class Asker:
    def __init__(self, *leaders: int) -> None:
        rng, config, notes = random.Random(1), ConsumerConfig(bootstrap_servers=["one:9092"]), Notes()
        self.metadata = Metadata(config, rng)
        self.subscription = SubscriptionState(self.metadata)
        self.subscription.assign([T0, T1, T2])
        self.lead(*leaders)
        for state in self.subscription.assigned.values():
            state.await_reset("earliest")
        failures, outages = Failures(self.subscription), Outages(notes)
        context = ConsumerContext(config, self.subscription, self.metadata, failures, notes, outages, rng)
        self.questions = LeaderQueries(FetchState.AWAIT_RESET, context)
        self.sent: list[Unsent] = []

    def lead(self, *leaders: int) -> None:
        (sent,) = self.metadata.poll(10_000_000).unsent
        partitions = [
            MetadataResponsePartition(partition_index=i, leader_id=leader) for i, leader in enumerate(leaders)
        ]
        brokers = [MetadataResponseBroker(node_id=n, host=f"node{n}", port=9092) for n in (1, 2)]
        topics = [MetadataResponseTopic(name="t", partitions=partitions)]
        self.metadata.on_response(sent, MetadataResponse(brokers=brokers, topics=topics), 0)

    def asks(self, now_ms: int) -> dict[int, list[TopicPartition]]:
        self.sent = list(self.questions.poll(now_ms, self._build).unsent)
        return {sent.node_id: [q.partition for q in sent.context] for sent in self.sent}

    def _build(self, node_id: int, queries: list[LeaderQuery]) -> Unsent:
        return Unsent(node_id, MetadataRequest(), 1000, context=queries)


@pytest.fixture
def asker() -> Asker:
    return Asker(1, 2, 1)


def test_each_partition_leader_gets_one_request(asker: Asker):
    assert asker.asks(0) == {1: [T0, T2], 2: [T1]}
    assert asker.asks(0) == {}, "both queries are in flight"


def test_failed_request_to_partition_leader_is_repeated_after_back_off(asker: Asker):
    asker.asks(0)
    first, _ = asker.sent
    for question in asker.questions.ended(first):
        asker.questions.retry_later(question.state, 0)

    assert asker.asks(79) == {}
    assert asker.questions.poll(79, asker._build).wake_at_ms is not None
    assert asker.asks(1200) == {1: [T0, T2]}


def test_back_off_of_requests_to_partition_leaders_grows_until_success(asker: Asker):
    state = asker.subscription.state(T0)
    waits = []
    for _ in range(3):
        now_ms = state.retry_at_ms
        asker.questions.retry_later(state, now_ms)
        waits.append(state.retry_at_ms - now_ms)
    assert waits == sorted(waits)
    assert waits[-1] >= 320

    asker.questions.succeeded()
    asker.questions.retry_later(state, 5_000)
    assert state.retry_at_ms <= 5_120


def test_failures_of_requests_to_partition_leaders_within_one_back_off_count_once(asker: Asker):
    asker.asks(0)
    for sent in asker.sent:
        for question in asker.questions.ended(sent):
            asker.questions.retry_later(question.state, 0)

    (retry_at_ms,) = {state.retry_at_ms for state in asker.subscription.assigned.values()}

    assert retry_at_ms <= 120
    assert asker.asks(retry_at_ms) == {1: [T0, T2], 2: [T1]}


def test_response_of_partition_leader_is_ignored_if_position_has_moved(asker: Asker):
    asker.asks(0)
    first, _ = asker.sent
    asker.subscription.seek(T0, Position(5))

    assert [q.partition for q in asker.questions.ended(first)] == [T2]


def test_leader_query_omits_partition_in_another_fetch_state(asker: Asker):
    asker.subscription.seek(T0, Position(5, 3))
    assert asker.subscription.state(T0).state is FetchState.AWAIT_VALIDATION

    assert asker.asks(0) == {1: [T2], 2: [T1]}


def test_request_for_leaderless_partition_is_sent_when_metadata_name_its_leader():
    asker = Asker(1, -1, 1)

    assert asker.asks(0) == {1: [T0, T2]}
    assert asker.metadata.refresh_pending
    asker.lead(1, 2, 1)
    assert asker.asks(0) == {2: [T1]}
