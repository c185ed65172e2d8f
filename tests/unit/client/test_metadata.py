"""Metadata of a client: requests, accepted and ignored responses."""

from __future__ import annotations

import random

import pytest

from kohort.client.requests.channels import Addresses
from kohort.client.requests.metadata import Metadata
from kohort.config.client import AdminConfig
from kohort.errors import ConnectionFailed, ErrorCode, UnsupportedVersion
from kohort.model import NO_UUID, Node, TopicPartition
from kohort.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

T0 = TopicPartition("t", 0)
ID = b"i" * 16


@pytest.fixture
def metadata() -> Metadata:
    config = AdminConfig(bootstrap_servers=["one:9092"], retry_backoff_ms=100, metadata_max_age_ms=300_000)
    return Metadata(config, random.Random(2))


def topic(name="t", *, epoch=1, leader=1, topic_id=ID, code=0, partition_code=0, partitions=1):
    parts = [
        MetadataResponsePartition(
            partition_index=n, leader_id=leader, leader_epoch=epoch, error_code=partition_code, isr_nodes=[1]
        )
        for n in range(partitions)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=code, partitions=[] if code else parts)


def response(*topics):
    brokers = [MetadataResponseBroker(node_id=1, host="one", port=9092, rack="r1")]
    return MetadataResponse(cluster_id="c", controller_id=1, brokers=brokers, topics=list(topics))


def next_unsent(metadata, now_ms):
    unsent = metadata.poll(now_ms).unsent
    return unsent[0] if unsent else None


def answer(metadata, now_ms, *topics):
    unsent = next_unsent(metadata, now_ms)
    assert unsent is not None, "no Metadata request was sent"
    metadata.on_response(unsent, response(*topics), now_ms)
    return unsent.request


def test_metadata_request_is_not_sent_before_topic_is_tracked(metadata):
    assert next_unsent(metadata, 0) is None
    assert metadata.poll(0).wake_at_ms is None


def test_tracked_topics_are_requested_at_once(metadata):
    metadata.track(["t"])

    request = answer(metadata, 0, topic(partitions=3))

    assert [t.name for t in request.topics] == ["t"]
    assert metadata.leader(T0) == (1, 1)
    assert metadata.partition_count("t") == 3
    assert (metadata.topic_id("t"), metadata.topic_name(ID)) == (ID, "t")
    assert metadata.nodes == [Node(1, "one", 9092, "r1")]
    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    assert not metadata.refresh_pending


def test_metadata_request_for_new_topic_skips_back_off(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic())

    metadata.add_topic("u")

    assert [t.name for t in answer(metadata, 1, topic(), topic("u", topic_id=b"u" * 16)).topics] == ["t", "u"]


def test_second_metadata_request_waits_for_back_off(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic())
    metadata.request_refresh()

    assert next_unsent(metadata, 10) is None
    wake = metadata.poll(10).wake_at_ms
    assert wake is not None
    assert 80 <= wake <= 120
    assert next_unsent(metadata, wake) is not None


def test_metadata_requests_are_sent_one_at_a_time(metadata):
    metadata.track(["t"])
    assert next_unsent(metadata, 0) is not None

    metadata.request_refresh()

    assert next_unsent(metadata, 10_000) is None


def test_metadata_older_than_maximum_age_are_requested_again(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic())

    assert metadata.poll(1000).wake_at_ms == 300_000
    assert next_unsent(metadata, 300_000) is not None


def test_failed_metadata_requests_lengthen_back_off_and_keep_last_error(metadata):
    metadata.track(["t"])
    now, waits = 0, []
    for _ in range(5):
        unsent = next_unsent(metadata, now)
        metadata.on_failure(unsent, ConnectionFailed("nobody"), now)
        wake = metadata.poll(now).wake_at_ms
        waits.append(wake - now)
        now = wake

    for wait, ideal in zip(waits, [100, 200, 400, 800, 1000], strict=True):
        assert 0.8 * ideal <= wait <= 1.2 * ideal
    assert str(metadata.last_failure) == "nobody"
    answer(metadata, now, topic())
    assert metadata.last_failure is None


