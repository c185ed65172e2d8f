"""Position errors: the next poll raises them, unless a seek or an assignment drops them."""

import random

import pytest

from kohort.client.consumer import ConsumerMachine
from kohort.client.reading.subscription import Position
from kohort.client.requests.io import Tick
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode, NoOffsetForPartition
from kohort.model import TopicPartition

ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_000


@pytest.fixture
def machine():
    config = ConsumerConfig(bootstrap_servers=["one:9092"], auto_offset_reset="none")
    made = ConsumerMachine(config, random.Random(1))
    made.assign([ORDERS])
    made.engine.handle(Tick(), NOW_MS)  # the I/O thread may run between any two calls of the user
    return made


def test_error_of_missing_start_position_is_raised_once(machine):
    with pytest.raises(NoOffsetForPartition, match="orders-0"):
        machine.raise_failure()
    machine.engine.handle(Tick(), NOW_MS)
    machine.raise_failure()


def test_error_of_partition_is_dropped_after_seek(machine):
    machine.subscription.state(ORDERS).seek(Position(7))

    machine.raise_failure()
    assert not machine.needs_user


def test_error_of_revoked_partition_is_dropped(machine):
    machine.assign([TopicPartition("payments", 0)])

    machine.raise_failure()


def test_error_of_reassigned_partition_is_dropped(machine):
    machine.assign([])
    machine.assign([ORDERS])
    machine.subscription.state(ORDERS).seek(Position(7))

    machine.raise_failure()


def test_error_that_concerns_no_partition_is_raised_after_seek(machine):
    machine.subscription.state(ORDERS).seek(Position(7))
    machine.failures.append(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "g"))

    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
        machine.raise_failure()
