"""Follows the coordinator's journal of one group, as any consumer can: it is a topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Final

from kohort.aio.consuming.consumer import Consumer
from kohort.coordinator.journal import TOPIC, AssignmentWritten, JournalEntry, MemberRemoved, RoundSettled
from kohort.errors import ApiTimeout
from kohort.insight.journal_reader import JournalReader
from kohort.model import TopicPartition

_POLL_MS: Final = 100
Holds = Callable[[list[JournalEntry]], bool]


class DemoJournal:
    """Every entry of a group from the beginning, in order."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._group = group
        self._consumer = Consumer(bootstrap_servers=bootstrap, client_id="demo-journal", auto_offset_reset="earliest")
        self._consumer.assign([TopicPartition(TOPIC, 0)])
        self._reader = JournalReader(group)

    @property
    def entries(self) -> list[JournalEntry]:
        """The entries that were read, in order."""
        return self._reader.entries

    def read_more(self) -> None:
        """Wait a moment for entries, and keep them."""
        for record in self._consumer.poll(_POLL_MS):
            self._reader.add(record.key, record.value)

    def read_all(self) -> list[JournalEntry]:
        """Read everything that the journal holds now."""
        partition = TopicPartition(TOPIC, 0)
        end = self._consumer.end_offsets([partition])[partition]
        while self._consumer.position(partition) < end:
            self.read_more()
        return self.entries

    def wait_for(
        self, holds: Callable[[list[JournalEntry]], bool], what: str, timeout_s: float, give_up: Event
    ) -> None:
        """Read until ``holds`` is true of the entries. Raises ApiTimeout naming what did not happen."""
        deadline = time.monotonic() + timeout_s
        while not holds(self.entries):
            if give_up.is_set() or time.monotonic() > deadline:
                raise ApiTimeout(f"group {self._group}: no {what} within {timeout_s:.0f} s")
            self.read_more()

    def close(self) -> None:
        self._consumer.close()


def settled_with(members: int) -> Holds:
    """Tell whether the last generation has so many members, each of which has partitions and knows it."""

    def holds(entries: list[JournalEntry]) -> bool:
        written = [e for e in entries if isinstance(e, AssignmentWritten)]
        settled = [e for e in entries if isinstance(e, RoundSettled)]
        if not written or not settled or settled[-1].generation != written[-1].generation:
            return False
        shares = (written[-1].partitions or {}).values()
        return len(shares) == members and all(any(share.values()) for share in shares)

    return holds


def removal_of(entries: list[JournalEntry], client_id: str) -> MemberRemoved | None:
    """Return the entry that says that a member is gone; the last one, if it was gone before and came back."""
    gone = [e for e in entries if isinstance(e, MemberRemoved) and e.who.client_id == client_id]
    return gone[-1] if gone else None
