"""Counters of a broker: requests, bytes, connections, logins, journal entries.

Counters only grow. State that can be read at any time (open connections, waiting requests, budgets) has no
counter. ``kohort.metrics`` reads a copy of the counters.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import CodeType
from typing import Any, Final

from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.journal_events import held_bytes
from kohort.steps import Steps
from kohort.wire.apis import APIS
from kohort.wire.schema import Message

SIZES: Final = 64
"""Number of histogram buckets; bucket n counts durations from 2 ** (n - 1) nanoseconds on."""
ERRORS_SEARCHED: Final = 1_000
"""Maximum number of entries of a response array in which errors are counted."""
ENTRIES_KEPT: Final = 20_000
"""Maximum number of group journal entries kept for the metrics; above it the oldest are dropped."""
ENTRIES_KEPT_BYTES: Final = 32 << 20
"""Approximate maximum bytes of the kept journal entries; an entry of a large group takes megabytes."""
ITEM_US: Final = 0.2
CODE: Final = "error_code"


def no_time() -> int:
    return 0


class Durations:
    """Histogram of durations; each bucket is twice as wide as the previous bucket."""

    def __init__(self) -> None:
        self.by_size = [0] * SIZES
        self.total_ns = 0

    def add(self, ns: int) -> None:
        self.by_size[ns.bit_length()] += 1
        self.total_ns += ns

    @property
    def count(self) -> int:
        return sum(self.by_size)

    def copy(self) -> Durations:
        copied = Durations()
        copied.by_size, copied.total_ns = self.by_size.copy(), self.total_ns
        return copied


class ApiCounts:
    """Durations and errors of the requests of one API.

    ``answered(ns, message)`` counts a request and the errors in its response; ``message`` of None: no errors to count.
    ``find_errors(message, is_due)`` counts the errors of a response in steps. Both functions are compiled for each API,
    as each request calls them.
    """

    def __init__(self, response: type[Message]) -> None:
        self.took = Durations()
        """Durations from receipt of a request to its response, including waits."""
        self.errors: Counter[int] = Counter()
        scope: dict[str, Any] = {"took": self.took, "by_size": self.took.by_size, "errors": self.errors}
        exec(_compiled(response), scope)
        self.answered: Callable[[int, Message | None], None] = scope["answered"]
        self.find_errors: Callable[[Message, Callable[[float], bool]], Steps[None]] = scope["find_errors"]


class LoopDelay:
    """Longest delay of the broker's event loop, since the start and within the last two minutes."""

    EVERY_MS: Final = 60_000

    def __init__(self) -> None:
        self.longest_ms = 0
        self._this = self._last = 0
        self._window = 0

    def add(self, late_ms: int, now_ms: int) -> None:
        self._turn(now_ms)
        self._this = max(self._this, late_ms)
        self.longest_ms = max(self.longest_ms, late_ms)

    def recent_ms(self, now_ms: int) -> int:
        """Return the longest delay of the event loop within the last one to two minutes, in ms."""
        self._turn(now_ms)
        return max(self._this, self._last)

    def _turn(self, now_ms: int) -> None:
        window = now_ms // self.EVERY_MS
        if window != self._window:
            self._last = self._this if window == self._window + 1 else 0
            self._this, self._window = 0, window


class CountsByApi(dict[int, ApiCounts]):
    """Request counters, as a dict: API key to the counters of the API, created on first use."""

    def __missing__(self, key: int) -> ApiCounts:
        counts = self[key] = ApiCounts(APIS[key].response)
        return counts


class BrokerCounters:
    """Counters of one broker. The server sets the clock ``time_ns``."""

    def __init__(self) -> None:
        self.time_ns: Callable[[], int] = no_time
        self.by_api = CountsByApi()
        self.bytes_in = 0
        self.bytes_out = 0
        self.closed: Counter[str] = Counter()
        """Number of connections that the broker closed for each reason."""
        self.logins = 0
        self.failed_logins = 0
        """Failed logins, counted when they fail: the client may disconnect before the response is sent."""
        self.journal: Counter[type[JournalEntry]] = Counter()
        """Number of written group journal entries of each type."""
        self.keeps_entries = False
        self._entries: deque[tuple[JournalEntry, int]] = deque()
        self._entries_bytes = 0
        self.entries_forgotten = 0
        self.loads = 0
        self.load_ms_total = 0
        self.load_ms_longest = 0
        self.late = LoopDelay()

    def connection_closed(self, kind: object) -> None:
        """Count a connection that the broker closes under its kind of reason; of a tuple, under the first item."""
        name = kind[0] if isinstance(kind, tuple) else kind
        self.closed[name if isinstance(name, str) else "other"] += 1

    def journal_written(self, entries: Sequence[JournalEntry]) -> None:
        """Count written group journal entries, and keep them for the metrics if these are enabled."""
        for entry in entries:
            self.journal[type(entry)] += 1
        if self.keeps_entries:
            for entry in entries:
                self._keep(entry)

    def _keep(self, entry: JournalEntry) -> None:
        size = held_bytes(entry)
        self._entries.append((entry, size))
        self._entries_bytes += size
        while len(self._entries) > ENTRIES_KEPT or self._entries_bytes > ENTRIES_KEPT_BYTES:
            self._entries_bytes -= self._entries.popleft()[1]
            self.entries_forgotten += 1

    def take_entries(self) -> list[JournalEntry]:
        """Return the group journal entries kept since the last call, in order."""
        taken = [entry for entry, _ in self._entries]
        self._entries.clear()
        self._entries_bytes = 0
        return taken

    def loaded(self, took_ms: int) -> None:
        self.loads += 1
        self.load_ms_total += took_ms
        self.load_ms_longest = max(self.load_ms_longest, took_ms)


@cache
def _compiled(response: type[Message]) -> CodeType:
    """Compile the functions ``answered`` and ``find_errors`` for one response type."""
    lines = list(_error_search(response, "found", 1)) or ["    pass"]
    counting = ["    by_size[ns.bit_length()] += 1", "    took.total_ns += ns", "    if found is None: return", *lines]
    stepping = [*_error_search(response, "found", 1, in_steps=True), "    return", "    yield"]
    bound = "by_size=by_size, took=took, errors=errors"  # Python finds default arguments faster than globals
    source = [f"def answered(ns, found, {bound}):", *counting, "def find_errors(found, is_due):", *stepping]
    return compile("\n".join(source), f"<errors of {response.__name__}>", "exec")


def _error_search(message: type[Message], name: str, depth: int, *, in_steps: bool = False) -> Iterator[str]:
    """Generate Python code that counts the error codes of a response and of its arrays."""
    indent = "    " * depth
    for field in message.FIELDS:
        if field.name == CODE:
            yield f"{indent}if {name}.{CODE}: errors[int({name}.{CODE})] += 1"
        elif field.kind == "array" and isinstance(field.of, type):
            part = f"part{depth}"
            below = list(_error_search(field.of, part, depth + 1, in_steps=in_steps))
            if below:
                yield f"{indent}of{depth} = {name}.{field.name} or ()"
                yield f"{indent}if len(of{depth}) > {ERRORS_SEARCHED}: of{depth} = of{depth}[:{ERRORS_SEARCHED}]"
                yield f"{indent}for {part} in of{depth}:"
                yield from below
                if in_steps:
                    yield f"{indent}    if is_due({ITEM_US}): yield"
