"""Limit of producers: expiry of idle ones, rejection of new ones."""

import pytest

from kohort.config import BrokerConfig
from kohort.errors import ApiError
from kohort.log.producers import ProducerRoom, Producers
from kohort.wire.record_batch import parse_batch_header
from support.machines.log_stage import batch

HOUR_MS = 3_600_000
QUARTER_MS = 900_000
NOW = 1_700_000_000_000


def room_of(most, partitions=1):
    config = BrokerConfig(kohort_producer_max_ids=most, producer_id_expiration_ms=24 * HOUR_MS)
    logs = [Producers() for _ in range(partitions)]
    room = ProducerRoom(config, lambda: logs)
    for producers in logs:
        producers.room = room
    return room, logs


def write(producers, pid, now_ms, sequence=0):
    header = parse_batch_header(batch(producer_id=pid, producer_epoch=0, base_sequence=sequence))
    producers.check(header, now_ms)
    producers.record(header, pid, now_ms, now_ms)


def refused(producers, pid, now_ms, sequence=0):
    with pytest.raises(ApiError) as error:
        write(producers, pid, now_ms, sequence)
    return str(error.value)


def ids(producers):
    return [pid for pid, _ in producers]


def test_new_producer_limit_counts_zero():
    room, _ = room_of(3)
    assert (room.at_most, room.refused, room.is_full) == (0, 0, False)


def test_recent_producer_is_not_expired_by_limit():
    _, (producers,) = room_of(1)
    write(producers, 1, NOW)

    refused(producers, 2, NOW + QUARTER_MS - 1)
    assert ids(producers) == [1]
    refused(producers, 2, NOW + QUARTER_MS)  # the last recount was less than a second ago
    write(producers, 2, NOW + QUARTER_MS + 999)
    assert ids(producers) == [2]


def test_producer_idle_for_15_minutes_is_expired_by_limit():
    _, (producers,) = room_of(1)
    write(producers, 1, NOW)

    write(producers, 2, NOW + QUARTER_MS)

    assert ids(producers) == [2]


def room_that_refused():
    room, (producers,) = room_of(1)
    write(producers, 1, NOW)
    refused(producers, 2, NOW)
    producers.expire(NOW, 0)
    room.count()
    return room, producers


def test_after_rejection_new_producer_must_start_at_sequence_0():
    room, producers = room_that_refused()

    message = refused(producers, 2, NOW + 59_999, sequence=1)
    assert message.endswith("(kohort.producer.max.ids); retry later")
    assert room.refused == 2
    write(producers, 2, NOW + 60_000, sequence=1)

    assert ids(producers) == [2]


def test_after_rejection_first_batch_is_accepted():
    _, producers = room_that_refused()

    write(producers, 2, NOW + 1, sequence=0)

    assert ids(producers) == [2]


def test_limit_expires_longest_idle_over_partitions():
    _, (first, second) = room_of(8, partitions=2)
    for pid in range(4):
        write(second, pid, NOW - 13 * HOUR_MS + pid)
    for pid in range(4):
        write(first, pid, NOW - 9 * HOUR_MS + pid)

    write(first, 9, NOW)

    assert ids(first) == [0, 1, 2, 3, 9]
    assert ids(second) == [2, 3]


def test_limit_frees_an_eighth_at_once():
    room, (producers,) = room_of(16)
    for pid in range(16):
        write(producers, pid, NOW + pid)

    write(producers, 16, NOW + HOUR_MS)

    assert ids(producers) == list(range(3, 17))
    assert room.at_most == 14


def test_expired_producers_lower_the_count():
    room, (producers,) = room_of(16)
    for pid in range(4):
        write(producers, pid, NOW + pid * HOUR_MS)

    room.expire(NOW + 25 * HOUR_MS)

    assert ids(producers) == [2, 3]
    assert room.at_most == 2
