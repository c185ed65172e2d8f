"""KIP-211: offsets expire by their own or the broker's retention; a group expires with its last offset."""

import time

import pytest

import kohort
from support.raw.broker_under_test import BrokerUnderTest
from support.waiting import eventually

SWEEP_MS = 200


@pytest.fixture(scope="module")
def forgetful(request):
    address = request.config.getoption("--broker", default=None)
    if address:
        under_test = BrokerUnderTest(address)
        sweep_ms = under_test.config("offsets.retention.check.interval.ms")
        under_test.close()
        if sweep_ms > 3000:
            pytest.skip(f"the broker looks for expired offsets every {sweep_ms} ms only")
        yield address
        return
    with kohort.Broker({"offsets.retention.check.interval.ms": SWEEP_MS}) as broker:
        yield broker.bootstrap


@pytest.fixture
def forgetful_broker(forgetful):
    broker = BrokerUnderTest(forgetful)
    yield broker
    broker.close()


@pytest.mark.parametrize("version", [2, 3, 4])
def test_commit_of_an_old_version_has_its_own_retention(forgetful_broker, version):
    group, topic = forgetful_broker.group(), forgetful_broker.topic()
    started = time.monotonic()
    assert forgetful_broker.commit(group, topic, {0: 7}, version=version, retention_time_ms=1000) == [0]
    assert forgetful_broker.commit(group, topic, {1: 8}, version=version) == [0]

    eventually(lambda: forgetful_broker.committed(group, topic, [0, 1]) == [-1, 8], "the offset did not expire")

    assert time.monotonic() - started >= 0.9
    assert forgetful_broker.state(group) == "Empty"


def test_group_with_offsets_only_expires_with_its_last_offset(forgetful_broker):
    group, topic = forgetful_broker.group(), forgetful_broker.topic()
    forgetful_broker.commit(group, topic, {0: 7}, version=2, retention_time_ms=1)

    eventually(lambda: forgetful_broker.state(group) == "Dead", "the group did not go")

    assert group not in forgetful_broker.listed()


def test_empty_group_without_offsets_expires(forgetful_broker):
    ann, ben = (forgetful_broker.member(forgetful_broker.group(name)) for name in ("a", "b"))
    forgetful_broker.stable(ann)
    forgetful_broker.stable(ben)

    ben.leave()

    eventually(lambda: forgetful_broker.state(ben.group) == "Dead", "the group did not go")
    assert ann.heartbeat() == 0


def test_offsets_of_a_stable_group_expire_by_their_own_retention(forgetful_broker):
    group, topic = forgetful_broker.group(), forgetful_broker.topic()
    ann = forgetful_broker.member(group, topic)
    forgetful_broker.stable(ann)
    ann.commit(topic, {0: 1}, version=4, retention_time_ms=1, group_instance_id=None)

    eventually(lambda: forgetful_broker.committed(group, topic, [0]) == [-1], "the offset did not expire")

    assert ann.heartbeat() == 0
