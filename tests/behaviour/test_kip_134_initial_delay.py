"""KIP-134: an empty group waits a moment for more members before its first generation, and longer while they come."""

import time

import pytest

import kohort
from support.raw.broker_under_test import BrokerUnderTest, settle
from support.waiting import eventually


@pytest.fixture(scope="module")
def patient(request):
    """A broker whose initial delay is a second."""
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


def test_members_that_come_within_the_delay_share_the_first_generation(slow_broker):
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben, cal = (slow_broker.member(slow_broker.group()) for _ in range(3))

    started = time.monotonic()
    for member in (ann, ben, cal):
        member.join()
    generations = [member.joined().generation_id for member in (ann, ben, cal)]

    assert generations == [1, 1, 1]
    assert time.monotonic() - started >= delay_s * 0.95
    settle(ann, ben, cal)


def test_the_delay_is_extended_while_members_come(slow_broker):
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben = (slow_broker.member(slow_broker.group()) for _ in range(2))

    started = time.monotonic()
    ann.join()
    ben.join()  # while the delay runs: it runs once more
    ann.joined()
    ben.joined()

    assert time.monotonic() - started >= 2 * delay_s * 0.95


def test_the_delay_never_passes_the_rebalance_timeout(slow_broker):
    """As long as members come the delay runs on, but only until the members' own timeout is up."""
    delay_s = slow_broker.config("group.initial.rebalance.delay.ms") / 1000
    group, timeout_ms = slow_broker.group(), int(delay_s * 1500)
    came_at = [-delay_s]

    def is_over_while_members_come() -> bool:
        if slow_broker.state(group) == "CompletingRebalance":
            return True
        if time.monotonic() - came_at[-1] >= delay_s / 4:
            came_at.append(time.monotonic())
            slow_broker.member(group, rebalance_timeout_ms=timeout_ms).join()
        return False

    eventually(is_over_while_members_come, "the delay went on for as long as members came")
