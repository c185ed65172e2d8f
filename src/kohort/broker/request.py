"""A request as handlers see it, where its answer goes, and what a handler can return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from kohort.config.listeners import DEFAULT_LISTENER
from kohort.coordinator.journal import Who
from kohort.errors import (
    ApiError,
    ConfigError,
    CorruptRecord,
    ErrorCode,
    KohortError,
    ProtocolError,
    RecordsRefused,
    StorageError,
)
from kohort.notes import warning
from kohort.security.acls import ANONYMOUS, Principal
from kohort.steps import Steps
from kohort.wire.apis import Api
from kohort.wire.schema import Message

M = TypeVar("M", bound=Message)

ConnectionId = int
"""Given by whoever accepts connections, and used once."""


class ReplyTo(NamedTuple):
    """Where an answer goes. A connection has one request in flight, so this names one request as long as it waits."""

    connection: ConnectionId
    correlation_id: int
    api_key: int
    version: int


class Caller(NamedTuple):
    """Who is behind a connection: the address that it comes from, the listener that it came in on, as whom it is
    logged in, and the port that it comes from, if that is known."""

    host: str
    listener: str = DEFAULT_LISTENER
    principal: Principal = ANONYMOUS
    port: int | None = None


@dataclass(slots=True, eq=False)
class Request:
    """One decoded request."""

    message: Any
    version: int
    reply_to: ReplyTo
    client_id: str
    caller: Caller
    now_ms: int

    @property
    def client_host(self) -> str:
        """Where it comes from, as Kafka writes addresses: ``/127.0.0.1``."""
        return f"/{self.caller.host}"


def principal_of(request: Request) -> str:
    """Return as whom the caller is logged in, as the journal of groups tells it; nothing for nobody."""
    principal = request.caller.principal
    return "" if principal == ANONYMOUS else str(principal)


def sender_of(request: Request) -> Who:
    """Return who sent a request, as the journal of groups tells it."""
    return Who("", request.client_id, request.client_host, principal=principal_of(request))


class Unanswered(Enum):
    """What a handler returns instead of a response."""

    LATER = "the request waits; its answer comes through BrokerState.released or the purgatory"
    NEVER = "the protocol has no response here (Produce with acks=0)"


Answer = Message | Unanswered
AnswerInSteps = Steps[Answer]
"""The answer of a handler that may have much to do: it yields now and then, and others are served (long_work.py)."""


class CloseConnection(Exception):
    """The protocol's only answer is to close the connection. The text is for the log, where those of one ``kind``
    that come from one host are counted (notes.py)."""

    def __init__(self, reason: str, kind: str = "refused") -> None:
        super().__init__(reason)
        self.note = warning(reason, kind)


def unencodable(error: ProtocolError) -> CloseConnection:
    """Return what is left where the version of a request cannot say the answer, such as odd words that a log holds."""
    return CloseConnection(f"the answer cannot be written: {error}", "unencodable")


Handler = Callable[[Any, Request], Answer | AnswerInSteps]
"""``handler(state, request)``."""

Intercept = Callable[[int, Api, Request], Answer | None]
"""``intercept(node_id, api, request)``: called before each request; returns a response, or None to serve the request.

``Unanswered.LATER`` delays the request until the event ``Serve`` (broker/io.py). For tests of Kafka clients.
"""


class Refusal(NamedTuple):
    """What an answer says of an error.

    It is not the error: one that stays in a variable of its own traceback's frame is a cycle, and with it stays all
    that those frames hold, a decompressed batch for one, until the collector comes by.
    """

    code: ErrorCode
    message: str
    records: Sequence[tuple[int, str]] = ()
    """Places in a batch, each with why that record is refused."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


def refusal_of(error: KohortError) -> Refusal:
    """Return the protocol's name for ``error``, with its text."""
    if isinstance(error, RecordsRefused):
        return Refusal(error.code, error.message, error.refused)
    if isinstance(error, ApiError):
        return Refusal(error.code, error.message)
    if isinstance(error, CorruptRecord):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if isinstance(error, StorageError):
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if isinstance(error, ConfigError):
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if isinstance(error, ProtocolError):
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
