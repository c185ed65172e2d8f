"""Rebalances of watched classic groups, from consecutive generations: joins, departures, moves and time bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kohort.coordinator import journal
from kohort.insight.evidence import Evidence, Finding
from kohort.insight.observed.departures import Departure, find_departure
from kohort.insight.rebalances import FAILOVER_MS, RECENT_MS

Bounds = tuple[int | None, int | None]


@dataclass(slots=True)
class SeenRebalance:
    """Observed rebalance: two generations of a group and their differences.

    ``before`` is None for the first observed generation.
    """

    before: journal.GenerationSeen | None
    after: journal.GenerationSeen
    converted: journal.GroupConverted | None = None
    new: tuple[journal.SeenMember, ...] = ()
    missing: tuple[journal.SeenMember, ...] = ()
    restarted: tuple[tuple[journal.SeenMember, journal.SeenMember], ...] = ()
    """Static members that returned with a new member id, each as (member before, member after)."""
    departed: list[Departure] = field(default_factory=list)
    moves: tuple[journal.Move, ...] = ()
    parent: int | None = None
    returned: tuple[journal.ClientIdentity, str, int] | None = None
    """Earlier departure of the client that rejoins: departed member, cause and time of the departure."""
    had_failover: bool = False
    loaded: journal.GroupLoaded | None = None

    @property
    def group(self) -> str:
        return self.after.group

    def fact(self, kind: str, value: str) -> Evidence:
        return Evidence(kind, value, self.after.at_ms)

    @property
    def departures(self) -> tuple[Finding, ...]:
        return tuple(find_departure(one) for one in self.departed)

    @property
    def opened_at_ms(self) -> int:
        """Latest possible start of the rebalance, in ms since 1970."""
        at_ms = self.after.at_ms if self.after.joined_ms is None else self.after.joined_ms
        seen_ms = self.after.rebalancing_seen_ms
        return at_ms if seen_ms is None else min(at_ms, seen_ms)

    @property
    def join_ms(self) -> Bounds:
        """Shortest and longest possible duration of the join phase, in ms; None if unknown."""
        done_ms = self.after.at_ms if self.after.joined_ms is None else self.after.joined_ms
        seen_ms, settled_ms = self.after.rebalancing_seen_ms, self.after.settled_seen_ms
        shortest = None if seen_ms is None else max(0, done_ms - seen_ms)
        longest = None if settled_ms is None else max(0, done_ms - settled_ms, shortest or 0)
        return shortest, longest

    @property
    def assign_ms(self) -> int | None:
        """Time from the last JoinGroup to the record of the assignment in ``__consumer_offsets``, in ms."""
        if self.after.joined_ms is None or not self.after.members:
            return None
        return self.after.at_ms - self.after.joined_ms

    @property
    def not_written(self) -> int:
        """Number of generations between ``before`` and ``after`` without a record in ``__consumer_offsets``."""
        return 0 if self.before is None else max(0, self.after.generation - self.before.generation - 1)

    @property
    def coordinator_moved(self) -> bool:
        return self.before is not None and -1 < self.before.leader_epoch < self.after.leader_epoch

    @property
    def failover_ms(self) -> int | None:
        """Time in ms of a failover or outage that the watcher saw after generation ``before``; None if not recent."""
        times = (sign.failover_ms for sign in self.after.signs if sign.failover_ms is not None)
        at_ms = next(times, None)
        if at_ms is None or self.before is None:
            return None
        return at_ms if max(self.before.at_ms, self.after.at_ms - FAILOVER_MS) <= at_ms <= self.after.at_ms else None

    @property
    def is_after_failover(self) -> bool:
        """True if a recent coordinator failover may explain the rebalance.

        If the time of the failover is known, no departed member sent a request after it. Otherwise, the leader epoch of
        the records increased, and a member committed recently.
        """
        if self.loaded is not None:
            return all(one.sign_ms < self.loaded.at_ms for one in self.departed)
        if self.failover_ms is not None:
            return all(one.sign_ms < self.failover_ms for one in self.departed)
        since_ms = self.after.at_ms - FAILOVER_MS
        commits = [sign.last_commit_ms for sign in self.after.signs if sign.last_commit_ms is not None]
        return self.coordinator_moved and not self.had_failover and any(at_ms >= since_ms for at_ms in commits)


def seen_rebalances(entries: Iterable[journal.JournalEntry]) -> list[SeenRebalance]:
    """Return the rebalances of classic groups in a watcher's journal entries, in the order of the entries."""
    histories: dict[str, _History] = {}
    found = []
    for entry in entries:
        if not entry.observed or not isinstance(
            entry, (journal.GenerationSeen, journal.GroupConverted, journal.GroupDeleted, journal.GroupLoaded)
        ):
            continue
        history = histories.setdefault(entry.group, _History())
        rebalance = history.take(entry)
        if rebalance is not None:
            found.append(rebalance)
    return found


