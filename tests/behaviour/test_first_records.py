from __future__ import annotations

from collections.abc import Iterator

import pytest

import kohort
from kohort import ApiError, ErrorCode, TopicPartition
from kohort.client.admin.model import FirstRecord, LogEnds, PartitionOffset

PARTITIONS = 3


@pytest.fixture
def admin(bootstrap: str) -> Iterator[kohort.Admin]:
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def producer(bootstrap: str) -> Iterator[kohort.Producer]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        yield producer


def produced(producer: kohort.Producer, topic: str, *times: int, value: bytes = b"v", partition: int = 0) -> None:
    for at in times:
        producer.send(topic, value, partition=partition, timestamp_ms=at)
        producer.flush()


def first_of(admin: kohort.Admin, tp: TopicPartition, offset: int, level: str = "read_committed") -> FirstRecord | None:
    return admin.first_records([PartitionOffset(tp, offset)], isolation_level=level)[PartitionOffset(tp, offset)]


def test_record_timestamps_are_returned_with_their_records(admin, producer, topic) -> None:
    produced(producer, topic, 1000, 2000, 3000)
    produced(producer, topic, 7000, partition=1)
    zero, one, two = (TopicPartition(topic, number) for number in range(PARTITIONS))
    places = [
        PartitionOffset(zero, 0),
        PartitionOffset(zero, 2),
        PartitionOffset(zero, 3),
        PartitionOffset(one, 0),
        PartitionOffset(two, 0),
    ]

    found = admin.first_records(places)

    assert [found[place] for place in places] == [
        FirstRecord(0, 1000),
        FirstRecord(2, 3000),
        None,
        FirstRecord(0, 7000),
        None,
    ]


def test_place_inside_a_batch_is_found_by_record(admin, bootstrap, topic) -> None:
    with kohort.Producer(bootstrap_servers=bootstrap, linger_ms=1000, compression_type="gzip") as producer:
        for at in range(100):
            producer.send(topic, b"v", partition=0, timestamp_ms=1000 + at)
        producer.flush()

    assert first_of(admin, TopicPartition(topic, 0), 57) == FirstRecord(57, 1057)


def test_batch_above_the_shared_fetch_size_is_fetched_alone(admin, producer, topic) -> None:
    places = [PartitionOffset(TopicPartition(topic, number), 1) for number in range(PARTITIONS)]
    for number in range(PARTITIONS):
        produced(producer, topic, 1000, partition=number)
        produced(producer, topic, 2000 + number, value=b"v" * 200_000, partition=number)

    found = admin.first_records(places)

    assert [found[place] for place in places] == [FirstRecord(1, 2000 + number) for number in range(PARTITIONS)]


def test_aborted_records_and_markers_are_skipped(admin, bootstrap, producer, topic, name) -> None:
    tp = TopicPartition(topic, 0)
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as writer:
        writer.init_transactions()
        writer.begin_transaction()
        writer.send(topic, b"gone", partition=0, timestamp_ms=1000)
        writer.flush()
        writer.abort_transaction()
        with writer.transaction():
            writer.send(topic, b"kept", partition=0, timestamp_ms=2000)

    assert first_of(admin, tp, 0) == FirstRecord(2, 2000)
    assert first_of(admin, tp, 0, "read_uncommitted") == FirstRecord(0, 1000)
    assert admin.list_ends([tp])[tp] == LogEnds(0, 4, 4)
    assert first_of(admin, tp, 3) is None  # a commit marker


def test_records_of_an_open_transaction_need_read_uncommitted(admin, bootstrap, producer, topic, name) -> None:
    tp = TopicPartition(topic, 0)
    produced(producer, topic, 500)
    with kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as writer:
        writer.init_transactions()
        with writer.transaction():
            writer.send(topic, b"open", partition=0, timestamp_ms=1000)
            writer.flush()
            assert admin.list_ends([tp])[tp] == LogEnds(0, 1, 2)
            assert first_of(admin, tp, 1) is None
            assert first_of(admin, tp, 1, "read_uncommitted") == FirstRecord(1, 1000)


def test_place_outside_of_the_log_fails_alone(admin, producer, topic) -> None:
    produced(producer, topic, 1000, 2000)
    tp, beyond, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{topic}-none", 0)
    admin.delete_records({tp: 1})

    found = admin.first_records(
        [PartitionOffset(tp, 0), PartitionOffset(tp, 1), PartitionOffset(beyond, 9), PartitionOffset(missing, 0)]
    )

    assert found[PartitionOffset(tp, 1)] == FirstRecord(1, 2000)
    codes = {place: error.code for place, error in found.errors.items() if isinstance(error, ApiError)}
    assert codes == {
        PartitionOffset(tp, 0): ErrorCode.OFFSET_OUT_OF_RANGE,
        PartitionOffset(beyond, 9): ErrorCode.OFFSET_OUT_OF_RANGE,
        PartitionOffset(missing, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_many_places_of_one_partition_get_their_own_results(admin, producer, topic) -> None:
    produced(producer, topic, *range(1000, 1040))
    tp = TopicPartition(topic, 0)

    found = admin.first_records([PartitionOffset(tp, offset) for offset in range(40)])

    assert [found[PartitionOffset(tp, offset)] for offset in range(40)] == [FirstRecord(n, 1000 + n) for n in range(40)]


def test_list_offsets_of_many_groups_in_one_call(admin, producer, topic, name) -> None:
    produced(producer, topic, 1000, 2000)
    tp = TopicPartition(topic, 0)
    names = [f"{name}-{number}" for number in range(30)]
    for number, group in enumerate(names):
        admin.alter_group_offsets(group, {tp: number})

    found = admin.list_offsets_of_groups([*names, f"{name}-none"])

    assert [at.offset for group in names if (at := found[group][tp]) is not None] == list(range(30))
    assert dict(found[f"{name}-none"]) == {}
