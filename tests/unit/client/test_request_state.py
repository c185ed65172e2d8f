"""A request that is sent again after a back-off: alone, and among others that somebody waits for until a deadline."""

from __future__ import annotations

import pytest

from kohort.client.requests.request_state import Backoff, RequestState, TimedRequests, TimedRequestState
from kohort.client.requests.source import ANY_NODE, Unsent
from kohort.wire.messages.metadata import MetadataRequest


class Middling:
    """Chance that spreads nothing: back-offs are 100, 200, 400, then 1000 ms."""

    def random(self) -> float:
        return 0.5

    def randrange(self, start: int, stop: int) -> int:
        raise NotImplementedError

    def getrandbits(self, k: int) -> int:
        raise NotImplementedError


@pytest.fixture
def backoff() -> Backoff:
    return Backoff(100, 1000, Middling())


@pytest.fixture
def request_state(backoff: Backoff) -> RequestState:
    return RequestState(backoff)


def unsent() -> Unsent:
    return Unsent(ANY_NODE, MetadataRequest(), 1000)


def test_the_first_request_may_leave_at_once(request_state: RequestState):
    assert request_state.may_send(0)
    assert request_state.wake_at_ms(0) is None


def test_one_request_is_under_way_at_a_time(request_state: RequestState):
    sent = request_state.sent(unsent())
    assert not request_state.may_send(5000)

    assert request_state.ended(sent)
    assert request_state.may_send(5000)


def test_after_a_failure_the_next_waits_longer_each_time_until_one_succeeds(request_state: RequestState):
    waits = [request_state.failed(0) for _ in range(5)]
    assert waits == [100, 200, 400, 800, 1000]
    assert not request_state.may_send(999)
    assert request_state.wake_at_ms(999) == 1000
    assert request_state.may_send(1000)

    request_state.succeeded()
    assert request_state.may_send(0)
    assert request_state.failed(0) == 100


def test_an_answer_that_tells_nothing_new_costs_a_wait_too(request_state: RequestState):
    waits = []
    for _ in range(4):
        request_state.repeated(0)
        waits.append(request_state.retry_at_ms)
    assert waits == [100, 100, 200, 400]


def test_there_is_no_back_off_to_wake_for_while_an_answer_is_waited_for(request_state: RequestState):
    request_state.sent(unsent())
    request_state.failed(0)

    assert request_state.wake_at_ms(0) is None


def test_the_answer_to_what_was_forgotten_means_nothing(request_state: RequestState):
    old = request_state.sent(unsent())
    request_state.forget_in_flight()
    new = request_state.sent(unsent())

    assert not request_state.ended(old)
    assert request_state.is_in_flight
    assert request_state.ended(new)
    assert not request_state.ended(new)


def test_a_wait_that_no_failure_caused_does_not_count_as_one(request_state: RequestState):
    request_state.wait_until(20)

    assert request_state.wake_at_ms(0) == 20
    assert request_state.failures == 0


def test_what_waits_is_taken_when_it_is_due(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    at_once, later = TimedRequestState(backoff), TimedRequestState(backoff)
    later.failed(0)
    queue.add(at_once)
    queue.add(later)

    assert queue.take_due(0) == [at_once]
    assert queue.wake_at_ms(0) == 100
    assert queue.take_due(100) == [later]
    assert not queue


def test_what_outlives_its_deadline_is_taken_out_and_the_rest_waits_on(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    short, long, endless = (TimedRequestState(backoff, deadline_ms) for deadline_ms in (50, 500, None))
    for request in (long, short, endless):
        queue.add(request)
    assert queue.deadline_ms == 50

    assert queue.take_expired(49) == []
    assert queue.take_expired(50) == [short]
    assert queue.deadline_ms == 500
    assert queue.take_expired(10_000) == [long]
    assert queue.deadline_ms is None
    assert queue


def test_what_stays_in_the_queue_while_it_is_under_way_expires_there(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    request = TimedRequestState(backoff, 500)
    queue.add(request)
    first, second = request.sent(unsent()), request.sent(unsent())

    assert queue.due(0) == []
    request.ended(first)
    assert queue.due(0) == [], "the other leader has not answered"
    request.ended(second)
    assert queue.due(0) == [request]
    request.sent(unsent())
    assert queue.wake_at_ms(0) == 500
    assert queue.take_expired(500) == [request]


def test_to_discard_what_is_gone_changes_nothing(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    request = TimedRequestState(backoff)
    queue.add(request)

    queue.discard(request)
    queue.discard(request)

    assert not queue
