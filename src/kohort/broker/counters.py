"""What a broker counts of itself: requests, bytes, connections, logins, the journal of its groups.

Plain numbers that only grow, added to where things happen; nobody waits for them, and nothing is decided by them. What
can be read off the parts at any time (connections that stand, requests that wait, budgets) is not counted here. Who
shows it takes a copy (``kohort.metrics.local_brokers``).
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
"""As many sizes of durations as bits in a number: size n holds those from 2 ** (n - 1) nanoseconds on."""
ERRORS_LOOKED_FOR: Final = 1_000
"""In how many parts of each list of an answer errors are looked for."""
ENTRIES_KEPT: Final = 20_000
"""Journal entries that wait for who shows rebalances; above it the oldest are forgotten."""
ENTRIES_KEPT_BYTES: Final = 32 << 20
"""The same of about how many bytes they hold: one of a large group holds megabytes."""
ITEM_US: Final = 0.2
"""Cost of one part."""
CODE: Final = "error_code"


def no_time() -> int:
    """Measure nothing: everything takes no time."""
    return 0


class Durations:
    """How long things took, by powers of two of a nanosecond: to add one costs a tenth of a microsecond."""

    __slots__ = ("by_size", "total_ns")

    def __init__(self) -> None:
        self.by_size = [0] * SIZES
        self.total_ns = 0

    def add(self, ns: int) -> None:
        """Count something that took ``ns`` nanoseconds."""
        self.by_size[ns.bit_length()] += 1
        self.total_ns += ns

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.by_size)

    def copy(self) -> Durations:
        copied = Durations()
        copied.by_size, copied.total_ns = self.by_size.copy(), self.total_ns
        return copied


class ApiCounts:
    """The requests of one API that were answered, or never will be.

    ``answered(ns, message)`` counts one that took so long; None is an answer whose errors are counted elsewhere.
    ``find_errors(message, is_due)`` counts the errors of an answer and of its parts, in steps. Both are written out for
    the API: the first is on the way of every request.
    """

    __slots__ = ("answered", "errors", "find_errors", "took")

    def __init__(self, response: type[Message]) -> None:
        self.took = Durations()
        """From when each was taken up until its answer was handed over, with all that it waited for."""
        self.errors: Counter[int] = Counter()
        """By code."""
        scope: dict[str, Any] = {"took": self.took, "by_size": self.took.by_size, "errors": self.errors}
        exec(_compiled(response), scope)
        self.answered: Callable[[int, Message | None], None] = scope["answered"]
        self.find_errors: Callable[[Message, Callable[[float], bool]], Steps[None]] = scope["find_errors"]


class LoopDelay:
    """Delay of a loop: the longest since its start, and the longest lately."""

    EVERY_MS: Final = 60_000

    def __init__(self) -> None:
        self.longest_ms = 0
        self._this = self._last = 0
        self._window = 0

    def add(self, late_ms: int, now_ms: int) -> None:
        """Count that it was so late just now."""
        self._turn(now_ms)
        self._this = max(self._this, late_ms)
        self.longest_ms = max(self.longest_ms, late_ms)

    def recent_ms(self, now_ms: int) -> int:
        """Return the most of the last one or two minutes."""
        self._turn(now_ms)
        return max(self._this, self._last)

    def _turn(self, now_ms: int) -> None:
        window = now_ms // self.EVERY_MS
        if window != self._window:
            self._last = self._this if window == self._window + 1 else 0
            self._this, self._window = 0, window


class CountsByApi(dict[int, ApiCounts]):
    """The counts by API key; those of an API are made when it is asked for the first time, as most never are."""

    def __missing__(self, key: int) -> ApiCounts:
        counts = self[key] = ApiCounts(APIS[key].response)
        return counts


class BrokerCounters:
    """The counts of one broker. ``time_ns`` says how time passes; who runs the broker gives it."""

    def __init__(self) -> None:
        self.time_ns: Callable[[], int] = no_time
        self.by_api = CountsByApi()
        self.bytes_in = 0
        self.bytes_out = 0
        self.closed: Counter[str] = Counter()
        """Connections that the broker has ended, by the kind of reason."""
        self.logins = 0
        """Those that succeeded."""
        self.failed_logins = 0
        """Counted when that is decided: a peer may leave before it is told."""
        self.journal: Counter[type[JournalEntry]] = Counter()
        """Entries that were written, by kind."""
        self.keeps_entries = False
        """True if a reader takes the entries; else they are not kept."""
        self._entries: deque[tuple[JournalEntry, int]] = deque()
        self._entries_bytes = 0
        self.entries_forgotten = 0
        self.loads = 0
        """Partitions of groups that were read from their log, and below how long each took."""
        self.load_ms_total = 0
        self.load_ms_longest = 0
        self.late = LoopDelay()

    def connection_closed(self, kind: object) -> None:
        """Count a connection that the broker ends, by the first part of its reason's kind."""
        name = kind[0] if isinstance(kind, tuple) else kind
        self.closed[name if isinstance(name, str) else "other"] += 1

    def journal_written(self, entries: Sequence[JournalEntry]) -> None:
        """Count entries of the journal, and keep them where somebody takes them."""
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
        """Return the entries since the last call, in order."""
        taken = [entry for entry, _ in self._entries]
        self._entries.clear()
        self._entries_bytes = 0
        return taken

    def loaded(self, took_ms: int) -> None:
        """Count a partition of ``__consumer_offsets`` that was read."""
        self.loads += 1
        self.load_ms_total += took_ms
        self.load_ms_longest = max(self.load_ms_longest, took_ms)


@cache
def _compiled(response: type[Message]) -> CodeType:
    """Return the source of what counts the answers of an API."""
    lines = list(_looks(response, "found", 1)) or ["    pass"]
    counting = ["    by_size[ns.bit_length()] += 1", "    took.total_ns += ns", "    if found is None: return", *lines]
    stepping = [*_looks(response, "found", 1, in_steps=True), "    return", "    yield"]
    bound = "by_size=by_size, took=took, errors=errors"  # a default is found sooner than a global
    source = [f"def answered(ns, found, {bound}):", *counting, "def find_errors(found, is_due):", *stepping]
    return compile("\n".join(source), f"<errors of {response.__name__}>", "exec")


def _looks(message: type[Message], name: str, depth: int, *, in_steps: bool = False) -> Iterator[str]:
    """Yield the lines that look for errors in a message called ``name``, and in the parts of its lists."""
    indent = "    " * depth
    for field in message.FIELDS:
        if field.name == CODE:
            yield f"{indent}if {name}.{CODE}: errors[int({name}.{CODE})] += 1"
        elif field.kind == "array" and isinstance(field.of, type):
            part = f"part{depth}"
            below = list(_looks(field.of, part, depth + 1, in_steps=in_steps))
            if below:
                yield f"{indent}of{depth} = {name}.{field.name} or ()"
                yield f"{indent}if len(of{depth}) > {ERRORS_LOOKED_FOR}: of{depth} = of{depth}[:{ERRORS_LOOKED_FOR}]"
                yield f"{indent}for {part} in of{depth}:"
                yield from below
                if in_steps:
                    yield f"{indent}    if is_due({ITEM_US}): yield"
