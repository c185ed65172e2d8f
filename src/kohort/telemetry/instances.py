"""Client instances and the checks of their pushes, by the rules of Apache Kafka 4.4's ClientMetricsManager (KIP-714).

A client gets an instance id and a subscription, and sends the ids of both with each push. The broker rejects a push
that is too early or too large, that has another subscription id or an unknown codec, or follows a terminating push.

The broker forgets a client with its connection, or after three intervals without a request. A forgotten client that
sends its instance id, on any connection or node, is registered again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kohort.clock import Rng, Timers, random_uuid
from kohort.errors import ApiError, ErrorCode
from kohort.model import uuid_to_text
from kohort.telemetry.report import ClientReport
from kohort.telemetry.subscriptions import ClientFacts, MetricsSubscriptions, RequestedMetrics

NO_ID: Final = bytes(16)
RESERVED: Final = frozenset({NO_ID, bytes(15) + b"\x01"})
"""Instance ids that clients may not use."""
FORGOTTEN_MS: Final = 60_000
CHARS_OF_VALUE: Final = 500
"""Each 500 characters of name and labels count as one more metric value."""
INTERVALS: Final = 3
"""A client is forgotten after this many push intervals without a request, but not before ``FORGOTTEN_MS``."""
IMMEDIATE_RETRY_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
"""Errors after which a client requests its subscription again immediately."""


@dataclass(slots=True, eq=False)
class ClientInstance:
    """A client that pushes metrics, its subscription, and the times of its last requests."""

    instance_id: bytes
    facts: ClientFacts
    requested: RequestedMetrics
    version: int
    """Value of ``MetricsSubscriptions.version`` when ``requested`` was computed."""
    requested_ms: int | None = None
    pushed_ms: int | None = None
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    report: ClientReport | None = None
    held_values: int = 0

    @property
    def text(self) -> str:
        """Instance id in Kafka's notation."""
        return uuid_to_text(self.instance_id)

    def may_request(self, now_ms: int) -> bool:
        """Note that the client requests its subscription; return False if the request is too early."""
        last_ms = max((at_ms for at_ms in (self.requested_ms, self.pushed_ms) if at_ms is not None), default=None)
        if last_ms is not None and now_ms - last_ms < self.requested.interval_ms:
            return False
        self.requested_ms = now_ms
        return True

    def may_push(self, now_ms: int) -> bool:
        """Note a push; return False if it is too early.

        The first push after a subscription request is never too early: clients start at a random time between 0.5 and
        1.5 intervals.
        """
        pushed_ms = self.pushed_ms
        has_requested = self.requested_ms is not None and (pushed_ms is None or self.requested_ms > pushed_ms)
        if not has_requested and pushed_ms is not None and now_ms - pushed_ms < self.requested.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


@dataclass(slots=True)
class PushCounts:
    taken: int = 0
    early: int = 0
    unknown_subscription: int = 0
    refused: int = 0
    """Pushes rejected for other reasons: too large, not OTLP, unknown codec, after a terminating push."""


