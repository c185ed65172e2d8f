"""Start offsets of leader epochs: consumers query them to detect a truncated log (KIP-320).

The epoch is 0 from the first append and survives a clean restart. It increases when another node leads, and after an
unclean stop: records at the end may be lost, and the new epoch makes clients validate their positions.

The file is Kafka's ``leader-epoch-checkpoint``: a version (0), a count, then lines of ``epoch start_offset``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

EPOCHS_FILE: Final = "leader-epoch-checkpoint"
EPOCH_MAX: Final = 0x3FFFFFFF
"""Largest plausible epoch: a larger one in a batch is damaged, because the batch's CRC does not cover the epoch."""


@dataclass(slots=True, eq=False)
class LeaderEpochs:
    """Leader epochs and their start offsets, both increasing."""

    entries: list[tuple[int, int]] = field(default_factory=list)

    @property
    def latest(self) -> int | None:
        return self.entries[-1][0] if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin ``epoch`` at ``start_offset``, in place of epochs without records; return True if it is new."""
        if epoch > EPOCH_MAX or (self.entries and epoch <= self.entries[-1][0]):
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((epoch, start_offset))
        return True

    def truncate_end(self, end_offset: int) -> None:
        """Drop epochs that start at or after ``end_offset``."""
        self.entries = [entry for entry in self.entries if entry[1] < end_offset]

    def truncate_start(self, start_offset: int) -> bool:
        """Drop epochs that end before ``start_offset``; the epoch of ``start_offset`` then starts there.

        Returns True if an entry changed.
        """
        started = [entry for entry in self.entries if entry[1] <= start_offset]
        if not started:
            return False
        kept = [(started[-1][0], start_offset), *self.entries[len(started) :]]
        changed = kept != self.entries
        self.entries = kept
        return changed

    def end_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest epoch up to ``epoch`` and its end offset; (-1, -1) if ``epoch`` is in the future.

        The rules: protocol/fetching.md#end-of-an-epoch.
        """
        latest = self.latest
        if latest is None or epoch < 0 or epoch > latest:
            return -1, -1
        if epoch == latest:
            return epoch, log_end_offset
        after = next(i for i, entry in enumerate(self.entries) if entry[0] > epoch)
        found = self.entries[after - 1][0] if after else epoch
        return found, self.entries[after][1]

    def build(self) -> bytes:
        lines = ["0", str(len(self.entries)), *(f"{epoch} {start}" for epoch, start in self.entries)]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def parse(cls, data: bytes) -> LeaderEpochs:
        lines = data.decode("ascii").split("\n")
        if lines[0] != "0" or lines[-1] or len(lines) != int(lines[1]) + 3:
            raise ValueError("expected a version, a count, and that many entries")
        entries = []
        for line in lines[2:-1]:
            epoch, start = line.split(" ")
            entries.append((int(epoch), int(start)))
        if any(not 0 <= epoch <= EPOCH_MAX or start < 0 for epoch, start in entries):
            raise ValueError("epoch or offset out of range")
        if any(b[0] <= a[0] or b[1] <= a[1] for a, b in pairwise(entries)):
            raise ValueError("entries do not increase")
        return cls(entries)
