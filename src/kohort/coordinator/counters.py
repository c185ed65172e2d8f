"""What a coordinator counts of the offsets that it writes: numbers that only grow, as Kafka's group-coordinator-metrics
have them (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.records import OffsetCommitted, Record


class OffsetCounters:
    """Offsets that were committed, that expired, and that were deleted in another way."""

    __slots__ = ("committed", "deleted", "expired")

    def __init__(self) -> None:
        self.committed = 0
        self.expired = 0
        self.deleted = 0

    def written(self, records: Sequence[Record]) -> None:
        """Count the offsets among records that are on the log."""
        for record in records:
            if type(record) is OffsetCommitted:
                if record.value is None:
                    self.deleted += 1
                else:
                    self.committed += 1

    def expired_since(self, deleted: int) -> None:
        """Count as expired what was deleted since there were ``deleted``."""
        self.expired += self.deleted - deleted
        self.deleted = deleted
