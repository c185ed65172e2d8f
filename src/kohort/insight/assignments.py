"""Assignments in a consumer group, and periods in which a partition has no owner, as the group's journal shows them.

Each journal entry describes one change. If the oldest entries have expired, the assignment of a member may be
incomplete: ``JournaledMember.known`` is then false.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kohort.coordinator import journal

Place = tuple[str, int]
DEPARTURE_EVENTS: Final = (
    "member_left",
    "session_expired",
    "revocation_timeout",
    "rejoin_timeout",
    "resync_timeout",
    "member_departed",
)


@dataclass(slots=True)
class JournaledMember:
    """Member of a group, as the journal shows it; ``target`` is None if the journal lacks its target assignment."""

    member: journal.ClientIdentity
    known: bool = True
    epoch: int | None = None
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions", "away"] = "unreleased_partitions"
    assignment: set[Place] = field(default_factory=set)
    revoking: dict[Place, int] = field(default_factory=dict)
    awaited: tuple[journal.AwaitedPartition, ...] = ()
    target: set[Place] | None = None

    @property
    def owned(self) -> set[Place]:
        return self.assignment | self.revoking.keys()


@dataclass(slots=True)
class UnownedTime:
    """Period in which a partition has no owner; ``until_ms`` is None while the period lasts."""

    topic: str
    partition: int
    since_ms: int
    before: str | None
    until_ms: int | None = None
    after: str | None = None

    @property
    def took_ms(self) -> int | None:
        return None if self.until_ms is None else self.until_ms - self.since_ms


class JournaledGroup:
    def __init__(self) -> None:
        self.members: dict[str, JournaledMember] = {}
        self.unowned: list[UnownedTime] = []
        self.planned: dict[Place, str] = {}
        """Owner of each partition in the last target assignment, as a member id; the member may have departed since."""
        self._open: dict[Place, UnownedTime] = {}
        self._names: dict[str, str] = {}
        """Names of deleted topics. Key: topic id in hexadecimal; value: topic name."""

    def take(self, entry: journal.JournalEntry) -> None:
        if isinstance(entry, journal.EpochRaised):
            self._raised(entry)
        elif isinstance(entry, journal.TargetComputed):
            self._computed(entry)
        elif isinstance(entry, journal.MemberReconciled):
            self._reconciled(entry)
        elif isinstance(entry, journal.StaticReplaced):
            self._replaced(entry)
        elif isinstance(entry, journal.StaticAway):
            self._away(entry)
        elif isinstance(entry, journal.RoundClosed):
            self._reassign(entry.members, None)
        elif isinstance(entry, journal.AssignmentWritten):
            self._reassign([m.member for m in self.members.values()], entry.partitions)
        elif isinstance(entry, journal.GroupLoaded):
            self._reassign(entry.members, entry.partitions)
        elif isinstance(entry, journal.GroupConverted):
            self._converted(entry)

    def topic_sizes(self) -> Counter[str]:
        return Counter(topic for topic, _ in self.planned)

    def _reassign(
        self, members: Iterable[journal.ClientIdentity], partitions: dict[str, dict[str, tuple[int, ...]]] | None
    ) -> None:
        before, self.members = self.members, {}
        for identity in members:
            own = None if partitions is None else partitions.get(identity.member_id, {})
            kept = before.get(identity.member_id)
            member = self.members[identity.member_id] = kept or JournaledMember(identity)
            member.known = own is not None
            if own is not None:
                member.assignment = {p for p in _places(own) if p not in member.revoking}

    def _raised(self, entry: journal.EpochRaised) -> None:
        cause = entry.cause
        if cause.event == "member_joined" and cause.member is not None:
            self.members.setdefault(cause.member.member_id, JournaledMember(cause.member, target=set()))
        elif cause.event in DEPARTURE_EVENTS:
            for identity in (cause.member, *cause.others):
                member = None if identity is None else self.members.pop(identity.member_id, None)
                if member is not None:
                    self._release([*member.assignment, *member.revoking], member.member.member_id, entry.at_ms)
        if not entry.members:
            self.members.clear()

    def _computed(self, entry: journal.TargetComputed) -> None:
        back = {move.topic for move in entry.moves if move.after is not None}
        self._names = {topic_id: name for topic_id, name in self._names.items() if name not in back}
        self._learn_deleted_name(entry)
        self.planned = {place: m for place, m in self.planned.items() if m in self.members}
        for move in entry.moves:
            place = self.name(move.topic), move.partition
            for member_id, wanted in ((move.before, False), (move.after, True)):
                member = self.members.get(member_id or "")
                if member is not None and member.target is not None:
                    (member.target.add if wanted else member.target.discard)(place)
        for move in sorted(entry.moves, key=lambda move: move.after is not None):
            place = self.name(move.topic), move.partition
            if move.after is None:
                self.planned.pop(place, None)
            else:
                self.planned[place] = move.after

    def _learn_deleted_name(self, entry: journal.TargetComputed) -> None:
        topics: dict[str, dict[int, str | None]] = {}
        for place, member_id in self.planned.items():
            topics.setdefault(place[0], {})[place[1]] = member_id
        taken: dict[str, dict[int, str | None]] = {}
        for move in entry.moves:
            if move.after is None and len(move.topic) == 32 and move.topic not in topics:
                taken.setdefault(move.topic, {})[move.partition] = move.before
        for topic_id, of in taken.items():
            fitting = [name for name, had in topics.items() if had == of]
            if len(fitting) == 1:
                self._names[topic_id] = fitting[0]

    def name(self, topic: str) -> str:
        return self._names.get(topic, topic)

    def _reconciled(self, entry: journal.MemberReconciled) -> None:
        member_id, at_ms = entry.member.member_id, entry.at_ms
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = JournaledMember(entry.member, known=entry.from_epoch == 0)
        revoked = self._named(_places(entry.revoked))
        given = {(g.topic, g.partition): g.unowned_ms for g in entry.given}
        revoking = self._named(_places(entry.revoking))
        held = member.owned - revoked | given.keys() | revoking
        member.revoking = {place: member.revoking.get(place, at_ms) for place in revoking}
        member.assignment = held - revoking
        member.epoch, member.state, member.awaited = entry.epoch, entry.state, entry.awaited
        if member.target is None and entry.state == "stable" and entry.epoch == entry.target_epoch:
            member.target = set(member.assignment)
            self.planned |= dict.fromkeys(member.assignment, member_id)
        self._release(sorted(revoked), member_id, at_ms)
        for place, unowned_ms in given.items():
            gap = self._open.pop(place, None)
            if gap is None and unowned_ms is not None:
                gap = UnownedTime(*place, at_ms - unowned_ms, None)
                self.unowned.append(gap)
            if gap is not None:
                gap.until_ms, gap.after = at_ms, member_id

    def _release(self, places: Iterable[Place], member_id: str, at_ms: int) -> None:
        for place in places:
            if place[0] in self._names.values():
                continue  # a partition of a deleted topic needs no owner
            gap = self._open[place] = UnownedTime(*place, at_ms, member_id)
            self.unowned.append(gap)

    def _replaced(self, entry: journal.StaticReplaced) -> None:
        member = self.members.pop(entry.old_member_id, None)
        if member is None:
            return
        member.member = entry.member
        self.members[entry.member.member_id] = member
        for place, member_id in self.planned.items():
            if member_id == entry.old_member_id:
                self.planned[place] = entry.member.member_id

    def _away(self, entry: journal.StaticAway) -> None:
        member = self.members.get(entry.member.member_id)
        if member is not None:
            self._release(sorted(member.revoking), entry.member.member_id, entry.at_ms)
            member.revoking, member.awaited = {}, ()
            member.epoch, member.state = None, "away"

    def _converted(self, entry: journal.GroupConverted) -> None:
        before, self.members = self.members, {}
        self.planned = {}
        for identity in entry.members:
            member = before.get(identity.member_id) or JournaledMember(identity, known=False)
            self.members[identity.member_id] = member
            member.member, member.epoch, member.state = identity, entry.epoch, "stable"
            member.target = set(member.assignment) if member.known else None
            self.planned |= dict.fromkeys(member.assignment, identity.member_id)

    def _named(self, places: Iterable[Place]) -> set[Place]:
        return {(self.name(topic), partition) for topic, partition in places}


def _places(by_topic: dict[str, tuple[int, ...]]) -> set[Place]:
    return {(topic, partition) for topic, of in by_topic.items() for partition in of}
