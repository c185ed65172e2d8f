"""KIP-134: an empty group delays its first generation, longer while more members join."""

import time

import pytest

import kohort
from support.raw.broker_under_test import BrokerUnderTest, settle
from support.waiting import eventually


@pytest.fixture(scope="module")
def patient(request):
    address = request.config.getoption("--broker", default=None)
    if address:
        under_test = BrokerUnderTest(address)
        delay_ms = under_test.config("group.initial.rebalance.delay.ms")
        under_test.close()
        if not 500 <= delay_ms <= 5000:
            pytest.skip(f"the broker's initial delay is {delay_ms} ms; this needs 500 to 5000")
        yield address
        return
    with kohort.Broker({"group.initial.rebalance.delay.ms": 1000}) as broker:
        yield broker.bootstrap


@pytest.fixture
def slow_broker(patient):
    broker = BrokerUnderTest(patient)
    yield broker
    broker.close()


def test_members_within_the_initial_delay_share_the_first_generation(slow_broker):
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben, cal = (slow_broker.member(slow_broker.group()) for _ in range(3))

    started = time.monotonic()
    for member in (ann, ben, cal):
        member.join()
    generations = [member.joined().generation_id for member in (ann, ben, cal)]

    assert generations == [1, 1, 1]
    assert time.monotonic() - started >= delay_s * 0.95
    settle(ann, ben, cal)


def test_initial_delay_is_extended_by_further_joins(slow_broker):
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben = (slow_broker.member(slow_broker.group()) for _ in range(2))

    started = time.monotonic()
    ann.join()
    ben.join()  # a join during the delay extends it
    ann.joined()
    ben.joined()

    assert time.monotonic() - started >= 2 * delay_s * 0.95


def test_initial_delay_never_exceeds_the_rebalance_timeout(slow_broker):
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    group, timeout_ms = slow_broker.group(), int(delay_s * 1500)
    joined_at = [-delay_s]

    def is_over_while_members_come() -> bool:
        if slow_broker.state(group) == "CompletingRebalance":
            return True
        if time.monotonic() - joined_at[-1] >= delay_s / 4:
            joined_at.append(time.monotonic())
            slow_broker.member(group, rebalance_timeout_ms=timeout_ms).join()
        return False

    eventually(is_over_while_members_come, "the delay went on for as long as members came")
