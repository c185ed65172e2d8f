"""Interface between the request engine and the request sources, such as metadata, membership and fetcher.

The engine polls each source for requests, chooses connection and version, and returns the response. Every request
comes back exactly once, through ``on_response`` or ``on_failure``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from kohort.errors import KohortError
from kohort.wire.schema import Message

T = TypeVar("T")


class Promise(Generic[T]):
    """Result of an asynchronous operation: completed once, with a value or an error."""

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
        assert self.done, "the promise is not done"
        if self.error is not None:
            raise self.error
        return cast("T", self._value)


ANY_NODE: Final = -1
"""Node id in a request for any node. The client chooses the least loaded connected node, or a bootstrap address."""


@dataclass(slots=True, eq=False)
class Unsent:
    """A request to send. Each node has one connection per ``channel``, such as ``data`` or ``coordinator``.

    When the response begins to arrive, the engine lowers ``timeout_ms`` to request.timeout.ms. It sets ``version`` when
    it encodes the request; ``max_version`` limits the choice. ``shape`` rewrites the request for that version. Without
    ``expect_response`` an empty response follows as soon as the request is written. ``context`` belongs to the source.
    """

    node_id: int
    request: Message
    timeout_ms: int
    channel: str = "data"
    max_version: int | None = None
    expect_response: bool = True
    context: Any = None
    version: int = -1
    shape: Callable[[Message, int], Message] | None = None


@dataclass(slots=True)
class Poll:
    """Requests of a request source, and the latest time in ms of the source's next poll."""

    unsent: Sequence[Unsent] = ()
    wake_at_ms: int | None = None


IDLE: Final = Poll()


class RequestSource(Protocol):
    """Part of a client that creates requests and handles their responses, without I/O.

    ``on_failure`` gets the error of a lost connection, a timeout, or an API that the broker does not support.
    """

    def poll(self, now_ms: int) -> Poll: ...
    def on_response(self, sent: Unsent, response: Message, now_ms: int, /) -> None: ...
    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int, /) -> None: ...
