from __future__ import annotations

from collections.abc import Iterator

import pytest

import kohort
from kohort import TopicPartition
from kohort.insight.lag import lag_of
from kohort.watch import sampling
from kohort.watch.sampling import SamplingLimits, sample_groups

PARTITIONS = 3
LIMITS = SamplingLimits(append_ms=30_000)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[kohort.Admin]:
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(30):
            producer.send(topic, b"v", partition=number % 3, timestamp_ms=1000 + number // 3)
        producer.flush()
    return topic


def parts_of(sample, group):
    (found,) = [s for s in sample.groups if s.group == group]
    return {p.partition.partition: p for p in found.partitions}


def test_sample_of_a_group_without_members(admin, filled, name) -> None:
    admin.alter_group_offsets(name, {TopicPartition(filled, 0): 4, TopicPartition(filled, 1): 10})

    sample = sample_groups(admin, [name], LIMITS)

    (found,) = sample.groups
    parts = parts_of(sample, name)
    assert (found.state, found.protocol, found.members, set(parts)) == ("Empty", "classic", (), {0, 1})
    assert (parts[0].committed, parts[0].log_start, parts[0].last_stable, parts[0].log_end) == (4, 0, 10, 10)
    assert (parts[0].committed_record_at_ms, parts[0].waiting) == (1004, True)
    assert (parts[1].committed_record_at_ms, parts[1].waiting) == (None, None)
    assert sample.unknown_waits == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_sample_of_a_member_has_all_subscribed_partitions(admin, bootstrap, filled, name, protocol) -> None:
    options = {"group.id": name, "client.id": "reader", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with kohort.Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **options}) as consumer:
        consumer.subscribe([filled])
        read = 0
        while read < 30:
            read += len(consumer.poll(200))
        consumer.commit({TopicPartition(filled, 2): kohort.OffsetAndMetadata(7, "note")})

        sample = sample_groups(admin, [name], LIMITS)

    (found,) = sample.groups
    (member,) = found.members
    parts = parts_of(sample, name)
    assert (found.state, found.protocol, found.partition_counts) == ("Stable", protocol, {filled: 3})
    assert (member.client_id, len(member.assignment), member.topics) == ("reader", 3, (filled,))
    assert [(n, p.committed, p.metadata) for n, p in parts.items()] == [(0, None, ""), (1, None, ""), (2, 7, "note")]
    assert parts[2].committed_record_at_ms == 1007
    lag = lag_of([found])
    assert (lag.total.records, lag.total.unknown, lag.total.time_complete) == (3, 2, False)
    assert [one.unknown for one in lag.partitions] == ["never committed", "never committed", None]


def test_transaction_marker_after_the_commit_is_no_lag(admin, bootstrap, topic, name) -> None:
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as writer:
        writer.init_transactions()
        with writer.transaction():
            writer.send(topic, b"v", partition=0, timestamp_ms=1000)
        admin.alter_group_offsets(name, {TopicPartition(topic, 0): 1})
        (found,) = sample_groups(admin, [name], LIMITS).groups

        (part,) = found.partitions
        assert (part.committed, part.log_end, part.waiting) == (1, 2, False)
        assert (lag_of([found]).total.time_ms, lag_of([found]).blame) == (0, "none")

        writer.begin_transaction()
        writer.send(topic, b"v", partition=0, timestamp_ms=2000)
        writer.flush()
        (found,) = sample_groups(admin, [name], LIMITS).groups

        (part,) = found.partitions
        assert (part.last_stable, part.log_end, part.waiting) == (2, 3, False)
        assert lag_of([found]).blame == "open_transaction"
        writer.abort_transaction()


def test_records_of_an_open_transaction_have_a_timestamp(admin, bootstrap, topic, name) -> None:
    admin.alter_group_offsets(name, {TopicPartition(topic, 0): 0})
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send(topic, b"v", partition=0, timestamp_ms=2000)
        writer.flush()

        (found,) = sample_groups(admin, [name], LIMITS).groups

        (part,) = found.partitions
        assert (part.last_stable, part.log_end, part.committed_record_at_ms, part.waiting) == (0, 1, 2000, True)
        writer.abort_transaction()


def test_deleted_unread_records_do_not_hide_the_remaining_lag(admin, filled, name) -> None:
    admin.alter_group_offsets(name, {TopicPartition(filled, 0): 2})
    admin.delete_records({TopicPartition(filled, 0): 5})

    (part,) = sample_groups(admin, [name], LIMITS).groups[0].partitions

    assert (part.log_start, part.committed_record_at_ms) == (5, 1005)


def test_sample_limits_apply_and_count_skipped_partitions(admin, filled, name) -> None:
    admin.alter_group_offsets(name, {TopicPartition(filled, 0): 9, TopicPartition(filled, 1): 0})

    one = sample_groups(admin, [name], SamplingLimits(append_times=1, append_ms=30_000))
    none = sample_groups(admin, [name], SamplingLimits(append_ms=0))

    parts = parts_of(one, name)
    assert (parts[0].committed_record_at_ms, parts[1].committed_record_at_ms, one.unknown_waits) == (None, 1000, 1)
    assert none.unknown_waits == 2


def test_log_ends_are_queried_in_pieces(admin, filled, name, monkeypatch) -> None:
    admin.alter_group_offsets(name, {TopicPartition(filled, n): n for n in range(3)})
    monkeypatch.setattr(sampling, "ENDS_AT_ONCE", 2)
    places: dict[TopicPartition, TopicPartition] = {}

    first = parts_of(sample_groups(admin, [name], LIMITS, places), name)
    second = parts_of(sample_groups(admin, [name], LIMITS, places), name)

    assert [(one.log_start, one.log_end) for one in first.values()] == [(0, 10)] * 3
    assert all(second[n].partition is first[n].partition for n in first)


def test_sample_reports_missing_groups_separately(admin, filled, name) -> None:
    admin.alter_group_offsets(name, {TopicPartition(filled, 0): 9})

    sample = sample_groups(admin, [f"{name}-none", name, name], LIMITS)

    assert [s.group for s in sample.groups] == [name]
    assert list(sample.errors) == [f"{name}-none"]
    assert sample_groups(admin, [], LIMITS).groups == []


def test_sample_of_a_member_with_a_subscription_pattern_has_matched_topics(admin, bootstrap, filled, name) -> None:
    other = f"other-{name}"
    admin.alter_group_offsets(name, {TopicPartition(filled, 0): 4})
    options = {"group.id": name, "group.protocol": "consumer"}
    with kohort.Consumer({"bootstrap.servers": bootstrap, **options}) as consumer:
        consumer.subscribe(kohort.SubscriptionPattern(f"{filled[:-1]}."))
        while not consumer.assignment():
            consumer.poll(100)
        admin.create_topics({other: 1})

        (found,) = sample_groups(admin, [name], LIMITS).groups

    assert [(m.topics, m.matched) for m in found.members] == [((), (filled,))]
    assert found.partition_counts == {filled: PARTITIONS}
    admin.delete_topics([other])
