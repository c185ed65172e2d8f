"""Requests that wait: fetches for records, answers for the disk.

Requests that wait: fetches, until enough bytes have arrived on their partitions or their time is up.

Waiting requests are indexed by partition, so an append costs only what waits on that very partition.

Answers that wait for the disk, where ``flush.messages`` has them wait.

The appends of a request say which offsets have to be on the disk before its answer may leave. Flushes run beside the
broker; while somebody waits it looks every millisecond whether they are through. Appends that come meanwhile share
the next flush of their log (``kohort.log.partition``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.broker.request import Answer, ConnectionId, Refusal, ReplyTo, Request, Unanswered, refusal_of
from kohort.clock import Timers
from kohort.errors import ApiError
from kohort.log.partition import PartitionLog
from kohort.wire.schema import Message

PartitionKey = tuple[bytes, int]
"""Topic id and partition: a topic made anew under an old name is another one."""
CHECK_EVERY_MS: Final = 1
FlushTarget = tuple[PartitionLog, int]
"""A log, and the last offset of it that has to be on the disk."""


@dataclass(slots=True, eq=False)
class Parked:
    """One waiting request: woken when ``missing_bytes`` have been appended to its partitions."""

    reply_to: ReplyTo
    keys: list[PartitionKey]
    missing_bytes: int
    context: Any
    committed_only: bool = False
    """True for a reader of committed records."""
    serial: int = -1


class Purgatory:
    """All waiting requests of a broker. A connection has at most one, as it has one request in flight."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionKey, dict[int, Parked]] = {}
        self._parked: dict[int, Parked] = {}
        self._by_connection: dict[ConnectionId, int] = {}
        self._timers: Timers[int] = Timers()
        self.woken: dict[int, Parked] = {}
        """Requests to be answered now; they are no longer parked."""
        self._serial = 0
        self.parked = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._parked)

    def __iter__(self) -> Iterator[Parked]:
        """Yield who waits, for whoever looks from inside the process."""
        return iter(self._parked.values())

    @property
    def wake_at_ms(self) -> int | None:
        """Time of the next expiry; 0 while woken requests wait to be taken."""
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


@dataclass(slots=True, eq=False)
class PendingAnswer:
    """An answer that waits. ``finish`` makes it, given the logs whose flush failed."""

    reply_to: ReplyTo
    needs: Sequence[FlushTarget]
    finish: Callable[[dict[PartitionLog, Refusal]], Message]
    failed: dict[PartitionLog, Refusal] = field(default_factory=dict)

    def look(self) -> None:
        """Cross off what is through, one way or the other: what failed must not look well after a later flush."""
        self.needs = [needed for needed in self.needs if not self._is_through(*needed)]

    def _is_through(self, log: PartitionLog, offset: int) -> bool:
        try:
            return log.has_reached_disk(offset)
        except ApiError as error:
            self.failed[log] = refusal_of(error)
            return True


class FlushWaits:
    """All answers of a broker that wait for the disk."""

    def __init__(self) -> None:
        self._held: list[PendingAnswer] = []
        self.wake_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, held: PendingAnswer, now_ms: int) -> None:
        """Answer when all that ``held`` needs is on the disk, or cannot be brought there."""
        self._held.append(held)
        self.wake_at_ms = now_ms + CHECK_EVERY_MS

    def answer(self, request: Request, needs: Sequence[FlushTarget], answer: Message, otherwise: Message) -> Answer:
        """Answer a request when what it ``needs`` is on the disk: ``answer``, or ``otherwise`` where that failed."""
        if not needs:
            return answer
        self.hold(
            PendingAnswer(request.reply_to, needs, lambda failed: otherwise if failed else answer), request.now_ms
        )
        return Unanswered.LATER

    def take_back(self, reply_to: ReplyTo) -> PendingAnswer:
        """Return the answer that waits for ``reply_to``, which waits no longer."""
        held = next(held for held in self._held if held.reply_to == reply_to)
        self._held.remove(held)
        return held

    def check_now(self) -> None:
        """Have the next ``take_done`` look, whatever the clock says."""
        if self._held:
            self.wake_at_ms = 0

    def take_done(self, now_ms: int) -> list[tuple[ReplyTo, Message]]:
        """Return the answers that may leave now, in the order in which they began to wait."""
        if self.wake_at_ms is None or now_ms < self.wake_at_ms:
            return []
        done, waiting = [], []
        for held in self._held:
            held.look()
            if held.needs:
                waiting.append(held)
            else:
                done.append((held.reply_to, held.finish(held.failed)))
        self._held = waiting
        self.wake_at_ms = now_ms + CHECK_EVERY_MS if waiting else None
        return done
