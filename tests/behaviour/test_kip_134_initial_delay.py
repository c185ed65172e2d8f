"""KIP-134: an empty group waits a moment for more members before its first generation, and longer while they come."""

import time

import pytest
from crew import Crew, settle

import kohort


@pytest.fixture(scope="module")
def patient(request):
    """A broker whose initial delay is a second."""
    address = request.config.getoption("--broker", default=None)
    if address:
        crew = Crew(address)
        delay_ms = crew.config("group.initial.rebalance.delay.ms")
        crew.close()
        if not 500 <= delay_ms <= 5000:
            pytest.skip(f"the broker's initial delay is {delay_ms} ms; this needs 500 to 5000")
        yield address
        return
    with kohort.Broker({"group.initial.rebalance.delay.ms": 1000}) as broker:
        yield broker.bootstrap


@pytest.fixture
def slow_crew(patient):
    crew = Crew(patient)
    yield crew
    crew.close()


def test_members_that_come_within_the_delay_share_the_first_generation(slow_crew):
    delay_s = slow_crew.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben, cal = (slow_crew.member(slow_crew.group()) for _ in range(3))

    started = time.monotonic()
    for member in (ann, ben, cal):
        member.join()
    generations = [member.joined().generation_id for member in (ann, ben, cal)]

    assert generations == [1, 1, 1]
    assert time.monotonic() - started >= delay_s * 0.95
    settle(ann, ben, cal)


def test_the_delay_is_extended_while_members_come(slow_crew):
    delay_s = slow_crew.config("group.initial.rebalance.delay.ms") / 1000
    ann, ben = (slow_crew.member(slow_crew.group()) for _ in range(2))

    started = time.monotonic()
    ann.join()
    ben.join()  # while the delay runs: it runs once more
    ann.joined()
    ben.joined()

    assert time.monotonic() - started >= 2 * delay_s * 0.95


def test_the_delay_never_passes_the_rebalance_timeout(slow_crew):
    delay_s = slow_crew.config("group.initial.rebalance.delay.ms") / 1000
    timeout_ms = int(delay_s * 1500)
    ann, ben = (slow_crew.member(slow_crew.group(), rebalance_timeout_ms=timeout_ms) for _ in range(2))

    started = time.monotonic()
    ann.join()
    ben.join()
    ann.joined()
    ben.joined()

    assert time.monotonic() - started < 2 * delay_s * 0.95


def test_a_group_that_has_members_does_not_wait(slow_crew):
    ann, ben = (slow_crew.member(slow_crew.group()) for _ in range(2))
    ann.join()
    ann.joined()
    settle(ann)

    started = time.monotonic()
    ben.join()
    slow_crew.await_state(ann.group, "PreparingRebalance")
    ann.start_join()
    ann.joined()
    ben.joined()

    assert time.monotonic() - started < slow_crew.config("group.initial.rebalance.delay.ms") / 1000
