"""Answers that wait for the disk, where ``flush.messages`` has them wait.

The appends of a request say which offsets have to be on the disk before its answer may leave. Flushes run beside the
broker; while somebody waits it looks every millisecond whether they are through. Appends that come meanwhile share
the next flush of their log (``kohort.log.partition``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.broker.request import Answer, Refusal, ReplyTo, Request, Unanswered, refusal_of
from kohort.errors import ApiError
from kohort.log.partition import PartitionLog
from kohort.wire.schema import Message

LOOK_EVERY_MS: Final = 1

Needed = tuple[PartitionLog, int]
"""A log, and the last offset of it that has to be on the disk."""


@dataclass(slots=True, eq=False)
class Held:
    """An answer that waits. ``finish`` makes it, given the logs whose flush failed."""

    reply_to: ReplyTo
    needs: Sequence[Needed]
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
        self._held: list[Held] = []
        self.wake_at_ms: int | None = None

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, held: Held, now_ms: int) -> None:
        """Answer when all that ``held`` needs is on the disk, or cannot be brought there."""
        self._held.append(held)
        self.wake_at_ms = now_ms + LOOK_EVERY_MS

    def answer(self, request: Request, needs: Sequence[Needed], answer: Message, otherwise: Message) -> Answer:
        """Answer a request when what it ``needs`` is on the disk: ``answer``, or ``otherwise`` where that failed."""
        if not needs:
            return answer
        self.hold(Held(request.reply_to, needs, lambda failed: otherwise if failed else answer), request.now_ms)
        return Unanswered.LATER

    def take_back(self, reply_to: ReplyTo) -> Held:
        """Return the answer that waits for ``reply_to``, which waits no longer."""
        held = next(held for held in self._held if held.reply_to == reply_to)
        self._held.remove(held)
        return held

    def look_again(self) -> None:
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
        self.wake_at_ms = now_ms + LOOK_EVERY_MS if waiting else None
        return done
