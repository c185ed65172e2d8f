"""Who gives way where many producers are remembered, who is refused, and for how long."""

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
    """What remembers so many producers for a day, and so many partitions."""
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


def test_a_new_room_holds_nobody_and_has_refused_nobody():
    room, _ = room_of(3)
    assert (room.at_most, room.refused, room.is_full) == (0, 0, False)


def test_who_wrote_in_the_last_quarter_of_an_hour_does_not_give_way():
    _, (producers,) = room_of(1)
    write(producers, 1, NOW)

    refused(producers, 2, NOW + QUARTER_MS - 1)
    assert ids(producers) == [1]
    refused(producers, 2, NOW + QUARTER_MS)  # it was looked less than a second ago
    write(producers, 2, NOW + QUARTER_MS + 999)
    assert ids(producers) == [2]


def test_who_was_silent_for_a_quarter_of_an_hour_gives_way():
    _, (producers,) = room_of(1)
    write(producers, 1, NOW)

    write(producers, 2, NOW + QUARTER_MS)

    assert ids(producers) == [2]


def room_that_refused():
    """There was no room for a second producer, and there is again."""
    room, (producers,) = room_of(1)
    write(producers, 1, NOW)
    refused(producers, 2, NOW)
    producers.expire(NOW, 0)
    room.count()
    return room, producers


def test_in_the_minute_after_a_refusal_none_begins_in_the_middle_of_its_sequence():
    room, producers = room_that_refused()

    said = refused(producers, 2, NOW + 59_999, sequence=1)
    assert said.endswith("(kohort.producer.max.ids); retry later")
    assert room.refused == 2
    write(producers, 2, NOW + 60_000, sequence=1)

    assert ids(producers) == [2]


def test_in_the_minute_after_a_refusal_the_first_batch_of_a_producer_is_taken():
    _, producers = room_that_refused()

    write(producers, 2, NOW + 1, sequence=0)

    assert ids(producers) == [2]


def test_those_that_were_silent_for_more_than_half_of_the_time_give_way_before_others_of_whatever_partition():
    """A partition that is looked at first loses nobody who was silent for less than the half of it."""
    _, (first, second) = room_of(8, partitions=2)
    for pid in range(4):
        write(second, pid, NOW - 13 * HOUR_MS + pid)
    for pid in range(4):
        write(first, pid, NOW - 9 * HOUR_MS + pid)

    write(first, 9, NOW)

    assert ids(first) == [0, 1, 2, 3, 9]
    assert ids(second) == [2, 3]


def test_room_is_made_for_an_eighth_of_the_limit_at_once():
    room, (producers,) = room_of(16)
    for pid in range(16):
        write(producers, pid, NOW + pid)

    write(producers, 16, NOW + HOUR_MS)

    assert ids(producers) == list(range(3, 17))
    assert room.at_most == 14


def test_those_that_expire_leave_their_room():
    room, (producers,) = room_of(16)
    for pid in range(4):
        write(producers, pid, NOW + pid * HOUR_MS)

    room.expire(NOW + 25 * HOUR_MS)

    assert ids(producers) == [2, 3]
    assert room.at_most == 2
