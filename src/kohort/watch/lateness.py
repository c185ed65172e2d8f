"""How late records come: by how much the time at which they are read is after the one that stands on them.

That is the difference of two clocks and what reading takes. Each partition of ``__consumer_offsets`` has a coordinator,
and so a clock, of its own; clocks drift and are set. So the least of the last minutes holds, by partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 300_000


@dataclass(slots=True)
class _Least:
    since_ms: int
    now: int
    earlier: int | None = None


class Lateness:
    """The least lateness of each partition, of the last one or two windows in which it had records."""

    def __init__(self) -> None:
        self._found: dict[int, _Least] = {}

    def add(self, partition: int, written_ms: int, read_ms: int) -> None:
        """Take a record that was read now; one without a time says nothing."""
        if written_ms < 0:
            return
        late_ms, known = read_ms - written_ms, self._found.get(partition)
        if known is None:
            self._found[partition] = _Least(read_ms, late_ms)
        elif not 0 <= read_ms - known.since_ms < WINDOW_MS:
            known.since_ms, known.earlier, known.now = read_ms, known.now, late_ms
        elif late_ms < known.now:
            known.now = late_ms

    def of(self, partition: int) -> int | None:
        """Return how late records of a partition come at least; None where there was none yet."""
        known = self._found.get(partition)
        if known is None:
            return None
        return known.now if known.earlier is None else min(known.now, known.earlier)
