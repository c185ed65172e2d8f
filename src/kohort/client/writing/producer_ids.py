"""The id and epoch under which a producer numbers its batches, and where they come from.

The rules: protocol/producers.md#numbering.

An idempotent producer asks any broker for an id once it has something to send, and raises the epoch itself. A
transactional one has both from its coordinator: there ``Transactions`` is the ``Numbering``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from kohort.client.requests.denials import answer_error
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import ANY_NODE, IDLE, Poll, Unsent
from kohort.client.writing.produce_batch import SEQUENCES, ProduceBatch
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import KohortError, error_code
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, ProducerIdAndEpoch
from kohort.wire.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.schema import Message


@dataclass(slots=True)
class Lineage:
    """Producer id, epoch, next sequence number and in-flight batches of one partition."""

    identity: ProducerIdAndEpoch = NO_PRODUCER_ID_AND_EPOCH
    next_sequence: int = 0
    acked_sequence: int = -1
    """Sequence of the last record known to be written; -1 at the start."""
    known: bool = False
    """The partition has accepted a batch of this producer id. A broker accepts any first number of an unknown producer,
    so a second batch might be accepted in place of a refused first one. The first batch is in flight alone."""
    under_way: list[ProduceBatch] = field(default_factory=list)
    recovering: bool = False
    """Something failed: one batch at a time until one succeeds."""
    begin_again: bool = False
    """The sequence is broken: it starts at 0 in the next epoch once no numbered batch is in flight."""
    not_before_ms: int = 0

    def acknowledge(self, batch: ProduceBatch) -> None:
        if batch.producer_epoch != self.identity.epoch:
            return
        last = (batch.base_sequence + batch.count - 1) % SEQUENCES
        if (last - self.acked_sequence) % SEQUENCES < SEQUENCES // 2:
            self.acked_sequence = last

    def is_past(self, batch: ProduceBatch) -> bool:
        """Tell whether a later batch is written, so that this one is: a broker takes the batches in order.

        A broker recognizes repetitions among the last five batches. An older one is repeated where its answer was lost
        and the next leader accepted later batches meanwhile. A batch whose every attempt was refused is not written: a
        broker that had forgotten the producer accepted a later batch as its first.
        """
        if not batch.unanswered or self.identity != (batch.producer_id, batch.producer_epoch):
            return False
        behind = (self.acked_sequence - batch.base_sequence) % SEQUENCES
        return self.acked_sequence >= 0 and behind < SEQUENCES // 2


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
