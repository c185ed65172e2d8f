"""Memory limit of transactional ids."""

import pytest

from kohort.broker.cluster.transactions import CHECK_EVERY_MS, ID_BYTES, UNUSED_MS
from kohort.errors import ErrorCode
from support.machines.broker_stage import BrokerStage
from support.raw.transactional import Transactional, committed_values

REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def stage():
    return BrokerStage(transaction_coordinator_max_bytes=20 * ID_BYTES, connections_max_idle_ms=-1)


@pytest.fixture
def peer(stage):
    peer = stage.connect()
    peer.create("orders")
    return peer


def attack(peer, count=60, name="stranger"):
    return [Transactional(peer, f"{name}{i}").init() for i in range(count)]


def test_new_transactional_ids_above_the_memory_limit_are_rejected(stage, peer):
    producer = Transactional(peer, "mine")
    assert producer.init() == 0

    assert attack(peer) == [0] * 19 + [REFUSED] * 41

    producer.send("orders", b"paid")
    assert producer.end(commit=True) == 0
    assert committed_values(peer, "orders") == [b"paid"]
    assert producer.init() == 0
    room = stage.broker.state.cluster.transactions.room
    assert (room.used, room.refused) == (20 * ID_BYTES, 41)
    assert any("transaction.coordinator.max.bytes" in line for line in stage.log_lines())


def test_memory_of_long_transactional_ids_counts_their_bytes(peer):
    codes = attack(peer, name="x" * 325)

    assert codes.index(REFUSED) == 3


def test_existing_transactional_id_may_add_partitions_up_to_twice_the_limit():
    peer = BrokerStage(transaction_coordinator_max_bytes=4 * ID_BYTES).connect()
    peer.create("orders", 20)
    peer.create("payments", 20)
    producer = Transactional(peer, "mine")
    assert producer.init() == 0
    assert attack(peer, 4) == [0, 0, 0, REFUSED]
    assert producer.add("orders", *range(20)) == 0

    assert producer.add("payments", *range(20)) == REFUSED

    assert producer.write("orders", b"paid").error_code == 0
    assert producer.end(commit=True) == 0


@pytest.mark.heavy
def test_transactional_ids_unused_for_a_day_expire_in_order_of_their_last_use(stage, peer):
    attack(peer, 10, "old")
    stage.advance(CHECK_EVERY_MS)
    attack(peer, 10, "younger")
    stage.advance(UNUSED_MS)
    mine = Transactional(peer, "younger0")
    assert mine.init() == 0

    assert Transactional(peer, "new").init() == 0

    transactional_ids = {one.transactional_id for one in stage.broker.state.cluster.transactions._by_id.values()}
    assert {"new", *(f"younger{i}" for i in range(10))} <= transactional_ids
    assert "old0" not in transactional_ids


def test_memory_of_transactional_ids_is_counted_after_a_restart(stage, peer):
    attack(peer, 20)
    stage.restart()

    assert Transactional(stage.connect(), "new").init() == REFUSED


def test_no_transactional_id_is_rejected_without_a_limit():
    assert set(attack(BrokerStage(transaction_coordinator_max_bytes=-1).connect())) == {0}
