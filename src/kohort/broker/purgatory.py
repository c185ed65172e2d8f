"""Requests that wait: fetches, until enough bytes have arrived on their partitions or their time is up.

Waiting requests are indexed by partition, so an append costs only what waits on that very partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kohort.broker.request import ConnectionId, ReplyTo
from kohort.clock import Timers

PartitionKey = tuple[bytes, int]
"""Topic id and partition: a topic made anew under an old name is another one."""


@dataclass(slots=True, eq=False)
class Parked:
    """One waiting request: woken when ``missing_bytes`` have been appended to its partitions."""

    reply_to: ReplyTo
    keys: list[PartitionKey]
    missing_bytes: int
    context: Any
    committed_only: bool = False
    """Whether bytes of an open transaction are of no use to it."""
    serial: int = -1


class Purgatory:
    """All waiting requests of a broker. A connection has at most one, as it has one request in flight."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionKey, dict[int, Parked]] = {}
        self._parked: dict[int, Parked] = {}
        self._by_connection: dict[ConnectionId, int] = {}
        self._timers: Timers[int] = Timers()
        self.woken: dict[int, Parked] = {}
        """Who is to be answered now, and is no longer parked."""
        self._serial = 0
        self.parked = 0
        """How many waited, and how many of them until their time was up."""
        self.expired = 0

    def __len__(self) -> int:
        return len(self._parked)

    def __iter__(self) -> Iterator[Parked]:
        """Yield who waits, for whoever looks from inside the process."""
        return iter(self._parked.values())

    @property
    def wake_at_ms(self) -> int | None:
        """When somebody's time is up; 0 while somebody is woken and not yet taken."""
        if self.woken:
            return 0
        return self._timers.wake_at_ms

    def park(self, parked: Parked, deadline_ms: int) -> None:
        """Keep ``parked`` until its bytes have come or ``deadline_ms`` has."""
        assert parked.reply_to.connection not in self._by_connection, "one request in flight per connection"
        self._serial += 1
        self.parked += 1
        parked.serial = self._serial
        self._parked[parked.serial] = parked
        self._by_connection[parked.reply_to.connection] = parked.serial
        self._timers.set(parked.serial, deadline_ms)
        for key in parked.keys:
            self._by_partition.setdefault(key, {})[parked.serial] = parked

    def appended(self, key: PartitionKey, size: int, *, undecided: bool = False) -> None:
        """Wake whoever has enough now that ``size`` bytes, of an open transaction if ``undecided``, were appended."""
        waiting = self._by_partition.get(key)
        if waiting is None:
            return
        for parked in list(waiting.values()):
            if undecided and parked.committed_only:
                continue
            parked.missing_bytes -= size
            if parked.missing_bytes <= 0:
                self._wake(parked)

    def changed(self, keys: Iterable[PartitionKey]) -> None:
        """Wake who waits on one of these partitions, to which something else happened (deleted, cut, decided)."""
        for key in keys:
            for parked in list(self._by_partition.get(key, {}).values()):
                self._wake(parked)

    def wake_all(self) -> None:
        """Wake everyone, whatever the clock says."""
        for parked in list(self._parked.values()):
            self._wake(parked)

    def forget(self, connection: ConnectionId) -> None:
        """Forget what waits for a connection that is gone."""
        serial = self._by_connection.get(connection)
        if serial is not None:
            self._remove(self._parked[serial])
        for woken in [w for w in self.woken.values() if w.reply_to.connection == connection]:
            del self.woken[woken.serial]

    def wake_due(self, now_ms: int) -> None:
        """Wake whose time is up."""
        if (wake_at := self._timers.wake_at_ms) is not None and wake_at <= now_ms:
            for serial in list(self._timers.pop_due(now_ms)):
                self.expired += 1
                self._wake(self._parked[serial])

    def take_woken(self) -> list[Parked]:
        """Return the requests to answer now: woken by bytes, or out of time."""
        woken = list(self.woken.values())
        self.woken.clear()
        return woken

    def _wake(self, parked: Parked) -> None:
        self._remove(parked)
        self.woken[parked.serial] = parked

    def _remove(self, parked: Parked) -> None:
        del self._parked[parked.serial]
        del self._by_connection[parked.reply_to.connection]
        self._timers.cancel(parked.serial)
        for key in parked.keys:
            waiting = self._by_partition.get(key)
            if waiting is not None:
                waiting.pop(parked.serial, None)
                if not waiting:
                    del self._by_partition[key]
