"""Which client is which, and whether it may push now: the rules of Apache Kafka 4.4's ClientMetricsManager (KIP-714).

A client is given an id and a subscription, and pushes under both. Too early, under another subscription, too much or
in an unknown codec it is refused; after a push that it said was its last there is no other.

What is kept of a client is forgotten with its connection, or when it has been silent for three intervals. On another
connection, or another node, it is known again by its id at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kohort.clock import Rng, Timers, uuid_text
from kohort.errors import ApiError, ErrorCode
from kohort.model import uuid_to_text
from kohort.telemetry.report import ClientReport
from kohort.telemetry.subscriptions import ClientFacts, MetricsSubscriptions, RequestedMetrics

NO_ID: Final = bytes(16)
RESERVED: Final = frozenset({NO_ID, bytes(15) + b"\x01"})
"""Ids that no client has."""
FORGOTTEN_MS: Final = 60_000
LETTERS_OF_VALUE: Final = 500
"""Of its name and labels; a value with more takes the room of several."""
INTERVALS: Final = 3
"""So many, or ``FORGOTTEN_MS`` if that is longer, a client is remembered without a sign of life."""
ASKS_AT_ONCE: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""After these errors a client asks anew without waiting."""


@dataclass(slots=True, eq=False)
class ClientInstance:
    """One client: what it was given, and when it came last."""

    instance_id: bytes
    facts: ClientFacts
    requested: RequestedMetrics
    version: int
    """Of the subscriptions that ``requested`` is of."""
    asked_ms: int | None = None
    pushed_ms: int | None = None
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    report: ClientReport | None = None
    """What it pushed last, where there was room for it."""
    held_values: int = 0
    """The room that this takes."""

    @property
    def text(self) -> str:
        """Its id as Kafka writes it."""
        return uuid_to_text(self.instance_id)

    def may_ask(self, now_ms: int) -> bool:
        """Take that it asks for its subscription; whether it is time to."""
        came_ms = max((at_ms for at_ms in (self.asked_ms, self.pushed_ms) if at_ms is not None), default=None)
        if came_ms is not None and now_ms - came_ms < self.requested.interval_ms:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Take that it pushes; whether it is time to. The first push after it has asked may come at once: clients come
        at random between half an interval and one and a half."""
        pushed_ms = self.pushed_ms
        has_asked = self.asked_ms is not None and (pushed_ms is None or self.asked_ms > pushed_ms)
        if not has_asked and pushed_ms is not None and now_ms - pushed_ms < self.requested.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


@dataclass(slots=True)
class PushCounts:
    """What became of pushes since the start."""

    taken: int = 0
    early: int = 0
    unknown_subscription: int = 0
    refused: int = 0
    """For another reason: too large, no OTLP, an unknown codec, after the last."""


class ClientInstances:
    """The clients of one node."""

    def __init__(self, subscriptions: MetricsSubscriptions, rng: Rng, most: int, values_most: int) -> None:
        """Remember ``most`` at once, and so many values of theirs; then the client that came the longest ago is
        forgotten, or its values."""
        self._subscriptions = subscriptions
        self._rng = rng
        self._most = most
        self._values_most = values_most
        self._values = 0
        self._by_id: dict[bytes, ClientInstance] = {}
        self._of_connection: dict[int, bytes] = {}
        self._connection_of: dict[bytes, int] = {}
        self._silent: Timers[bytes] = Timers()
        self.counts = PushCounts()

    def __len__(self) -> int:
        return len(self._by_id)

    def ask(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        """Return the client that asks for its subscription, with an id where it has none. Raises ApiError
        THROTTLING_QUOTA_EXCEEDED where it comes too early."""
        client = self._known(self._new_id() if instance_id == NO_ID else instance_id, connection, facts, now_ms)
        if not client.may_ask(now_ms) and client.last_error not in ASKS_AT_ONCE:
            self.counts.early += 1
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"{client.text} asks before its interval is over")
        client.last_error = ErrorCode.NONE
        return client

    def push(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        """Return the client that pushes. Raises ApiError INVALID_REQUEST for an id that no client has."""
        if instance_id in RESERVED:
            self.counts.refused += 1
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{uuid_to_text(instance_id)} is no id of a client")
        return self._known(instance_id, connection, facts, now_ms)

    def check_push(self, client: ClientInstance, subscription_id: int, now_ms: int, *, terminating: bool) -> None:
        """Raise ApiError unless the client may push now, under this subscription."""
        try:
            if client.is_terminating:
                self.counts.refused += 1
                raise self._refused(client, ErrorCode.INVALID_REQUEST, "has said that its last push was the last")
            if not client.may_push(now_ms) and not terminating:
                self.counts.early += 1
                raise self._refused(client, ErrorCode.THROTTLING_QUOTA_EXCEEDED, "pushes before its interval is over")
            if subscription_id != client.requested.subscription_id:
                self.counts.unknown_subscription += 1
                told = f"pushes under subscription {subscription_id}, and has {client.requested.subscription_id}"
                raise self._refused(client, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, told)
        finally:
            client.is_terminating = terminating

    def refuse(self, client: ClientInstance, code: ErrorCode, what: str) -> ApiError:
        """Return the error for a push that may come now, and cannot be taken for what it holds."""
        self.counts.refused += 1
        return self._refused(client, code, what)

    def take(self, client: ClientInstance, report: ClientReport | None) -> None:
        """Take that a push was good; keep what it said, if anything, in place of what was said before."""
        self.counts.taken += 1
        client.last_error = ErrorCode.NONE
        if report is None or self._by_id.get(client.instance_id) is not client:
            return  # or it is gone, or was asked for something else, while the push was read
        self._drop_report(client)
        client.report, client.held_values = report, _room_for(report)
        self._values += client.held_values
        for oldest in self._by_id.values():
            if self._values <= self._values_most:
                break
            self._drop_report(oldest)

    def reports(self, now_ms: int) -> Iterator[ClientReport]:
        """Yield what clients said last that are there, as far as is known."""
        for instance_id, client in self._by_id.items():
            if client.report is not None and (self._silent.deadline_ms(instance_id) or 0) > now_ms:
                yield client.report

    def _drop_report(self, client: ClientInstance) -> None:
        if client.report is not None:
            self._values -= client.held_values
            client.report, client.held_values = None, 0

    def _refused(self, client: ClientInstance, code: ErrorCode, what: str) -> ApiError:
        client.last_error = code
        return ApiError(code, f"{client.text} {what}")

    def forget_connection(self, connection: int) -> None:
        instance_id = self._of_connection.get(connection)
        if instance_id is not None:
            self._forget(instance_id)

    def _known(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        for silent in list(self._silent.pop_due(now_ms)):
            self._forget(silent)
        client = self._by_id.pop(instance_id, None)
        if client is None or client.version < self._subscriptions.version:
            facts = facts if client is None else client.facts
            requested = self._subscriptions.requested_of(instance_id, uuid_to_text(instance_id), facts)
            made = ClientInstance(instance_id, facts, requested, self._subscriptions.version)
            if client is not None:
                made.report, made.held_values = client.report, client.held_values
            client = made
            self._bind(instance_id, connection)
        self._by_id[instance_id] = client  # the last is the one that came last
        if len(self._by_id) > self._most:
            self._forget(next(iter(self._by_id)))
        self._silent.set(instance_id, now_ms + max(FORGOTTEN_MS, INTERVALS * client.requested.interval_ms))
        return client

    def _bind(self, instance_id: bytes, connection: int) -> None:
        """Have it forgotten with the connection, and with no other; of several on one connection the last."""
        self._unbind(instance_id)
        before = self._of_connection.pop(connection, None)
        if before is not None:
            del self._connection_of[before]
        self._of_connection[connection] = instance_id
        self._connection_of[instance_id] = connection

    def _unbind(self, instance_id: bytes) -> None:
        connection = self._connection_of.pop(instance_id, None)
        if connection is not None:
            del self._of_connection[connection]

    def _forget(self, instance_id: bytes) -> None:
        client = self._by_id.pop(instance_id, None)
        if client is not None:
            self._drop_report(client)
        self._silent.cancel(instance_id)
        self._unbind(instance_id)

    def _new_id(self) -> bytes:
        while True:
            made = bytes.fromhex(uuid_text(self._rng).replace("-", ""))
            if made not in self._by_id and not uuid_to_text(made).startswith("-"):
                return made  # one that begins with a dash would be taken for an option by tools


def _room_for(report: ClientReport) -> int:
    own = _letters(report.labels) // LETTERS_OF_VALUE
    return own + sum(1 + (len(one.name) + _letters(one.labels)) // LETTERS_OF_VALUE for one in report.values)


def _letters(labels: dict[str, str]) -> int:
    return sum(map(len, labels)) + sum(map(len, labels.values()))
