"""Facts of a history about clients, transactions and groups, for the checks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort_lab.history.anomalies import Anomalies
from kohort_lab.history.logs import Logs
from kohort_lab.history.values import SentValues

NEVER: Final = 1 << 62
"""End time of an operation whose end is not in the history."""
SILENT_US: Final = 500_000
"""Silence after which a client counts as possibly frozen, in microseconds."""


@dataclass(slots=True)
class ReadingSession:
    """Reader's state in one partition.

    ``exact``: the history states positions, not only records. ``begins``: (time, line, group) of an assignment without
    a record yet. ``highest_read``: highest position before a seek. ``seek_start``: line of a seek before the first
    record, and the group whose committed offset was the position. A commit may be in flight during a seek.
    """

    position: int | None = None
    highest_read: int = -1
    seek_start: tuple[int, str] | None = None
    exact: bool = False
    leader_epoch: int = -1
    begins: tuple[int, int, str] | None = None
    line: int = 0


@dataclass(slots=True)
class HistoryClient:
    """Life of one client process; a restarted process is another client."""

    name: str
    number: int
    clock: str = ""
    idempotent: bool = False
    committed_only: bool = False
    session_us: int | None = None
    instance: str = ""
    """group.instance.id: a new member with the same id replaces this client in the generation (KIP-345)."""
    declared: int = 0
    last_at: int = -1
    silences: list[tuple[int, int]] = field(default_factory=list)
    sessions: dict[int, ReadingSession] = field(default_factory=dict)
    commits: dict[tuple[str, int], tuple[int, int, int, int]] = field(default_factory=dict)
    """(generation, offset, done, line) of the last acknowledged commit, by group and partition."""
    contacts: array[int] = field(default_factory=lambda: array("q"))
    """Send times of acknowledged commits to a classic group, in order; each renews the session."""

    def note_contact(self, at: int) -> None:
        if at > self.last_at:
            if self.last_at >= 0 and at - self.last_at > SILENT_US:
                self.silences.append((self.last_at, at))
            self.last_at = at

    def silent_us(self, at: int) -> int:
        """Return the length of the silence around ``at``, in microseconds; 0 without silence."""
        return max((at - begun for begun, end in self.silences if begun <= at <= end), default=0)


@dataclass(slots=True)
class TransactionFacts:
    """Transaction as seen by its client."""

    name: str
    client: int
    line: int
    requested_at: int = NEVER
    """Time of the first commit request."""
    is_requested: bool = False
    committed: bool = False
    committed_done: int = NEVER
    refused: bool = False
    """True if the client knows that the commit failed."""
    end_line: int = 0
    read_line: int = 0
    """Line of a read_committed read of its records."""

    @property
    def cannot_be_committed(self) -> bool:
        """True if read_committed readers must not see its records."""
        return not self.committed and (self.refused or not self.is_requested)

    @property
    def took_effect(self) -> bool:
        """True if a response or a reader proves that the transaction was committed."""
        return self.committed or (self.read_line > 0 and not self.cannot_be_committed)


class CommitEntry(NamedTuple):
    """Commit of one partition; ``done`` is NEVER without response, ``transaction`` -1 outside of transactions."""

    at: int
    done: int
    offset: int
    line: int
    client: int
    generation: int
    transaction: int
    acknowledged: bool
    begun_from: int


class CommitEntries:
    """Commits of a group in one partition, as columns; rejected commits are skipped."""

    def __init__(self) -> None:
        self._columns = tuple(array("q") for _ in CommitEntry._fields)

    def add(self, entry: CommitEntry) -> int:
        """Append a commit and return its index."""
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)
        return len(self._columns[0]) - 1

    def answered(self, at: int, done: int, line: int, acknowledged: bool | None) -> None:
        """Set the result of the commit at index ``at``; None: rejected."""
        self._columns[1][at] = done
        self._columns[3][at] = line
        self._columns[7][at] = -1 if acknowledged is None else acknowledged

    def __iter__(self) -> Iterator[CommitEntry]:
        for row in zip(*self._columns, strict=True):
            if row[7] >= 0:
                at, done, offset, line, client, generation, transaction, acknowledged, begun_from = row
                entry = (at, done, offset, line, client, generation, transaction, bool(acknowledged), begun_from)
                yield CommitEntry(*entry)


@dataclass(slots=True)
class Holding:
    """Ownership of a partition by a member, from assignment to revocation."""

    client: int
    generation: int
    since: int
    line: int
    until: int = NEVER
    end_line: int = 0
    revoked: int = -1
    """Time of a revocation that the coordinator requested; -1 for none. It proves membership until then."""


class SessionStart(NamedTuple):
    """Start position of a member in an assigned partition; not ``strict``: offset of its first record."""

    at: int
    done: int
    position: int
    strict: bool
    line: int
    client: int


class AssignmentReceived(NamedTuple):
    """Time and generation of an assignment that a member received."""

    at: int
    done: int
    generation: int
    client: int
    line: int


@dataclass(slots=True)
class GroupFacts:
    """One group; partitions are indexes of ``Logs.all``."""

    name: str
    classic: bool = True
    effects: str | None = None
    """Output topic with one record per input record, written in transactions."""
    forgets: bool = False
    """True if offsets may expire or be deleted; start positions are unchecked then."""
    commits: dict[int, CommitEntries] = field(default_factory=dict)
    holdings: dict[int, list[Holding]] = field(default_factory=dict)
    starts: dict[int, list[SessionStart]] = field(default_factory=dict)
    assignments: list[AssignmentReceived] = field(default_factory=list)

    def entries(self, log: int) -> CommitEntries:
        return self.commits.setdefault(log, CommitEntries())


class Doubt(NamedTuple):
    """Commit beyond the member's position, valid only if no visible record lies between."""

    log: int
    position: int
    offset: int
    line: int
    read_line: int
    committed_only: bool
    exact: bool
    """True if the history states the position; no record in between is needed then."""
    client: int
    seek_start: tuple[int, str] | None
    """See ReadingSession: another member's commit of the same offset before this line explains this commit."""


class HistoryFacts:
    """Facts of the whole history."""

    def __init__(self, anomalies: Anomalies) -> None:
        self.anomalies = anomalies
        self.values = SentValues()
        self.logs = Logs()
        self.clients: list[HistoryClient] = []
        self.transactions: list[TransactionFacts] = []
        self.transaction_numbers: dict[str, int] = {}
        self.groups: dict[str, GroupFacts] = {}
        self.second_places: dict[tuple[int, int], int] = {}
        """Line of each value that was reported at a second place, by (value, place)."""
        self.doubts: list[Doubt] = []
        self.of_value = array("i")
        self.of_place = array("q")
        """Columns: a sent value, and the place of its input record."""

    def same_clock(self, one: int, other: int) -> bool:
        """Return True if the times of two clients are comparable."""
        return self.clients[one].clock == self.clients[other].clock

    def may_be_removed(self, log: int, offset: int) -> bool:
        """Return True if retention, deletion or compaction may have removed the record."""
        stored_log = self.logs.all[log]
        return offset < stored_log.begins or stored_log.topic in self.logs.compacted

    def transaction_of(self, value: int) -> TransactionFacts | None:
        number = self.values.transaction[value]
        return self.transactions[number] if number >= 0 else None
