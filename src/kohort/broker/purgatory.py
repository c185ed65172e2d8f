"""Waiting fetches, and responses that wait for a log flush.

A fetch waits until enough bytes arrive on its partitions or its maximum wait has passed. Fetches are indexed by
partition, so an append checks only the fetches of its partition.

If ``flush.messages`` demands it, a response waits until the appended records are on the disk. Flushes run in a separate
thread; the broker checks each millisecond if they are done.
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
CHECK_EVERY_MS: Final = 1
FlushTarget = tuple[PartitionLog, int]
"""A partition log, and the log offset up to which it must be flushed."""


@dataclass(slots=True, eq=False)
class Parked:
    """A Fetch request that waits until ``missing_bytes`` are appended to its partitions."""

    reply_to: ReplyTo
    keys: list[PartitionKey]
    missing_bytes: int
    context: Any
    committed_only: bool = False
    """True for a fetch with isolation level read_committed."""
    serial: int = -1


class Purgatory:
    """Waiting fetches of a broker, at most one per connection."""

    def __init__(self) -> None:
        self._by_partition: dict[PartitionKey, dict[int, Parked]] = {}
        self._parked: dict[int, Parked] = {}
        self._by_connection: dict[ConnectionId, int] = {}
        self._timers: Timers[int] = Timers()
        self.woken: dict[int, Parked] = {}
        self._serial = 0
        self.parked = 0
        self.expired = 0

    def __len__(self) -> int:
        return len(self._parked)

    def __iter__(self) -> Iterator[Parked]:
        """Yield the waiting fetches, for metrics and tests."""
        return iter(self._parked.values())

    @property
    def wake_at_ms(self) -> int | None:
        """Time in ms at which the next fetch expires; 0 if woken fetches are not answered yet."""
        return 0 if self.woken else self._timers.wake_at_ms

    def park(self, parked: Parked, deadline_ms: int) -> None:
        """Keep a fetch waiting until enough bytes are appended, at most until ``deadline_ms``."""
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
        """Count bytes appended to a partition, and wake the fetches that now have enough.

        ``undecided``: the bytes belong to an open transaction.
        """
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
        """Wake the fetches of partitions that were deleted, moved, or whose transactions ended."""
        for key in keys:
            for parked in list(self._by_partition.get(key, {}).values()):
                self._wake(parked)

    def wake_all(self) -> None:
        for parked in list(self._parked.values()):
            self._wake(parked)

    def forget(self, connection: ConnectionId) -> None:
        serial = self._by_connection.get(connection)
        if serial is not None:
            self._remove(self._parked[serial])
        for woken in [w for w in self.woken.values() if w.reply_to.connection == connection]:
            del self.woken[woken.serial]

    def wake_due(self, now_ms: int) -> None:
        if (wake_at := self._timers.wake_at_ms) is not None and wake_at <= now_ms:
            for serial in list(self._timers.pop_due(now_ms)):
                self.expired += 1
                self._wake(self._parked[serial])

    def take_woken(self) -> list[Parked]:
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
    """Response that waits for log flushes; ``finish(failed)`` builds it, with errors for logs whose flush failed."""

    reply_to: ReplyTo
    needs: Sequence[FlushTarget]
    finish: Callable[[dict[PartitionLog, Refusal]], Message]
    failed: dict[PartitionLog, Refusal] = field(default_factory=dict)

    def is_flushed(self, log: PartitionLog, offset: int) -> bool:
        """Return True if the flush finished or failed. A failed flush is reported even if a later flush succeeds."""
        try:
            return log.has_reached_disk(offset)
        except ApiError as error:
            self.failed[log] = refusal_of(error)
            return True


class FlushWaits:
    """Responses of a broker that wait for log flushes."""

    def __init__(self) -> None:
        self._held: list[PendingAnswer] = []
        self.wake_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, pending: PendingAnswer, now_ms: int) -> None:
        self._held.append(pending)
        self.wake_at_ms = now_ms + CHECK_EVERY_MS

    def answer(self, request: Request, needs: Sequence[FlushTarget], answer: Message, otherwise: Message) -> Answer:
        """Send ``answer`` when the logs in ``needs`` are flushed, or the response ``otherwise`` if a flush failed."""
        if not needs:
            return answer
        pending = PendingAnswer(request.reply_to, needs, lambda failed: otherwise if failed else answer)
        self.hold(pending, request.now_ms)
        return Unanswered.LATER

    def take_back(self, reply_to: ReplyTo) -> PendingAnswer:
        """Remove and return a request's response, which waits for log flushes."""
        pending = next(pending for pending in self._held if pending.reply_to == reply_to)
        self._held.remove(pending)
        return pending

    def check_now(self) -> None:
        """Let the next ``take_done`` check the log flushes, even before the usual interval has passed."""
        if self._held:
            self.wake_at_ms = 0

    def take_done(self, now_ms: int) -> list[tuple[ReplyTo, Message]]:
        """Return the responses whose log flushes have all finished or failed, in the order of their requests."""
        if self.wake_at_ms is None or now_ms < self.wake_at_ms:
            return []
        done, waiting = [], []
        for pending in self._held:
            pending.needs = [needed for needed in pending.needs if not pending.is_flushed(*needed)]
            if pending.needs:
                waiting.append(pending)
            else:
                done.append((pending.reply_to, pending.finish(pending.failed)))
        self._held = waiting
        self.wake_at_ms = now_ms + CHECK_EVERY_MS if waiting else None
        return done
