"""The sequence of an idempotent producer in one partition (protocol/producers.md#numbering)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.client.writing.produce_batch import SEQUENCES, ProduceBatch
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, ProducerIdAndEpoch


@dataclass(slots=True)
class Lineage:
    """The sequence of one partition: under which id and epoch, what comes next, and what is under way."""

    identity: ProducerIdAndEpoch = NO_PRODUCER_ID_AND_EPOCH
    next_sequence: int = 0
    acked_sequence: int = -1
    """Sequence of the last record known to be written; -1 at the start."""
    known: bool = False
    """Whether the partition has taken anything of this producer id. In Kafka one that it does not know may begin with
    any number: after a first batch that is refused, as by a node that is not the leader yet, a second one might be
    taken for the first. So the first one is alone under way."""
    under_way: list[ProduceBatch] = field(default_factory=list)
    recovering: bool = False
    """Something failed: one batch at a time until one succeeds."""
    begin_again: bool = False
    """The sequence is broken: once it is known of all that have a number whether they are on the log, start at 0 in the
    next epoch."""
    not_before_ms: int = 0

    def acknowledge(self, batch: ProduceBatch) -> None:
        """Note that the batch is written. It may be one that others have overtaken: what is known stays known."""
        if batch.producer_epoch != self.identity.epoch:
            return
        last = (batch.base_sequence + batch.count - 1) % SEQUENCES
        if (last - self.acked_sequence) % SEQUENCES < SEQUENCES // 2:
            self.acked_sequence = last

    def is_past(self, batch: ProduceBatch) -> bool:
        """Tell whether one that comes after the batch is written, so that the batch is: a broker takes them in order.

        It knows repetitions among the last five. An older one comes again where its answer was lost by one leader, and
        the next leader took what followed meanwhile. One whose every attempt was refused is not written: there a
        broker that had forgotten this producer took what followed for its first.
        """
        if not batch.unanswered or self.identity != (batch.producer_id, batch.producer_epoch):
            return False
        behind = (self.acked_sequence - batch.base_sequence) % SEQUENCES
        return self.acked_sequence >= 0 and behind < SEQUENCES // 2