def test_unknown_topic_has_error_and_is_requested_again(metadata):
    metadata.track(["t", "u"])

    answer(metadata, 0, topic(), topic("u", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    assert metadata.error("u") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert metadata.topics() == {"t"}
    assert next_unsent(metadata, metadata.poll(0).wake_at_ms) is not None


def test_denied_topic_is_not_requested_again(metadata):
    metadata.track(["t"])

    answer(metadata, 0, topic(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    assert metadata.error("t") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert metadata.poll(0).wake_at_ms == 300_000


def test_leaderless_partition_is_requested_again(metadata):
    metadata.track(["t"])

    answer(metadata, 0, topic(partition_code=ErrorCode.LEADER_NOT_AVAILABLE, leader=-1))

    assert metadata.leader(T0) is None
    assert metadata.partition_count("t") == 1
    assert metadata.poll(0).wake_at_ms < 1000


def test_leader_epoch_never_decreases(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic(epoch=7, leader=2))

    metadata.request_refresh()
    answer(metadata, 1000, topic(epoch=6, leader=1))

    assert metadata.leader(T0) == (2, 7)


def test_recreated_topic_accepts_lower_leader_epochs(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic(epoch=7, leader=2))

    metadata.request_refresh()
    answer(metadata, 1000, topic(epoch=0, leader=1, topic_id=b"j" * 16))

    assert metadata.leader(T0) == (1, 0)
    assert metadata.topic_name(ID) is None


def test_metadata_response_without_leader_epochs_is_accepted(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic(epoch=-1, leader=2, topic_id=NO_UUID))
    metadata.request_refresh()
    answer(metadata, 1000, topic(epoch=-1, leader=1, topic_id=NO_UUID))

    assert metadata.leader(T0) == (1, -1)
    assert metadata.topic_id("t") is None


def test_newer_leader_hint_moves_the_leader(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic(epoch=3))
    before = metadata.version

    assert metadata.update_leader(T0, 5, 4, [Node(5, "five", 9092)])
    assert not metadata.update_leader(T0, 1, 4)
    assert not metadata.update_leader(T0, 77, 9), "the address of node 77 is unknown"

    assert metadata.leader(T0) == (5, 4)
    assert metadata.node(5) == Node(5, "five", 9092)
    assert metadata.version == before + 1


def test_metadata_of_all_topics_can_be_tracked(metadata):
    metadata.track_all()

    request = answer(metadata, 0, topic(), topic("u", topic_id=b"u" * 16))

    assert request.topics is None
    assert metadata.topics() == {"t", "u"}


def test_untracked_topics_are_dropped_at_next_metadata_response(metadata):
    metadata.track(["t", "u"])
    answer(metadata, 0, topic(), topic("u", topic_id=b"u" * 16))

    metadata.track(["u"])
    metadata.request_refresh()
    answer(metadata, 1000, topic("u", topic_id=b"u" * 16))

    assert metadata.topics() == {"u"}


def test_response_with_rebootstrap_required_error_changes_no_metadata(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic())
    metadata.request_refresh()
    unsent = next_unsent(metadata, 1000)

    metadata.on_response(unsent, MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED), 1000)

    assert metadata.leader(T0) == (1, 1)
    assert metadata.poll(1000).wake_at_ms is not None
    assert metadata.take_rebootstrap(), "the engine must use the bootstrap addresses"
    assert not metadata.take_rebootstrap(), "REBOOTSTRAP_REQUIRED is reported once"


def test_topics_are_requested_by_id_until_names_are_known(metadata):
    metadata.track_ids([ID])
    request = answer(metadata, 0)

    assert [(t.name, t.topic_id) for t in request.topics] == [(None, ID)]
    assert metadata.topic_name(ID) is None
    assert answer(metadata, 1000, topic()).topics == request.topics, (
        "the request has the id until the response names the topic"
    )
    assert metadata.topic_name(ID) == "t"
    assert next_unsent(metadata, 2000) is None
    metadata.track(["t"])
    assert [t.name for t in next_unsent(metadata, 2000).request.topics] == ["t"]


def test_negative_node_ids_are_reserved_for_bootstrap_addresses(metadata):
    metadata.track(["t"])
    unsent = next_unsent(metadata, 0)
    brokers = [MetadataResponseBroker(node_id=n, host="two", port=9092) for n in (1, -1, -2, -5)]
    metadata.on_response(unsent, MetadataResponse(cluster_id="c", brokers=brokers, topics=[topic()]), 0)
    metadata.learn_node(Node(-7, "three", 9092))

    addresses = Addresses([("one", 9092)], metadata)

    assert addresses.candidates() == [1, -2]
    assert [addresses.of(n) for n in (1, -2, -3, -5, -7)] == [("two", 9092), ("one", 9092), None, None, None]


def test_request_by_topic_id_is_not_sent_to_old_broker(metadata):
    metadata.track_ids([ID])
    unsent = next_unsent(metadata, 0)

    with pytest.raises(UnsupportedVersion, match="topic ids need version 12"):
        unsent.shape(unsent.request, 11)
    assert unsent.shape(unsent.request, 12) is unsent.request


def test_deleted_topic_counts_as_missing_only_after_a_request_for_it(metadata):
    metadata.track(["t"])
    answer(metadata, 0, topic())
    assert not metadata.lacks(T0, ID)
    assert not metadata.lacks(TopicPartition("u", 0)), "the request did not contain topic u"
    metadata.request_refresh()

    answer(metadata, 1_000, topic(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    assert metadata.lacks(T0)
    metadata.track_ids([ID])
    answer(metadata, 2_000)
    assert metadata.lacks(T0, ID)
    assert not metadata.lacks(T0, b"u" * 16)


def test_denied_or_leaderless_topic_does_not_count_as_missing(metadata):
    metadata.track(["t", "u"])
    denied = topic("u", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer(metadata, 0, topic(leader=-1), denied)

    assert not metadata.lacks(T0, ID)
    assert not metadata.lacks(TopicPartition("u", 0))


def test_earlier_topic_id_and_partition_out_of_range_count_as_missing(metadata):
    metadata.track_all()
    answer(metadata, 0, topic(topic_id=b"n" * 16))

    assert metadata.lacks(T0, ID)
    assert not metadata.lacks(T0, b"n" * 16)
    assert metadata.lacks(TopicPartition("t", 1))
    assert metadata.lacks(TopicPartition("u", 0))
