"""Clock and randomness as arguments of state machines, and keyed timers.

State machines read no clock and draw no random numbers: they receive ``now_ms`` with every event and an ``Rng`` at
their construction. So the inputs determine a run, and a seed repeats it.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Final, Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Clock(Protocol):
    """Source of ``now_ms``: monotonic milliseconds, counted from the wall clock of the start."""

    def now_ms(self) -> int: ...

    def ahead_ms(self) -> int:
        """Return the wall clock less ``now_ms``: 0 until the wall clock is set."""
        ...


class WallTime:
    """The wall clock as an offset from ``now_ms``.

    Timers, sessions and times in memory go by ``now_ms``. Times in records and answers are wall time.
    """

    __slots__ = ("ahead_ms",)

    def __init__(self) -> None:
        self.ahead_ms = 0

    def at(self, now_ms: int) -> int:
        return now_ms + self.ahead_ms


class Rng(Protocol):
    """Source of random numbers and ids, such as a (seeded) ``random.Random``."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def getrandbits(self, k: int) -> int: ...


class ManualClock:
    """A clock for tests and the simulator that moves only with ``advance``."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def ahead_ms(self) -> int:
        return self._ahead_ms

    def set_wall(self, ahead_ms: int) -> None:
        """Set the wall clock to ``ahead_ms`` after (or, if negative, before) ``now_ms``."""
        self._ahead_ms = ahead_ms

    def advance(self, delta_ms: int) -> int:
        """Move forward by ``delta_ms`` and return the new time."""
        assert delta_ms >= 0, "time does not go back"
        self._now_ms += delta_ms
        return self._now_ms


_BASE64_DASH: Final = 62
"""Six bits that base64url writes as ``-``."""


def random_uuid(rng: Rng) -> bytes:
    """Draw a version 4 UUID for a topic, member or client; Kafka's text of it does not begin with ``-``.

    Command lines read a leading dash as an option, so Kafka's ``Uuid.randomUuid`` draws such ids again, too.
    """
    while (bits := _uuid_bits(rng)) >> 122 == _BASE64_DASH:
        pass
    return bits.to_bytes(16)


def _uuid_bits(rng: Rng) -> int:
    return (rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48)) | (4 << 76) | (2 << 62)


def uuid_text(rng: Rng) -> str:
    """Draw a version 4 UUID in its usual 36 characters, such as the end of a classic member id."""
    text = f"{_uuid_bits(rng):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def earliest(*times_ms: int | None) -> int | None:
    first_ms = None
    for at_ms in times_ms:
        if at_ms is not None and (first_ms is None or at_ms < first_ms):
            first_ms = at_ms
    return first_ms


class Timers(Generic[K]):
    """Timers by key: one deadline per key, fired by deadline, then in the order of setting.

    Each millisecond with a deadline has a slot, so setting, moving and cancelling a timer take two dictionary
    operations. The heap has the times of the slots. Times of emptied slots stay in the heap until they are most of it.
    """

    def __init__(self) -> None:
        self._deadlines: dict[K, int] = {}
        self._slots: dict[int, dict[K, None]] = {}
        self._times: list[int] = []

    def __len__(self) -> int:
        return len(self._deadlines)

    def __contains__(self, key: K) -> bool:
        return key in self._deadlines

    def set(self, key: K, at_ms: int) -> None:
        self.cancel(key)
        self._deadlines[key] = at_ms
        slot = self._slots.get(at_ms)
        if slot is not None:
            slot[key] = None
            return
        self._slots[at_ms] = {key: None}
        heapq.heappush(self._times, at_ms)
        if len(self._times) > 64 + 2 * len(self._slots):
            self._times = sorted(self._slots)

    def cancel(self, key: K) -> None:
        at_ms = self._deadlines.pop(key, None)
        if at_ms is not None:
            slot = self._slots[at_ms]
            del slot[key]
            if not slot:
                del self._slots[at_ms]

    def deadline_ms(self, key: K) -> int | None:
        return self._deadlines.get(key)

    @property
    def wake_at_ms(self) -> int | None:
        times = self._times
        while times and times[0] not in self._slots:
            heapq.heappop(times)
        return times[0] if times else None

    def pop_due(self, now_ms: int) -> Iterator[K]:
        """Yield the keys of due timers, earliest first. A timer is removed before its key is yielded."""
        while (at_ms := self.wake_at_ms) is not None and at_ms <= now_ms:
            for key in list(self._slots[at_ms]):  # the caller may set and cancel timers meanwhile
                if self._deadlines.get(key) == at_ms:
                    self.cancel(key)
                    yield key

    def keys(self) -> list[K]:
        return list(self._deadlines)
