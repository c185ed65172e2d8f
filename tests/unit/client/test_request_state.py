"""State of a retried request, with and without a deadline."""

from __future__ import annotations

import pytest

from kohort.client.requests.request_state import Backoff, RequestState, TimedRequests, TimedRequestState
from kohort.client.requests.source import ANY_NODE, Unsent
from kohort.wire.messages.metadata import MetadataRequest


class Middling:
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


def test_first_request_has_no_back_off(request_state: RequestState):
    assert request_state.may_send(0)
    assert request_state.wake_at_ms(0) is None


def test_request_state_allows_one_request_in_flight(request_state: RequestState):
    sent = request_state.sent(unsent())
    assert not request_state.may_send(5000)

    assert request_state.ended(sent)
    assert request_state.may_send(5000)


def test_request_back_off_grows_with_failures_until_success(request_state: RequestState):
    waits = [request_state.failed(0) for _ in range(5)]
    assert waits == [100, 200, 400, 800, 1000]
    assert not request_state.may_send(999)
    assert request_state.wake_at_ms(999) == 1000
    assert request_state.may_send(1000)

    request_state.succeeded()
    assert request_state.may_send(0)
    assert request_state.failed(0) == 100


def test_response_that_changes_nothing_delays_next_request(request_state: RequestState):
    waits = []
    for _ in range(4):
        request_state.repeated(0)
        waits.append(request_state.retry_at_ms)
    assert waits == [100, 100, 200, 400]


def test_request_in_flight_has_no_wake_time(request_state: RequestState):
    request_state.sent(unsent())
    request_state.failed(0)

    assert request_state.wake_at_ms(0) is None


def test_response_to_forgotten_request_is_ignored(request_state: RequestState):
    old = request_state.sent(unsent())
    request_state.forget_in_flight()
    new = request_state.sent(unsent())

    assert not request_state.ended(old)
    assert request_state.is_in_flight
    assert request_state.ended(new)
    assert not request_state.ended(new)


def test_due_requests_are_removed_from_queue_in_order(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    at_once, later = TimedRequestState(backoff), TimedRequestState(backoff)
    later.failed(0)
    queue.add(at_once)
    queue.add(later)

    assert queue.take_due(0) == [at_once]
    assert queue.wake_at_ms(0) == 100
    assert queue.take_due(100) == [later]
    assert not queue


def test_expired_requests_are_removed_from_queue_and_others_stay(backoff: Backoff):
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


def test_timed_request_expires_in_flight(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    request = TimedRequestState(backoff, 500)
    queue.add(request)
    first, second = request.sent(unsent()), request.sent(unsent())

    assert queue.due(0) == []
    request.ended(first)
    assert queue.due(0) == [], "the second request is in flight"
    request.ended(second)
    assert queue.due(0) == [request]
    request.sent(unsent())
    assert queue.wake_at_ms(0) == 500
    assert queue.take_expired(500) == [request]


def test_discard_of_removed_request_has_no_effect(backoff: Backoff):
    queue: TimedRequests[TimedRequestState] = TimedRequests()
    request = TimedRequestState(backoff)
    queue.add(request)

    queue.discard(request)
    queue.discard(request)

    assert not queue
