"""The seam inside the client: a source is polled for requests and given the answers.

Metadata, coordinator lookup, membership, offsets, fetcher, sender are all sources; the engine polls them, chooses the
connection and the version, pairs responses with requests, and says when to wake. Every request that a source hands
over comes back exactly once, through ``on_response`` or ``on_failure``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from kohort.errors import KohortError
from kohort.wire.schema import Message

T = TypeVar("T")


class Promise(Generic[T]):
    """Completed once, with a value or an error; ``done`` is all that a waiter has to look at."""

    __slots__ = ("_value", "done", "error")

    def __init__(self) -> None:
        self.done = False
        self.error: KohortError | None = None
        self._value: T | None = None

    def resolve(self, value: T) -> None:
        if not self.done:
            self.done = True
            self._value = value

    def fail(self, error: KohortError) -> None:
        if not self.done:
            self.done = True
            self.error = error

    def result(self) -> T:
        assert self.done, "it is not done yet"
        if self.error is not None:
            raise self.error
        return cast("T", self._value)


ANY_NODE: Final = -1
"""Let the engine choose: the least loaded connected node, or a bootstrap address."""


@dataclass(slots=True, eq=False)
class Unsent:
    """A request to send. ``lane`` keeps coordinator traffic off the data connections: one connection per node and lane.

    The engine makes ``timeout_ms`` request.timeout.ms, where it is more, once the answer has begun to come. It fills in
    ``version`` when it encodes; ``max_version`` caps its choice. ``shape`` rewrites the request for the version chosen,
    where versions differ in more than fields that may be dropped. A request without ``expect_response`` is answered by
    an empty response as soon as it is written. ``context`` is the source's own, given back untouched.
    """

    node_id: int
    request: Message
    timeout_ms: int
    lane: str = "data"
    max_version: int | None = None
    expect_response: bool = True
    context: Any = None
    version: int = -1
    shape: Callable[[Message, int], Message] | None = None


@dataclass(slots=True)
class Poll:
    """What a source wants now: requests to send, and when to be polled again at the latest."""

    unsent: Sequence[Unsent] = ()
    wake_at_ms: int | None = None


IDLE: Final = Poll()
"""Nothing to send and nothing to wait for: most sources, most of the time."""


class RequestSource(Protocol):
    """One concern of a client, without I/O."""

    def poll(self, now_ms: int) -> Poll: ...

    def on_response(self, sent: Unsent, response: Message, now_ms: int, /) -> None: ...

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int, /) -> None:
        """Hear that the connection failed, the request timed out, or the broker does not serve the API."""
