"""From journal entries to what modern groups did (KIP-848): each raise of the epoch, until all are at the target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kohort.coordinator.journal import (
    AwaitedPartition,
    EpochRaised,
    GroupConverted,
    GroupDeleted,
    GroupUnloaded,
    JournalEntry,
    MemberReconciled,
    Move,
    RequestFenced,
    TargetComputed,
    Who,
)
from kohort.coordinator.journal_events import MemberDisconnected, PartitionsResumed
from kohort.insight.holdings import GONE, Gap, JournaledGroup, JournaledMember, Place
from kohort.insight.rebalances import REMEMBERED_MS

FIRST_EPOCHS: Final = 2
"""First epoch of a group; 2 if its first member subscribes by an expression."""
REMEMBERED: Final = 1000
EpochEnd = Literal["assigning", "reconciling", "stable", "empty", "superseded", "interrupted", "converted"]


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member at the end of a rebalance, or now: its assignment and its target."""

    who: Who
    epoch: int | None
    state: str
    known: bool
    """Whether the journal has the whole assignment."""
    had: tuple[Place, ...]
    """Assignment when the epoch rose."""
    has: tuple[Place, ...]
    target: tuple[Place, ...] | None
    revoking: tuple[Place, ...]
    revoking_since_ms: int | None
    awaited: tuple[AwaitedPartition, ...]

    @property
    def is_undisturbed(self) -> bool:
        """Whether it keeps its assignment."""
        return self.known and self.had == self.has and not self.revoking and self.target in (None, self.has)


