"""State of a request with retries and an optional deadline. Class names are those of Kafka's consumer."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from kohort.client.requests.source import Unsent
from kohort.clock import Rng
from kohort.config.client import ClientConfig

JITTER: Final = 0.2


class Backoff:
    """Retry back-off that doubles with each attempt (KIP-580)."""

    __slots__ = ("_first_ms", "_longest_ms", "_rng")

    def __init__(self, first_ms: int, longest_ms: int, rng: Rng) -> None:
        self._first_ms = first_ms
        self._longest_ms = max(first_ms, longest_ms)
        self._rng = rng

    def delay_ms(self, attempt: int) -> int:
        """Return the back-off in ms after ``attempt`` failures in a row (0 counts as 1)."""
        exponent = min(max(attempt - 1, 0), 32)
        wait = min(self._first_ms << exponent, self._longest_ms)
        return max(0, round(wait * (1 - JITTER + 2 * JITTER * self._rng.random())))


def retry_backoff(config: ClientConfig, rng: Rng) -> Backoff:
    return Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)


class RequestState:
    """Request in flight, number of failures in a row, and earliest time of the next attempt."""

    __slots__ = ("_backoff", "_in_flight", "failures", "retry_at_ms")

    def __init__(self, backoff: Backoff) -> None:
        self.failures = 0
        self.retry_at_ms = 0
        self._backoff = backoff
        self._in_flight: list[Unsent] = []

    @property
    def is_in_flight(self) -> bool:
        return bool(self._in_flight)

    def may_send(self, now_ms: int) -> bool:
        return not self._in_flight and now_ms >= self.retry_at_ms

    def wake_at_ms(self, now_ms: int) -> int | None:
        return self.retry_at_ms if not self._in_flight and self.retry_at_ms > now_ms else None

    def sent(self, unsent: Unsent) -> Unsent:
        self._in_flight.append(unsent)
        return unsent

    def ended(self, sent: Unsent) -> bool:
        """Remove a request from those in flight. Return False if it was no longer in flight."""
        if sent not in self._in_flight:
            return False
        self._in_flight.remove(sent)
        return True

    def forget_in_flight(self) -> None:
        self._in_flight.clear()

    def succeeded(self) -> None:
        self.failures = self.retry_at_ms = 0

    def failed(self, now_ms: int) -> int:
        self.failures += 1
        self.retry_at_ms = now_ms + self._backoff.delay_ms(self.failures)
        return self.retry_at_ms

    def repeated(self, now_ms: int) -> None:
        """Start a back-off although no request failed. The next back-off is longer (KIP-580)."""
        self.retry_at_ms = now_ms + self._backoff.delay_ms(self.failures)
        self.failures += 1


class TimedRequestState(RequestState):
    """A request with an optional deadline."""

    __slots__ = ("deadline_ms",)

    def __init__(self, backoff: Backoff, deadline_ms: int | None = None) -> None:
        super().__init__(backoff)
        self.deadline_ms = deadline_ms


R = TypeVar("R", bound=TimedRequestState)


class TimedRequests(Generic[R]):
    """Queue of requests, oldest first. A request waits for its back-off, and expires at its deadline."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[R] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, request: R) -> None:
        self._waiting.append(request)

    def discard(self, request: R) -> None:
        if request in self._waiting:
            self._waiting.remove(request)

    def take_expired(self, now_ms: int) -> list[R]:
        late = [r for r in self._waiting if r.deadline_ms is not None and r.deadline_ms <= now_ms]
        for request in late:
            self._waiting.remove(request)
        return late

    def due(self, now_ms: int) -> list[R]:
        return [r for r in self._waiting if r.may_send(now_ms)]

    def take_due(self, now_ms: int) -> list[R]:
        """Remove and return the requests whose back-off has ended. Once in flight, they do not expire."""
        due = self.due(now_ms)
        self._waiting = [r for r in self._waiting if not r.may_send(now_ms)]
        return due

    @property
    def deadline_ms(self) -> int | None:
        return min((r.deadline_ms for r in self._waiting if r.deadline_ms is not None), default=None)

    def wake_at_ms(self, now_ms: int) -> int | None:
        wakes = [r.wake_at_ms(now_ms) for r in self._waiting]
        return min((at_ms for at_ms in (self.deadline_ms, *wakes) if at_ms is not None), default=None)
