"""Requests, their callers, and results of handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from kohort.config.listeners import DEFAULT_LISTENER
from kohort.coordinator.journal import ClientIdentity
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

ConnectionId = int
"""Number of a connection, set by the server and never reused."""


class ReplyTo(NamedTuple):
    """Connection and header of a request, for sending the response."""

    connection: ConnectionId
    correlation_id: int
    api_key: int
    version: int


class Caller(NamedTuple):
    """Client of a connection: address, port (None: unknown), listener and principal."""

    host: str
    listener: str = DEFAULT_LISTENER
    principal: Principal = ANONYMOUS
    port: int | None = None


@dataclass(slots=True, eq=False)
class Request:
    message: Any
    version: int
    reply_to: ReplyTo
    client_id: str
    caller: Caller
    now_ms: int

    @property
    def client_host(self) -> str:
        """Client address in Kafka's format: ``/127.0.0.1``."""
        return f"/{self.caller.host}"


def principal_of(request: Request) -> str:
    """Return the client's principal for the group journal; empty for ``User:ANONYMOUS``."""
    principal = request.caller.principal
    return "" if principal == ANONYMOUS else str(principal)


def sender_of(request: Request) -> ClientIdentity:
    """Return the client that sent the request, for the group journal."""
    return ClientIdentity("", request.client_id, request.client_host, principal=principal_of(request))


class Unanswered(Enum):
    """Results of a handler that returns no response: the response is sent later, or never."""

    LATER = "the request waits; its answer comes through BrokerState.released or the purgatory"
    NEVER = "the protocol has no response here (Produce with acks=0)"


Answer = Message | Unanswered
AnswerInSteps = Steps[Answer]
"""Answer of a handler that yields between steps (long_work.py)."""


class CloseConnection(Exception):
    """Raised to close the connection; log lines of the same ``kind`` and host are counted instead of repeated."""

    def __init__(self, reason: str, kind: str = "refused") -> None:
        super().__init__(reason)
        self.note = warning(reason, kind)


def unencodable(error: ProtocolError) -> CloseConnection:
    """Return the reason to close the connection: the request's version cannot encode the response."""
    return CloseConnection(f"the response cannot be encoded: {error}", "unencodable")


Handler = Callable[[Any, Request], Answer | AnswerInSteps]

Intercept = Callable[[int, Api, Request], Answer | None]
"""``intercept(node_id, api, request)``: called before each request; returns a response, or None to serve the request.

``Unanswered.LATER`` delays the request until the event ``Serve`` (broker/io.py). For tests of Kafka clients.
"""


class Refusal(NamedTuple):
    """Error code and message for a response.

    Unlike the exception, it keeps no traceback: a stored exception would keep the frames of its traceback, with their
    batches, until the garbage collector runs.
    """

    code: ErrorCode
    message: str
    records: Sequence[tuple[int, str]] = ()

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name

    @property
    def fields(self) -> dict[str, Any]:
        """Error code and message as fields of a response."""
        return {"error_code": self.code, "error_message": self.message or None}


NO_ERROR: Final = Refusal(ErrorCode.NONE, "")


def refusal_of(error: KohortError) -> Refusal:
    """Return error code and message of an exception for a response."""
    if isinstance(error, ApiError):
        return Refusal(error.code, error.message, error.refused if isinstance(error, RecordsRefused) else ())
    if isinstance(error, CorruptRecord):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    if isinstance(error, StorageError):
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    if isinstance(error, ConfigError):
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if isinstance(error, ProtocolError):
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
