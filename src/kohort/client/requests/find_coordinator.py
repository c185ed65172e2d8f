"""Look up the coordinator of a group or transactional id; repeat the lookup after coordinator errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Outages
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import ANY_NODE, IDLE, Poll, Unsent
from kohort.clock import Rng
from kohort.config.client import ClientConfig
from kohort.errors import KohortError, error_code
from kohort.model import Node
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.schema import Message

COORDINATOR_CHANNEL: Final = "coordinator"
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1
KEY_NAMES: Final = {GROUP_KEY: "group", TRANSACTION_KEY: "transactional.id"}
BATCHED_FROM: Final = 4


class CoordinatorKey(NamedTuple):
    """Group id or transactional id whose coordinator is looked up."""

    name: str
    type: int = GROUP_KEY


class CoordinatorLookup:
    """Request source that finds the coordinator of one group or of one transactional id."""

    def __init__(
        self,
        key: CoordinatorKey,
        config: ClientConfig,
        metadata: Metadata,
        rng: Rng,
        raise_later: Callable[[KohortError], None],
        outages: Outages,
    ) -> None:
        self.node_id: int | None = None
        self._key = key
        self._config = config
        self._metadata = metadata
        self._request = RequestState(retry_backoff(config, rng))
        self._raise_later = raise_later
        self._outages = outages
        self._name = f"the coordinator of {KEY_NAMES[key.type]} {key.name!r}"
        self._is_required = False

    def require(self) -> int | None:
        if self.node_id is None:
            self._is_required = True
        return self.node_id

    def mark_unknown(self) -> None:
        self.node_id = None

    def poll(self, now_ms: int) -> Poll:
        if not self._is_required or self.node_id is not None:
            return IDLE
        if not self._request.may_send(now_ms):
            return Poll(wake_at_ms=self._request.wake_at_ms(now_ms))
        request = FindCoordinatorRequest(key=self._key.name, key_type=self._key.type)
        unsent = Unsent(
            ANY_NODE, request, self._config.request_timeout_ms, COORDINATOR_CHANNEL, shape=lookup_shape, context=self
        )
        return Poll([self._request.sent(unsent)])

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, FindCoordinatorResponse)
        self._request.ended(sent)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            code = error_code(found.error_code)
            if code.retriable:
                self._outages.report_code(self._name, code, f"looking for {self._name}", now_ms)
            else:
                self._is_required = False
                self._raise_later(answer_error(self._config, code, f"looking for {self._name}", name=self._key.name))
            self._request.failed(now_ms)
            return
        self._outages.recovered(self._name, f"{self._name} is found", now_ms)
        self._metadata.learn_node(Node(found.node_id, found.host, found.port))
        self.node_id = found.node_id
        self._is_required = False
        self._request.succeeded()

    def on_failure(self, sent: Unsent, _error: KohortError, now_ms: int) -> None:
        self._request.ended(sent)
        self._request.failed(now_ms)


def lookup_shape(request: Message, version: int) -> Message:
    """Rewrite FindCoordinator for a version: a list of keys from version 4 on (KIP-699), a single key before that."""
    assert isinstance(request, FindCoordinatorRequest)
    if version < BATCHED_FROM:
        return request if version > 0 else FindCoordinatorRequest(key=request.key)
    return FindCoordinatorRequest(key_type=request.key_type, coordinator_keys=[request.key])
