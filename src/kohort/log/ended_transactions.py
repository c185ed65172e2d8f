"""Which markers have nothing left to end: Kafka's rule (CleanedTransactionMetadata; KIP-98, KIP-534).

A marker is needed as long as a batch of its transaction is there, be it without records: a start that reads the log
would find the transaction open. A compaction reads from the log's start, so it has met whatever is left of a
transaction by the time it comes to its end.
"""

from __future__ import annotations

from kohort.errors import CorruptRecord
from kohort.wire.codec import Buffer
from kohort.wire.control_records import parse_marker
from kohort.wire.record_batch import BatchHeader


class EndedTransactions:
    """Transactions along one walk over a log. As many are remembered as are open at the same place."""

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: set[int] = set()
        """Producers of whose transaction something was met, and not yet its end."""

    def meet(self, header: BatchHeader) -> None:
        """Note that a batch of records is there."""
        if header.is_transactional:
            self._met.add(header.producer_id)

    def end(self, batch: Buffer, header: BatchHeader) -> bool:
        """Note what a control batch ends; whether nothing of that was met. What is no marker ends nothing, and is
        always needed."""
        if not header.record_count:
            return True
        try:
            marker = parse_marker(batch, header)
        except CorruptRecord:
            return False  # a start passes over it, and says so
        if marker is None:
            return False
        if marker.producer_id in self._met:
            self._met.remove(marker.producer_id)
            return False
        return True
