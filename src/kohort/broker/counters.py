"""What a broker counts of itself: requests, bytes, connections, logins, the journal of its groups.

Plain numbers that only grow, added to where things happen; nobody waits for them, and nothing is decided by them. What
can be read off the parts at any time (connections that stand, requests that wait, budgets) is not counted here. Who
shows it takes a copy (``kohort.metrics.own_state``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from kohort.coordinator.journal import JournalEntry, RequestFenced
from kohort.wire.apis import APIS
from kohort.wire.schema import FieldSpec, Message

SIZES: Final = 64
"""As many sizes of durations as bits in a number: size n holds those from 2 ** (n - 1) nanoseconds on."""
ERRORS_LOOKED_FOR: Final = 1_000
"""In how many parts of each list of an answer errors are looked for."""
ENTRIES_KEPT: Final = 20_000
"""Journal entries that wait for who shows rebalances; above it the oldest are forgotten."""
CODE: Final = "error_code"

FindErrors = Callable[[Message, Counter[int]], None]


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
        """Return them as they are now."""
        copied = Durations()
        copied.by_size, copied.total_ns = self.by_size.copy(), self.total_ns
        return copied


class ApiCounts:
    """The requests of one API that were answered, or never will be."""

    __slots__ = ("errors", "find_errors", "took")

    def __init__(self, response: type[Message]) -> None:
        self.took = Durations()
        """From when each was taken up until its answer was handed over, with all that it waited for."""
        self.errors: Counter[int] = Counter()
        """By code, of the answers and of their parts."""
        self.find_errors = _finder(response)


class BrokerCounters:
    """The counts of one broker. ``time_ns`` says how time passes; who runs the broker gives it."""

    def __init__(self) -> None:
        self.time_ns: Callable[[], int] = no_time
        self.by_api = {key: ApiCounts(api.response) for key, api in APIS.items()}
        self.bytes_in = 0
        self.bytes_out = 0
        self.closed: Counter[str] = Counter()
        """Connections that the broker has ended, by the kind of reason."""
        self.logins = 0
        """Those that succeeded."""
        self.journal: Counter[type[JournalEntry]] = Counter()
        """Entries that were written, by kind."""
        self.fenced: Counter[tuple[str, str]] = Counter()
        """Requests of members that were refused, by API and error."""
        self.wants_entries = False
        """Whether somebody takes the entries; else they are not kept."""
        self.entries: deque[JournalEntry] = deque(maxlen=ENTRIES_KEPT)
        self.entries_forgotten = 0
        self.loads = 0
        """Partitions of groups that were read from their log, and below how long each took."""
        self.load_ms_total = 0
        self.load_ms_longest = 0

    def answered(self, api_key: int, since_ns: int, message: Message | None) -> None:
        """Count a request that was taken up at ``since_ns``; None is an answer whose errors are counted elsewhere."""
        counts = self.by_api[api_key]
        took, ns = counts.took, self.time_ns() - since_ns
        took.by_size[ns.bit_length()] += 1
        took.total_ns += ns
        if message is not None and counts.find_errors is not None:
            counts.find_errors(message, counts.errors)

    def find_errors(self, api_key: int, message: Message) -> None:
        """Count the errors of an answer that is written in steps."""
        counts = self.by_api[api_key]
        if counts.find_errors is not None:
            counts.find_errors(message, counts.errors)

    def hung_up(self, kind: object) -> None:
        """Count a connection that the broker ends, for a reason of some kind."""
        self.closed[kind if isinstance(kind, str) else "other"] += 1

    def journal_written(self, entries: Sequence[JournalEntry]) -> None:
        """Count entries of the journal, and keep them where somebody takes them."""
        for entry in entries:
            self.journal[type(entry)] += 1
            if type(entry) is RequestFenced:
                self.fenced[entry.api, entry.error] += 1
        if self.wants_entries:
            self.entries_forgotten += max(0, len(self.entries) + len(entries) - ENTRIES_KEPT)
            self.entries.extend(entries)

    def take_entries(self) -> list[JournalEntry]:
        """Return the entries since the last call, in order."""
        taken = list(self.entries)
        self.entries.clear()
        return taken

    def loaded(self, took_ms: int) -> None:
        """Count a partition of ``__consumer_offsets`` that was read."""
        self.loads += 1
        self.load_ms_total += took_ms
        self.load_ms_longest = max(self.load_ms_longest, took_ms)


def _finder(message: type[Message]) -> FindErrors | None:
    """Return what counts the errors of messages of a kind; None where they can have none."""
    has_own = any(field.name == CODE for field in message.FIELDS)
    below = [
        (field.name, find)
        for field in message.FIELDS
        if (part := _part_of(field)) is not None and (find := _finder(part)) is not None
    ]
    if has_own and not below:
        return _count_own
    if not below:
        return None

    def find_all(found: Message, errors: Counter[int]) -> None:
        if has_own:
            _count_own(found, errors)
        for name, find in below:
            for one in islice(getattr(found, name) or (), ERRORS_LOOKED_FOR):
                find(one, errors)

    return find_all


def _part_of(field: FieldSpec) -> type[Message] | None:
    """Return what a list of parts holds; None for another field."""
    return field.of if field.kind == "array" and isinstance(field.of, type) else None


def _count_own(found: Message, errors: Counter[int]) -> None:
    code: int = found.error_code  # type: ignore[attr-defined]  # only for messages that have it
    if code:
        errors[int(code)] += 1