class ClientInstances:
    def __init__(self, subscriptions: MetricsSubscriptions, rng: Rng, most: int, values_most: int) -> None:
        """Limit the stored clients to ``most`` and their metric values to ``values_most``.

        Above a limit, the client with the oldest request is dropped.
        """
        self._subscriptions = subscriptions
        self._rng = rng
        self._most = most
        self._values_most = values_most
        self._values = 0
        self._by_id: dict[bytes, ClientInstance] = {}
        self._by_connection: dict[int, ClientInstance] = {}
        """Last client that was created on each connection."""
        self._silent: Timers[bytes] = Timers()
        self.counts = PushCounts()

    def __len__(self) -> int:
        return len(self._by_id)

    def ask(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        """Return the client that requests its subscription; create an instance id if the client has none.

        Raises ApiError THROTTLING_QUOTA_EXCEEDED if the request is too early.
        """
        client = self._known(self._new_id() if instance_id == NO_ID else instance_id, connection, facts, now_ms)
        if not client.may_request(now_ms) and client.last_error not in IMMEDIATE_RETRY_ERRORS:
            self.counts.early += 1
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
                f"client {client.text} requests its subscription before its push interval has passed",
            )
        client.last_error = ErrorCode.NONE
        return client

    def push(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        """Return the client that pushes. Raises ApiError INVALID_REQUEST for a reserved id."""
        if instance_id in RESERVED:
            self.counts.refused += 1
            raise ApiError(ErrorCode.INVALID_REQUEST, f"client instance id {uuid_to_text(instance_id)} is reserved")
        return self._known(instance_id, connection, facts, now_ms)

    def check_push(self, client: ClientInstance, subscription_id: int, now_ms: int, *, terminating: bool) -> None:
        """Raise ApiError unless the client may push now under this subscription."""
        try:
            if client.is_terminating:
                raise self.refuse(client, ErrorCode.INVALID_REQUEST, "pushes after its terminating push")
            if not client.may_push(now_ms) and not terminating:
                self.counts.early += 1
                problem = "pushes before its interval has passed"
                raise self._refused(client, ErrorCode.THROTTLING_QUOTA_EXCEEDED, problem)
            if subscription_id != client.requested.subscription_id:
                self.counts.unknown_subscription += 1
                problem = f"pushes for subscription {subscription_id} instead of {client.requested.subscription_id}"
                raise self._refused(client, ErrorCode.UNKNOWN_SUBSCRIPTION_ID, problem)
        finally:
            client.is_terminating = terminating

    def refuse(self, client: ClientInstance, code: ErrorCode, problem: str) -> ApiError:
        self.counts.refused += 1
        return self._refused(client, code, problem)

    def take(self, client: ClientInstance, report: ClientReport | None) -> None:
        """Count a valid push, and keep its report in place of the previous one."""
        self.counts.taken += 1
        client.last_error = ErrorCode.NONE
        if report is None or self._by_id.get(client.instance_id) is not client:
            return  # the client was forgotten or got a new subscription while its push was parsed
        self._drop_report(client)
        client.report, client.held_values = report, _room_for(report)
        self._values += client.held_values
        for oldest in self._by_id.values():
            if self._values <= self._values_most:
                break
            self._drop_report(oldest)

    def reports(self, now_ms: int) -> Iterator[ClientReport]:
        """Yield the last report of each client that is not forgotten."""
        for instance_id, client in self._by_id.items():
            if client.report is not None and (self._silent.deadline_ms(instance_id) or 0) > now_ms:
                yield client.report

    def _drop_report(self, client: ClientInstance) -> None:
        if client.report is not None:
            self._values -= client.held_values
            client.report, client.held_values = None, 0

    def _refused(self, client: ClientInstance, code: ErrorCode, problem: str) -> ApiError:
        client.last_error = code
        return ApiError(code, f"client {client.text} {problem}")

    def forget_connection(self, connection: int) -> None:
        client = self._by_connection.pop(connection, None)
        if client is not None and self._by_id.get(client.instance_id) is client:
            self._forget(client.instance_id)

    def _known(self, instance_id: bytes, connection: int, facts: ClientFacts, now_ms: int) -> ClientInstance:
        for silent in list(self._silent.pop_due(now_ms)):
            self._forget(silent)
        client = self._by_id.pop(instance_id, None)
        if client is None or client.version < self._subscriptions.version:
            facts = facts if client is None else client.facts
            requested = self._subscriptions.requested_of(instance_id, facts)
            created = ClientInstance(instance_id, facts, requested, self._subscriptions.version)
            if client is not None:
                created.report, created.held_values, client.report = client.report, client.held_values, None
            client = self._by_connection[connection] = created
        self._by_id[instance_id] = client  # the last entry has the latest request
        if len(self._by_id) > self._most:
            self._forget(next(iter(self._by_id)))
        self._silent.set(instance_id, now_ms + max(FORGOTTEN_MS, INTERVALS * client.requested.interval_ms))
        return client

    def _forget(self, instance_id: bytes) -> None:
        client = self._by_id.pop(instance_id, None)
        if client is not None:
            self._drop_report(client)
        self._silent.cancel(instance_id)

    def _new_id(self) -> bytes:
        while (created := random_uuid(self._rng)) in self._by_id:
            pass
        return created


def _room_for(report: ClientReport) -> int:
    own = _length(report.labels) // CHARS_OF_VALUE
    return own + sum(1 + (len(one.name) + _length(one.labels)) // CHARS_OF_VALUE for one in report.values)


def _length(labels: dict[str, str]) -> int:
    return sum(map(len, labels)) + sum(map(len, labels.values()))
