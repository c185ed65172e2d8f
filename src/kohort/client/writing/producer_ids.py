"""The id and epoch under which a producer numbers its batches, and where they come from.

The rules: protocol/producers.md#numbering.

An idempotent producer asks any broker for an id once it has something to send, and raises the epoch itself. A
transactional one has both from its coordinator: there ``Transactions`` is the ``Numbering``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kohort.client.requests.backoff import retry_backoff
from kohort.client.requests.denials import answer_error
from kohort.client.requests.request_state import RequestState
from kohort.client.requests.source import ANY_NODE, IDLE, Poll, Unsent
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import KohortError, error_code
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, ProducerIdAndEpoch
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.schema import Message

EPOCH_MOST: Final = 0x7FFE
NO_TRANSACTION_MS: Final = 0x7FFFFFFF


class Numbering(Protocol):
    """What a sender numbers its batches by."""

    @property
    def identity(self) -> ProducerIdAndEpoch: ...

    def sequence_lost(self, of: ProducerIdAndEpoch) -> None:
        """Give up a sequence under ``of`` that cannot be continued: it begins again in another epoch."""

    def identity_lost(self) -> None:
        """Give up the id and epoch, which a broker does not take any more."""


class ProducerIds:
    """The id of a producer without transactions: a request source.

    ``wanted`` says whether there is something to number; ``on_failed`` hears why there is no id yet.
    """

    def __init__(
        self, config: ProducerConfig, rng: Rng, wanted: Callable[[], bool], on_failed: Callable[[KohortError], None]
    ) -> None:
        self.identity = NO_PRODUCER_ID_AND_EPOCH
        self._config = config
        self._wanted = wanted
        self._on_failed = on_failed
        self._request = RequestState(retry_backoff(config, rng))

    def sequence_lost(self, of: ProducerIdAndEpoch) -> None:
        if self.identity.epoch >= EPOCH_MOST:
            self.identity = NO_PRODUCER_ID_AND_EPOCH
        elif of == self.identity:
            self.identity = ProducerIdAndEpoch(of.producer_id, of.epoch + 1)

    def identity_lost(self) -> None:
        self.identity = NO_PRODUCER_ID_AND_EPOCH

    # Polled

    def poll(self, now_ms: int) -> Poll:
        if self.identity != NO_PRODUCER_ID_AND_EPOCH or not self._wanted():
            return IDLE
        if not self._request.may_send(now_ms):
            return Poll(wake_at_ms=self._request.wake_at_ms(now_ms))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NO_TRANSACTION_MS)
        return Poll([self._request.sent(Unsent(ANY_NODE, request, self._config.request_timeout_ms))])

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, InitProducerIdResponse)
        self._request.ended(sent)
        if response.error_code:
            self._failed(answer_error(self._config, error_code(response.error_code), "InitProducerId"), now_ms)
            return
        self._request.succeeded()
        self.identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._request.ended(sent)
        self._failed(error, now_ms)

    def _failed(self, error: KohortError, now_ms: int) -> None:
        self._request.failed(now_ms)
        self._on_failed(error)
