"""How much memory transactional ids and their open transactions may hold: what whoever may WRITE an id can make grow.

Kafka has no such limit. An id that is known goes on, up to twice the limit with the partitions of its transactions; new
ones are refused, unless some can be forgotten: those without a transaction that nobody has used for ``UNUSED_MS``, the
longest unused first. Forgotten, an id is as after ``transactional.id.expiration.ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kohort.coordinator.memory_budget import NO_LIMIT, THOSE_THERE, bytes_of_long_names
from kohort.coordinator.transactions.states import AT_REST
from kohort.coordinator.transactions.transaction import Transaction

ID_BYTES: Final = 800
"""What an id takes, about, beside its name; with its timers."""
PARTITION_BYTES: Final = 150
UNUSED_MS: Final = 86_400_000
LOOK_EVERY_MS: Final = 60_000
SPARE: Final = 8


class TransactionRoom:
    """The room of one process, counted with each change."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """How many bytes there may be; -1 for no limit."""
        self.used = 0
        self.refused = 0
        self._looked_ms: int | None = None

    def changed(self, before: Transaction | None, after: Transaction | None) -> None:
        """Count what is written of an id in place of what was."""
        self.used += size_of(after) - size_of(before)

    def takes(self, before: Transaction | None, after: Transaction) -> bool:
        """Tell whether there is room for a change."""
        added = size_of(after) - size_of(before)
        most = self.limit if before is None else THOSE_THERE * self.limit
        return self.limit == NO_LIMIT or added <= 0 or self.used + added <= most

    def to_forget(self, known: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        """Yield which ids to forget so that an eighth of the room is free, as far as there are some; none where one has
        looked within a minute."""
        if self._looked_ms is not None and now_ms - self._looked_ms < LOOK_EVERY_MS:
            return
        self._looked_ms = now_ms
        unused = [one for one in known if one.state in AT_REST and now_ms - one.updated_ms >= UNUSED_MS]
        surplus = self.used - (self.limit - self.limit // SPARE)
        for one in sorted(unused, key=lambda each: each.updated_ms):
            if surplus <= 0:
                return
            surplus -= size_of(one)
            yield one


def size_of(known: Transaction | None) -> int:
    """Return about how many bytes an id takes."""
    if known is None:
        return 0
    return ID_BYTES + bytes_of_long_names(known.transactional_id) + PARTITION_BYTES * len(known.partitions)
