"""What a coordinator counts: the offsets that it writes, as Kafka's group-coordinator-metrics have them (KIP-848), and
the requests of members that it refuses. Numbers that only grow; nothing is decided on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from kohort.coordinator.records import OffsetCommitted, Record

GROUPS_MOST: Final = 10_000
NAMES_MOST_BYTES: Final = 4 << 20
"""Of the names of groups together; above it, or above so many groups, those that were refused first are forgotten."""


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


class FencedCounters:
    """Requests that were refused because their sender is not, or no longer, what it believes to be.

    Each request counts, however often it comes: the journal tells of a member once in a generation.
    """

    __slots__ = ("_names_bytes", "by_group", "by_kind")

    def __init__(self) -> None:
        self.by_kind: Counter[tuple[str, str]] = Counter()
        """By API and error."""
        self.by_group: dict[str, Counter[tuple[str, str]]] = {}
        """The same of each group."""
        self._names_bytes = 0

    def refused(self, group: str, api: str, error: str) -> None:
        """Count a request."""
        self.by_kind[api, error] += 1
        counted = self.by_group.get(group)
        if counted is None:
            counted = self.by_group[group] = Counter()
            self._names_bytes += len(group)
            while len(self.by_group) > GROUPS_MOST or self._names_bytes > NAMES_MOST_BYTES:
                self._forget(next(iter(self.by_group)))
        counted[api, error] += 1

    def keep(self, groups: Container[str]) -> None:
        """Forget all but the groups that there are."""
        for name in [name for name in self.by_group if name not in groups]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        del self.by_group[name]
        self._names_bytes -= len(name)
