"""Producer id, producer epoch, and the sequence numbers of each partition.

Rules: protocol/producers.md#numbering. An idempotent producer gets its id from any broker before its first batch, and
raises the epoch itself. A transactional producer gets both from its coordinator, through ``Transactions``.
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
class PartitionSequence:
    """Producer id, epoch, next sequence number and in-flight batches of one partition."""

    identity: ProducerIdAndEpoch = NO_PRODUCER_ID_AND_EPOCH
    next_sequence: int = 0
    acked_sequence: int = -1
    accepted: bool = False
    """True if the broker has accepted a batch of this producer id in the partition.

    Before that, the first batch is in flight alone. A broker accepts any sequence number from an unknown producer, so
    it could accept the second batch after it rejected the first one.
    """
    in_flight: list[ProduceBatch] = field(default_factory=list)
    recovering: bool = False
    """True from a failed batch to the next successful one. Meanwhile one batch at a time is in flight."""
    must_restart: bool = False
    """True if the sequence restarts at 0 with the next new batch, which waits until no batch is in flight."""
    not_before_ms: int = 0

    def acknowledge(self, batch: ProduceBatch) -> None:
        if batch.producer_epoch != self.identity.epoch:
            return
        last = (batch.base_sequence + batch.count - 1) % SEQUENCES
        if (last - self.acked_sequence) % SEQUENCES < SEQUENCES // 2:
            self.acked_sequence = last

    def is_superseded(self, batch: ProduceBatch) -> bool:
        """True if the log certainly contains this batch, because it contains a later batch of the partition.

        Brokers write batches in order. A broker recognizes duplicates only among its last five batches. This batch can
        be an older duplicate if its response was lost and the next leader accepted later batches. Returns False if
        every attempt to send this batch got an error: then the log lacks this batch. The later batch was accepted by a
        broker that had lost the producer's state.
        """
        if not batch.unanswered or self.identity != (batch.producer_id, batch.producer_epoch):
            return False
        behind = (self.acked_sequence - batch.base_sequence) % SEQUENCES
        return self.acked_sequence >= 0 and behind < SEQUENCES // 2


MAX_EPOCH: Final = 0x7FFE
NO_TRANSACTION_MS: Final = 0x7FFFFFFF


class Numbering(Protocol):
    """Source of a sender's producer id and epoch.

    ``restart_sequence`` gets another epoch for the next sequence; ``drop_identity`` drops a rejected id and epoch.
    """

    @property
    def identity(self) -> ProducerIdAndEpoch: ...
    def restart_sequence(self, identity: ProducerIdAndEpoch) -> None: ...
    def drop_identity(self) -> None: ...


class ProducerIds:
    """Request source that gets the producer id of an idempotent producer.

    ``is_needed`` returns True if batches wait for an id; ``on_failed`` gets the error of a request.
    """

    def __init__(
        self, config: ProducerConfig, rng: Rng, is_needed: Callable[[], bool], on_failed: Callable[[KohortError], None]
    ) -> None:
        self.identity = NO_PRODUCER_ID_AND_EPOCH
        self._config = config
        self._is_needed = is_needed
        self._on_failed = on_failed
        self._request = RequestState(retry_backoff(config, rng))

    def restart_sequence(self, identity: ProducerIdAndEpoch) -> None:
        if self.identity.epoch >= MAX_EPOCH:
            self.identity = NO_PRODUCER_ID_AND_EPOCH
        elif identity == self.identity:
            self.identity = ProducerIdAndEpoch(identity.producer_id, identity.epoch + 1)

    def drop_identity(self) -> None:
        self.identity = NO_PRODUCER_ID_AND_EPOCH

    def poll(self, now_ms: int) -> Poll:
        if self.identity != NO_PRODUCER_ID_AND_EPOCH or not self._is_needed():
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
