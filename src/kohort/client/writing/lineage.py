"""The sequence of an idempotent producer in one partition (protocol/producers.md#numbering)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.client.writing.produce_batch import SEQUENCES, ProduceBatch
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, ProducerIdAndEpoch


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
        """Note that the batch is written; later batches may have been acknowledged before it."""
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