@dataclass(slots=True)
class _History:
    before: journal.GenerationSeen | None = None
    latest: SeenRebalance | None = None
    converted: journal.GroupConverted | None = None
    loaded: journal.GroupLoaded | None = None
    departed_before: list[tuple[SeenRebalance, int]] = field(default_factory=list)
    """Earlier departures of members, each as a rebalance and an index into the ``departed`` list of that rebalance."""

    def take(self, entry: journal.JournalEntry) -> SeenRebalance | None:
        if isinstance(entry, journal.GroupConverted):
            self.converted = entry if entry.to == "classic" else None
        if isinstance(entry, journal.GroupLoaded):
            self.loaded = entry
            return None
        if not isinstance(entry, journal.GenerationSeen):
            self.before = self.latest = None
            return None
        before, self.before = entry.before or self.before, entry
        if before is not None and entry.generation <= before.generation:
            if entry.generation == before.generation:
                return None  # the replacement of a static member has a journal entry of its own
            before = None  # a lower generation: the group was recreated, and the record of its deletion is missing
        if not entry.members and (before is None or not before.members):
            return None  # a group without members, before and after, did not rebalance
        if self.converted is not None and self.converted.epoch == entry.generation:
            return None  # a coordinator that converts a group writes a classic generation before members rejoin
        found = self._compare(before, entry)
        self.converted = None
        self.latest = found
        return found

    def _compare(self, before: journal.GenerationSeen | None, after: journal.GenerationSeen) -> SeenRebalance:
        found = SeenRebalance(before, after, converted=self.converted)
        if before is None:
            return found
        was = {m.member.member_id: m for m in before.members}
        now = {m.member.member_id: m for m in after.members}
        new = [m for member_id, m in now.items() if member_id not in was]
        gone = [m for member_id, m in was.items() if member_id not in now]
        back = {m.member.instance_id: m for m in new if m.member.instance_id is not None}
        pairs = [(m, back[m.member.instance_id]) for m in gone if m.member.instance_id in back]
        found.restarted = tuple(pairs)
        found.new = tuple(m for m in new if all(m is not after for _, after in pairs))
        found.missing = tuple(m for m in gone if all(m is not before for before, _ in pairs))
        found.moves = moves_between(before, after, {a.member.member_id: b.member.member_id for b, a in pairs})
        found.departed = [departure_of(found, m) for m in found.missing]
        found.parent = self._parent(found)
        found.returned = self._returned(found)
        self.departed_before += [(found, i) for i in range(len(found.departed))]
        del self.departed_before[:-100]
        loaded = self.loaded
        if loaded is not None and loaded.at_ms > before.at_ms:
            found.had_failover = True
            found.loaded = loaded if after.at_ms - loaded.at_ms <= FAILOVER_MS else None
        return found

    def _parent(self, found: SeenRebalance) -> int | None:
        """Return the previous generation if it left partitions unassigned that this generation assigns (KIP-429)."""
        before, latest = found.before, self.latest
        if before is None or latest is None or latest.after is not before or found.new or found.missing:
            return None
        if found.restarted or before.protocol != found.after.protocol:
            return None
        if not any(m.owned for m in found.after.members):
            return None  # members with an eager assignor rejoin without partitions: no cooperative follow-up
        withheld = {(m.topic, m.partition) for m in latest.moves if m.after is None}
        given = {(m.topic, m.partition) for m in found.moves if m.before is None}
        return before.generation if withheld & given else None

    def _returned(self, found: SeenRebalance) -> tuple[journal.ClientIdentity, str, int] | None:
        known = {m.member.client for m in found.before.members} if found.before is not None else set()
        came = {m.member.client: m.member for m in found.new if m.member.client_id and m.member.client not in known}
        returned = None
        for earlier, i in self.departed_before:
            gone, after_ms = earlier.departed[i], found.after.at_ms - earlier.after.at_ms
            back = came.get(gone.member.client)
            if back is not None and after_ms <= RECENT_MS and gone.back is None:
                gone = earlier.departed[i] = replace(gone, back=back, back_after_ms=after_ms)
                returned = (gone.member, find_departure(gone).cause, earlier.after.at_ms)
        return returned


def departure_of(found: SeenRebalance, member: journal.SeenMember) -> Departure:
    after, identity = found.after, member.member
    signs = next((s for s in after.signs if s.member_id == identity.member_id), None)
    if signs is None:  # journal entries of older kohort versions lack commit times, so no cause can be excluded
        since_ms = found.before.at_ms if found.before is not None else after.at_ms
        signs = journal.SignsOfLife(member_id=identity.member_id, since_ms=since_ms)
    done_ms = after.at_ms if after.joined_ms is None else after.joined_ms
    seen_ms = after.rebalancing_seen_ms
    was_there = after.present is not None and identity.member_id in after.present
    committed_since = seen_ms is not None and signs.last_commit_ms is not None and signs.last_commit_ms > seen_ms
    out_early = seen_ms is not None and after.present is not None and not was_there and not committed_since
    same = [m.member for m in found.new if m.member.client == identity.client]
    members = found.before.members if found.before is not None else ()
    alike = sum(m.member.client == identity.client for m in members) - 1
    return Departure(
        member=identity,
        signs=signs,
        out_by_ms=min(done_ms, seen_ms) if out_early and seen_ms is not None else done_ms,
        was_waited_for=was_there or committed_since,
        round_ms=found.join_ms,
        back=same[0] if same else None,
        alike=max(0, alike),
    )


def moves_between(
    before: journal.GenerationSeen, after: journal.GenerationSeen, same: dict[str, str]
) -> tuple[journal.Move, ...]:
    """Return the partitions whose owner differs between two generations.

    ``same`` maps the old member id of each restarted static member to the new one.
    """
    was, now = owners(before), owners(after)
    if was is None or now is None:
        return ()
    changed = []
    for topic, partition in sorted({*was, *now}):
        old, new = was.get((topic, partition)), now.get((topic, partition))
        if old != (same.get(new, new) if new is not None else None):
            changed.append(journal.Move(topic, partition, old, new))
    return tuple(changed)


def owners(generation: journal.GenerationSeen) -> dict[tuple[str, int], str] | None:
    """Return the owner of each partition in a generation; None if an assignment is unreadable."""
    found: dict[tuple[str, int], str] = {}
    for member in generation.members:
        if member.partitions is None:
            return None
        found.update(((t, p), member.member.member_id) for t, of in member.partitions.items() for p in of)
    return found