@dataclass(slots=True)
class EpochRebalance:
    """One or more raises of the group epoch with one target, until every member has that target.

    ``end``: ``assigning`` waits for the target, ``reconciling`` for members, ``superseded`` was raised again,
    ``interrupted`` lost its coordinator, ``converted`` became a classic group.
    """

    group: str
    raises: list[EpochRaised]
    converted: GroupConverted | None = None
    """Conversion from the classic protocol with the first raise."""
    removed_before: EpochRaised | None = None
    """Earlier departure of the joining member, or of its client."""
    removed_from: EpochRebalance | None = None
    """Rebalance of that departure."""
    back: dict[str, tuple[Who, int]] = field(default_factory=dict)
    """By id of a removed member: the member as which its client rejoined, and when."""
    left_revoking: tuple[Place, ...] = ()
    """Pending revocations of the removed member."""
    revoking_since_ms: int | None = None
    was_empty: bool = False
    target: TargetComputed | None = None
    moves: tuple[Move, ...] = ()
    """Moves to the target; departed members are earlier owners."""
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Partition counts of changed topics in the target: before and after."""
    steps: list[MemberReconciled] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    """Gaps that began with it."""
    fenced: list[RequestFenced] = field(default_factory=list)
    disconnected: list[MemberDisconnected] = field(default_factory=list)
    resumed: list[PartitionsResumed] = field(default_factory=list)
    members: tuple[MemberRow, ...] = ()
    settled_at_ms: int | None = None
    end: EpochEnd = "assigning"

    @property
    def opened_at_ms(self) -> int:
        return self.raises[0].at_ms

    @property
    def from_epoch(self) -> int:
        return self.raises[0].epoch - 1

    @property
    def epoch(self) -> int:
        return self.raises[-1].epoch

    @property
    def took_ms(self) -> int | None:
        """From the raise to the last member with the target; None if unfinished."""
        return None if self.settled_at_ms is None else self.settled_at_ms - self.opened_at_ms

    @property
    def phases_ms(self) -> dict[str, int]:
        """Finished phases in order: target, last revocation, last assignment, last member, and the first fetches of
        new owners, which ``took_ms`` does not count."""
        revoked = max((s.at_ms for s in self.steps if s.revoked), default=None)
        given = max((s.at_ms for s in self.steps if s.given), default=None)
        points = {
            "target": None if self.target is None else self.target.at_ms,
            "revoke": revoked,
            "give": given,
            "settle": self.settled_at_ms,
            "resume": max((entry.at_ms for entry in self.resumed), default=None),
        }
        phases, last_ms = {}, self.opened_at_ms
        for name, at_ms in points.items():
            if at_ms is not None:
                phases[name] = max(0, at_ms - last_ms)
                last_ms = max(last_ms, at_ms)
        return phases

    @property
    def unrevoked(self) -> list[MemberRow]:
        """Members with pending revocations, longest first."""
        waiting = [row for row in self.members if row.revoking]
        return sorted(waiting, key=lambda row: row.revoking_since_ms or 0)

    @property
    def held_up(self) -> MemberReconciled | None:
        """The step of the slowest revocation."""
        slow = [step for step in self.steps if step.revoked_after_ms]
        return max(slow, key=lambda step: step.revoked_after_ms or 0, default=None)

    @property
    def undisturbed(self) -> list[MemberRow]:
        return [row for row in self.members if row.is_undisturbed]

    @property
    def longest_gap(self) -> Gap | None:
        """The longest finished gap of a partition without an owner."""
        return max((g for g in self.gaps if g.until_ms is not None), key=lambda g: g.took_ms or 0, default=None)

    @property
    def unowned_ms(self) -> int:
        """Sum of the finished gaps."""
        return sum(gap.took_ms or 0 for gap in self.gaps)


def epoch_rebalances(entries: Iterable[JournalEntry]) -> list[EpochRebalance]:
    """Return the rebalances of consumer groups in ``entries``, in the order of the journal, by opening time.

    A journal whose older entries have expired begins with the next raise.
    """
    histories: dict[str, _History] = {}
    for entry in entries:
        histories.setdefault(entry.group, _History()).take(entry)
    for history in histories.values():
        history.close()
    found = [rebalance for history in histories.values() for rebalance in history.found]
    return sorted(found, key=lambda rebalance: rebalance.opened_at_ms)


class _History:
    """What is known of one group while its entries are read in order."""

    def __init__(self) -> None:
        self.found: list[EpochRebalance] = []
        self.holdings = JournaledGroup()
        self.had: dict[str, tuple[Place, ...]] = {}
        self.converted: GroupConverted | None = None
        self.went: list[EpochRaised] = []

    @property
    def under_way(self) -> EpochRebalance | None:
        latest = self.found[-1] if self.found else None
        return latest if latest is not None and latest.end in ("assigning", "reconciling") else None

    def take(self, entry: JournalEntry) -> None:
        if isinstance(entry, EpochRaised):
            self._raise(entry)
        this = self.under_way
        gaps = len(self.holdings.gaps)
        if this is not None and isinstance(entry, TargetComputed):
            self._aim(this, entry)
        else:
            self.holdings.take(entry)
        if self.found:
            self.found[-1].gaps += self.holdings.gaps[gaps:]
        if isinstance(entry, RequestFenced) and self.found:
            self.found[-1].fenced.append(entry)
        elif isinstance(entry, PartitionsResumed) and self.found:
            self.found[-1].resumed.append(entry)
        elif isinstance(entry, MemberDisconnected):
            self._disconnect(entry)
        elif isinstance(entry, GroupConverted):
            self.converted = entry if entry.to == "consumer" else None
            self._end("converted")
        elif isinstance(entry, GroupUnloaded):
            self._end("interrupted")
        elif isinstance(entry, GroupDeleted):
            self._end("empty")
            self.holdings = JournaledGroup()
        elif isinstance(entry, EpochRaised) and not entry.members:
            self._end("empty")
        elif this is not None and isinstance(entry, MemberReconciled):
            this.steps.append(entry)
            self._settle(this, entry.at_ms)

    def _aim(self, this: EpochRebalance, entry: TargetComputed) -> None:
        before, sizes = dict(self.holdings.planned), self.holdings.topic_sizes()
        self.holdings.take(entry)
        after = self.holdings.topic_sizes()
        this.target, this.end = entry, "reconciling"
        this.sizes = {t: (sizes[t], after[t]) for t in sorted({*sizes, *after}) if sizes[t] != after[t]}
        this.moves = tuple(self._named(move, before) for move in entry.moves)

    def _named(self, move: Move, before: dict[Place, str]) -> Move:
        topic = self.holdings.name(move.topic)
        return Move(topic, move.partition, move.before or before.get((topic, move.partition)), move.after)

    def _raise(self, entry: EpochRaised) -> None:
        cause, this = entry.cause, self.under_way
        member = self.holdings.members.get(cause.who.member_id) if cause.who is not None else None
        if this is not None and this.end == "assigning":
            this.raises.append(entry)
        else:
            self._end("superseded")
            members = self.holdings.members
            self.had = {member_id: tuple(sorted(_held(m))) for member_id, m in members.items()}
            opened = EpochRebalance(entry.group, [entry])
            opened.was_empty = self.found[-1].end == "empty" if self.found else entry.epoch <= FIRST_EPOCHS
            if self.converted is not None and self.converted.at_ms == entry.at_ms:
                opened.converted = self.converted
            if cause.event == "member_joined" and cause.who is not None:
                before = opened.removed_before = self._went_before(cause.who)
                opened.removed_from = next((r for r in reversed(self.found) if before in r.raises), None)
            if member is not None and member.revoking:
                opened.left_revoking = tuple(sorted(member.revoking))
                opened.revoking_since_ms = min(member.revoking.values())
            self.found.append(opened)
        self.converted = None
        if cause.event == "member_joined" and cause.who is not None:
            self._came_back(cause.who, entry.at_ms)
        if cause.who is not None and cause.event in GONE:
            self.went.append(entry)
            del self.went[:-REMEMBERED]

    def _went_before(self, who: Who) -> EpochRaised | None:
        """Return how this member departed, or else the last departed member of the same client."""
        for raised in reversed(self.went):
            gone = raised.cause.who
            if gone is not None and gone.member_id == who.member_id:
                return raised
        there = {(m.who.client_id, m.who.client_host) for m in self.holdings.members.values() if m.who != who}
        client = who.client_id, who.client_host
        if client in there or not who.client_id:
            return None
        for raised in reversed(self.went):
            gone = raised.cause.who
            if gone is not None and (gone.client_id, gone.client_host) == client:
                return raised
        return None

    def _came_back(self, who: Who, at_ms: int) -> None:
        for this in reversed(self.found):
            if at_ms - this.opened_at_ms > REMEMBERED_MS:
                return
            for raised in this.raises:
                gone = raised.cause.who
                if raised.cause.event not in GONE or gone is None or gone.member_id in this.back:
                    continue
                if (gone.client_id, gone.client_host) == (who.client_id, who.client_host):
                    this.back[gone.member_id] = who, at_ms
                    return

    def _disconnect(self, entry: MemberDisconnected) -> None:
        for this in reversed(self.found):
            gone = [raised.cause.who for raised in this.raises if raised.cause.event == "member_left"]
            if any(who is not None and who.member_id == entry.who.member_id for who in gone):
                this.disconnected.append(entry)
                return

    def _settle(self, this: EpochRebalance, at_ms: int) -> None:
        if this.target is None:
            return
        there = [m for m in self.holdings.members.values() if m.state == "stable" and m.epoch == this.target.epoch]
        if len(there) >= this.target.members:
            this.settled_at_ms = at_ms
            self._end("stable")

    def _end(self, how: EpochEnd) -> None:
        this = self.under_way
        if this is not None:
            this.end = how
            this.members = self._rows()

    def close(self) -> None:
        if self.under_way is not None:
            self.under_way.members = self._rows()

    def _rows(self) -> tuple[MemberRow, ...]:
        return tuple(self._row(member) for member in self.holdings.members.values())

    def _row(self, member: JournaledMember) -> MemberRow:
        return MemberRow(
            who=member.who,
            epoch=member.epoch,
            state=member.state,
            known=member.known,
            had=self.had.get(member.who.member_id, ()),
            has=tuple(sorted(member.has)),
            target=None if member.target is None else tuple(sorted(member.target)),
            revoking=tuple(sorted(member.revoking)),
            revoking_since_ms=min(member.revoking.values(), default=None),
            awaited=member.awaited,
        )


def _held(member: JournaledMember) -> set[Place]:
    return member.has | member.revoking.keys()
