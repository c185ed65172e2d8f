"""What a history says of clients, transactions and groups, gathered for the checks."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort_lab.history.anomalies import Anomalies
from kohort_lab.history.logs import Logs
from kohort_lab.history.values import SentValues

NEVER: Final = 1 << 62
"""When something ended of which no end is known."""
SILENT_US: Final = 500_000
"""A client that writes nothing for so long may have been stopped."""


@dataclass(slots=True)
class ReadingSession:
    """Where a reader stands in a partition. ``exact``: positions are told, not only records; ``begins``: the line and
    the group of an assignment whose first record has not come yet.

    A commit may be on its way still when a reader seeks. ``left``: the farthest position that a seek left;
    ``left_start``: the line of a seek before the first record, and the group at whose offset the reader stood.
    """

    position: int | None = None
    left: int = -1
    left_start: tuple[int, str] | None = None
    exact: bool = False
    leader_epoch: int = -1
    begins: tuple[int, int, str] | None = None
    line: int = 0


@dataclass(slots=True)
class HistoryClient:
    """One client from its start to its end; a process that starts again is another one."""

    name: str
    number: int
    clock: str = ""
    idempotent: bool = False
    committed_only: bool = False
    session_us: int | None = None
    instance: str = ""
    """Its group.instance.id: who joins under it next takes its place, within the generation (KIP-345)."""
    declared: int = 0
    last_at: int = -1
    silences: list[tuple[int, int]] = field(default_factory=list)
    sessions: dict[int, ReadingSession] = field(default_factory=dict)
    commits: dict[tuple[str, int], tuple[int, int, int, int]] = field(default_factory=dict)
    """(generation, offset, done, line) of the last acknowledged commit, by group and partition."""
    contacts: array[int] = field(default_factory=lambda: array("q"))
    """When commits to a classic group were sent that were acknowledged, in order: each renews its session."""

    def heard_at(self, at: int) -> None:
        """Note that the client was alive at a time, in microseconds."""
        if at > self.last_at:
            if self.last_at >= 0 and at - self.last_at > SILENT_US:
                self.silences.append((self.last_at, at))
            self.last_at = at

    def silent_us(self, at: int) -> int:
        """Return for how long it had been silent at a time, in microseconds; 0 where it was not."""
        return max((at - begun for begun, end in self.silences if begun <= at <= end), default=0)


@dataclass(slots=True)
class TransactionFacts:
    """One transaction, as its client saw it."""

    name: str
    client: int
    line: int
    asked_at: int = NEVER
    """When its client first asked to commit it."""
    asked: bool = False
    committed: bool = False
    committed_done: int = NEVER
    refused: bool = False
    """Whether its client knows that it is not committed."""
    end_line: int = 0
    seen_line: int = 0
    """A line that read one of its records as committed."""

    @property
    def cannot_be_committed(self) -> bool:
        """Whether no reader of committed records may see it."""
        return not self.committed and (self.refused or not self.asked)

    @property
    def took_effect(self) -> bool:
        """Whether it is known to be committed: its client was told so, or a reader saw it."""
        return self.committed or (self.seen_line > 0 and not self.cannot_be_committed)


class CommitEntry(NamedTuple):
    """A commit of one partition; ``done`` is NEVER where no answer came. ``transaction`` is -1 where there is none."""

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
    """The commits of a group for one partition, in columns; those that were refused are left out."""

    def __init__(self) -> None:
        self._columns = tuple(array("q") for _ in CommitEntry._fields)

    def add(self, entry: CommitEntry) -> int:
        """Note one; return where it stands."""
        for column, value in zip(self._columns, entry, strict=True):
            column.append(value)
        return len(self._columns[0]) - 1

    def answered(self, at: int, done: int, line: int, acknowledged: bool | None) -> None:
        """Note what became of the one that stands at ``at``: None, it was refused."""
        self._columns[1][at] = done
        self._columns[3][at] = line
        self._columns[7][at] = -1 if acknowledged is None else acknowledged

    def __iter__(self) -> Iterator[CommitEntry]:
        for row in zip(*self._columns, strict=True):
            if row[7] >= 0:
                at, done, offset, line, client, generation, transaction, acknowledged, begun_from = row
                told = bool(acknowledged)
                yield CommitEntry(at, done, offset, line, client, generation, transaction, told, begun_from)


@dataclass(slots=True)
class Holding:
    """A partition in a member's hands: from when it was told of it until it has given it up."""

    client: int
    generation: int
    since: int
    line: int
    until: int = NEVER
    end_line: int = 0
    revoked: int = -1
    """When the coordinator had it told to give the partition up, if it did: by then it knew the member."""


class SessionStart(NamedTuple):
    """Where a member began to read a partition that it was given. ``strict``: it is a position; else a first record."""

    at: int
    done: int
    position: int
    strict: bool
    line: int
    client: int


class AssignmentTold(NamedTuple):
    """When a member was told what is its own, with which generation."""

    at: int
    done: int
    generation: int
    client: int
    line: int


@dataclass(slots=True)
class GroupFacts:
    """One group. Partitions are numbers in ``Logs.all``."""

    name: str
    classic: bool = True
    effects: str | None = None
    """The topic that has one record for each that the group reads, in transactions."""
    forgets: bool = False
    """Whether its offsets may expire or be deleted: where members begin says nothing then."""
    commits: dict[int, CommitEntries] = field(default_factory=dict)
    holdings: dict[int, list[Holding]] = field(default_factory=dict)
    starts: dict[int, list[SessionStart]] = field(default_factory=dict)
    told: list[AssignmentTold] = field(default_factory=list)

    def entries(self, log: int) -> CommitEntries:
        """Return the commits of a partition."""
        return self.commits.setdefault(log, CommitEntries())


class Doubt(NamedTuple):
    """A commit past what a member has read, of which the records between have to be looked at."""

    log: int
    position: int
    offset: int
    line: int
    read_line: int
    committed_only: bool
    exact: bool
    """Whether the position was told: then no record between is needed."""
    client: int
    left_start: tuple[int, str] | None
    """As in ReadingSession: an offset that somebody else had committed by that line, or ever, excuses this one."""


class HistoryFacts:
    """All that the checks look at when the last line has been read."""

    def __init__(self, anomalies: Anomalies) -> None:
        self.anomalies = anomalies
        self.values = SentValues()
        self.logs = Logs()
        self.clients: list[HistoryClient] = []
        self.transactions: list[TransactionFacts] = []
        self.transaction_numbers: dict[str, int] = {}
        self.groups: dict[str, GroupFacts] = {}
        self.second_places: dict[tuple[int, int], int] = {}
        """(value, place) where a value was said to lie beside its first place: the line that says so."""
        self.doubts: list[Doubt] = []
        self.of_value = array("i")
        self.of_place = array("q")
        """Which input (a place) a sent value is an effect of, in two columns."""

    def same_clock(self, one: int, other: int) -> bool:
        """Tell whether the times of two clients can be compared."""
        return self.clients[one].clock == self.clients[other].clock

    def is_gone(self, log: int, offset: int) -> bool:
        """Tell whether a record may be missing for a reason that is nobody's fault."""
        seen = self.logs.all[log]
        return offset < seen.begins or seen.topic in self.logs.compacted

    def transaction_of(self, value: int) -> TransactionFacts | None:
        """Return the transaction that a value was sent in."""
        number = self.values.transaction[value]
        return self.transactions[number] if number >= 0 else None
