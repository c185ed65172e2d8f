"""Order of records by key, for concurrency within a partition.

Records of one key are handled in order; records of different keys, and records without a key, at the same time. The
mark never passes an unfinished record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from kohort.model import Record


class KeyedRecords:
    """Unfinished records of one partition, and the finished records after the first unfinished one."""

    def __init__(self, concurrency: int, most: int) -> None:
        self._concurrency = concurrency
        self._most = most
        self._in_order: deque[Record] = deque()
        self._finished: set[int] = set()
        self._queues: dict[bytes | int, deque[Record]] = {}
        """Records of each key that has unfinished records; a record without a key is its own key, by offset."""
        self._ready: deque[bytes | int] = deque()
        """Keys with a record to handle and none being handled."""
        self._running = 0

    @property
    def count(self) -> int:
        """Number of records from the first unfinished one on."""
        return len(self._in_order)

    @property
    def room(self) -> int:
        return self._most - self.count

    @property
    def startable(self) -> int:
        """Number of records that may be started now."""
        return min(len(self._ready), self._concurrency - self._running)

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self._in_order.append(record)
            key = _key(record)
            queue = self._queues.get(key)
            if queue is None:
                queue = self._queues[key] = deque()
                self._ready.append(key)
            queue.append(record)

    def next(self) -> Record | None:
        """Start a record and return it; None if ``concurrency`` records are being handled or no key is free."""
        if not self.startable:
            return None
        self._running += 1
        return self._queues[self._ready.popleft()][0]

    def finish(self, record: Record) -> Record | None:
        """Finish a started record. Return the last record before the first unfinished one, if that has changed."""
        self._running -= 1
        key = _key(record)
        queue = self._queues[key]
        queue.popleft()
        if queue:
            self._ready.append(key)
        else:
            del self._queues[key]
        self._finished.add(record.offset)
        last = None
        while self._in_order and self._in_order[0].offset in self._finished:
            last = self._in_order.popleft()
            self._finished.remove(last.offset)
        return last


def _key(record: Record) -> bytes | int:
    return record.offset if record.key is None else record.key
