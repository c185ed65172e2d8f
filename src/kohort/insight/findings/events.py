"""Sentences that describe journal entries. Coordinators of both protocols and watchers write such entries.

A sentence states only the content of its entry; ``findings.rebalances`` finds causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import msgspec

from kohort.coordinator import journal
from kohort.coordinator.journal_events import (
    CommitUnfenced,
    JoinRejected,
    MemberDisconnected,
    OptionsChanged,
    PartitionsResumed,
)
from kohort.insight.events import GROUP_FULL, assignors_text
from kohort.insight.findings.model import MemberRef, member_ref
from kohort.insight.names import count, kind_text, name_of, printable, seconds

E = TypeVar("E", bound=journal.JournalEntry)
Sentence = Callable[[Any], str]


class EventFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Journal entry with its sentence. ``entry`` has the entry's other fields; client text in them is unescaped."""

    at_ms: int
    group: str
    kind: str
    sentence: str
    member: MemberRef | None = None
    generation: int | None = None
    """Generation of a classic group, or group epoch of a consumer group."""
    observed: bool = False
    """True if a watcher wrote the journal entry, False if the coordinator did."""
    entry: dict[str, Any] = {}


def find_events(entries: Iterable[journal.JournalEntry]) -> list[EventFinding]:
    return [event_finding(entry) for entry in entries]


def event_finding(entry: journal.JournalEntry) -> EventFinding:
    """Convert a journal entry to an event; for an entry of an unknown kind, the sentence is the name of the kind."""
    kind = str(entry.__struct_config__.tag)
    describe = SENTENCES.get(type(entry))
    member = _member(entry)
    fields = msgspec.to_builtins(entry)
    left_out = ("kind", "at_ms", "group", "observed")
    return EventFinding(
        at_ms=entry.at_ms,
        group=entry.group,
        kind=kind,
        sentence=kind.replace("_", " ") if describe is None else describe(entry),
        member=None if member is None else member_ref(member),
        generation=_generation(entry),
        observed=entry.observed,
        entry={name: value for name, value in fields.items() if name not in left_out},
    )


def _member(entry: journal.JournalEntry) -> journal.ClientIdentity | None:
    if isinstance(entry, journal.RoundOpened):
        return entry.trigger.member
    if isinstance(entry, journal.EpochRaised):
        return entry.cause.member
    for field in ("member", "last", "by"):
        member = getattr(entry, field, None)
        if isinstance(member, journal.ClientIdentity):
            return member
    return None


def _generation(entry: journal.JournalEntry) -> int | None:
    for field in ("generation", "epoch", "from_generation"):
        number = getattr(entry, field, None)
        if isinstance(number, int):
            return number
    return None


def _opened(entry: journal.RoundOpened) -> str:
    trigger = entry.trigger
    member = f" {name_of(trigger.member)}" if trigger.member is not None else ""
    others = f" and {len(trigger.others)} more" if trigger.others else ""
    return (
        f"rebalance after generation {entry.from_generation}: {kind_text(trigger.event)}{member}{others}"
        f"{_because(trigger.reason)}; {count(len(entry.members), 'member')}"
    )


def _arrived(entry: journal.MemberArrived) -> str:
    new = " (new)" if entry.new else ""
    return f"{name_of(entry.member)}{new} joined after {seconds(entry.after_ms)}{_because(entry.reason)}"


def _removed(entry: journal.MemberRemoved) -> str:
    by = f", by {name_of(entry.by)}" if entry.by is not None else ""
    return f"{name_of(entry.member)} was removed: {kind_text(entry.why)}{by}{_because(entry.reason)}"


def _closed(entry: journal.RoundClosed) -> str:
    names = {member.member_id: name_of(member) for member in entry.members}
    leader = f", leader {names.get(entry.leader, printable(entry.leader))}" if entry.leader else ""
    protocol = f", {printable(entry.protocol)}" if entry.protocol else ""
    return (
        f"generation {entry.generation}: {count(len(entry.members), 'member')}{leader}{protocol}, "
        f"all joined after {seconds(entry.took_ms)}"
    )


def _fenced(entry: journal.RequestFenced) -> str:
    which = f", generation {entry.generation} at {entry.current}" if entry.generation != entry.current else ""
    return f"{printable(entry.api)} of {name_of(entry.member)} rejected: {printable(entry.error)}{which}"


def _raised(entry: journal.EpochRaised) -> str:
    cause = entry.cause
    member = f" {name_of(cause.member)}" if cause.member is not None else ""
    others = f" and {len(cause.others)} more" if cause.others else ""
    return (
        f"epoch {entry.epoch}: {kind_text(cause.event)}{member}{others}{_because(cause.reason)}; "
        f"{count(entry.members, 'member')}"
    )


def _computed(entry: journal.TargetComputed) -> str:
    after = f" after {seconds(entry.after_ms)}" if entry.after_ms is not None else ""
    return (
        f"target of epoch {entry.epoch}{after}, {printable(entry.assignor)}: "
        f"{count(len(entry.moves), 'partition')} to move"
    )


def _reconciled(entry: journal.MemberReconciled) -> str:
    numbers = (
        ("must revoke", sum(map(len, entry.revoking.values()))),
        ("revoked", sum(map(len, entry.revoked.values()))),
        ("got", len(entry.given)),
        ("waits for", len(entry.awaited)),
    )
    steps = ", ".join(f"{verb} {number}" for verb, number in numbers if number)
    return f"{name_of(entry.member)} at epoch {entry.epoch} of {entry.target_epoch}{': ' if steps else ''}{steps}"


def _loaded(entry: journal.GroupLoaded) -> str:
    members = count(len(entry.members), "member")
    if entry.observed and entry.partitions is not None:
        return f"the group was at epoch {entry.generation}: {members}"
    return f"the group was loaded from the log: generation {entry.generation}, {members}"


def _converted(entry: journal.GroupConverted) -> str:
    by = f", through {name_of(entry.by)}" if entry.by is not None else ""
    return f"the group changed to the {entry.to} protocol at epoch {entry.epoch}{by}"


DELETIONS: Final[dict[str, str]] = {
    "deleted": "the group was deleted",
    "expired": "the group expired with its last offset",
    "unknown": "the group was deleted, or expired with its last offset",
}


def _rejected_join(entry: JoinRejected) -> str:
    if entry.error == GROUP_FULL:
        return f"{name_of(entry.member)} was rejected: the group is full with {count(entry.members, 'member')}"
    return f"the join of {name_of(entry.member)} was rejected ({printable(entry.error)}): {assignors_text(entry)}"


def _unfenced(entry: CommitUnfenced) -> str:
    number = len(entry.offsets) + entry.more
    back = f", {entry.backwards} of them backwards" if entry.backwards else ""
    kind = " in a transaction" if entry.in_transaction else ""
    return f"{name_of(entry.member)}, which is no member, committed {count(number, 'offset')}{kind}{back}"


def _options(entry: OptionsChanged) -> str:
    changes = ", ".join(
        f"{printable(name)} from {_option(before)} to {_option(after)}"
        for name, (before, after) in entry.options.items()
    )
    by = f", by {name_of(entry.by)}" if entry.by is not None else ""
    return f"options of the group were changed: {changes}{by}"


def _option(value: int | None) -> str:
    return "the broker's value" if value is None else str(value)


def _because(reason: str | None) -> str:
    return f' ("{printable(reason)}")' if reason else ""


SENTENCES: Final[dict[type[journal.JournalEntry], Sentence]] = {
    journal.RoundOpened: _opened,
    journal.MemberArrived: _arrived,
    journal.MemberRemoved: _removed,
    journal.RoundClosed: _closed,
    journal.AssignmentWritten: lambda entry: (
        f"generation {entry.generation} is assigned after {seconds(entry.took_ms)}; "
        f"{count(len(entry.moves), 'partition')} moved"
    ),
    journal.RoundSettled: lambda entry: (
        f"generation {entry.generation} is stable: last SyncGroup of {name_of(entry.last)}, {seconds(entry.took_ms)}"
    ),
    journal.RoundDropped: lambda entry: (
        f"the rebalance after generation {entry.generation} failed: {printable(entry.error)}"
    ),
    journal.StaticReplaced: lambda entry: f"{name_of(entry.member)} returned under a new id and kept its partitions",
    journal.RequestFenced: _fenced,
    journal.EpochRaised: _raised,
    journal.TargetComputed: _computed,
    journal.MemberReconciled: _reconciled,
    journal.StaticAway: lambda entry: (
        f"{name_of(entry.member)} left and keeps its partitions until its session expires"
    ),
    journal.GroupLoaded: _loaded,
    journal.GroupUnloaded: lambda entry: f"the group moved to another coordinator at generation {entry.generation}",
    journal.GroupConverted: _converted,
    journal.GroupDeleted: lambda entry: DELETIONS[entry.why],
    journal.GenerationSeen: lambda entry: (
        f"generation {entry.generation} was observed: {count(len(entry.members), 'member')}"
    ),
    JoinRejected: _rejected_join,
    MemberDisconnected: lambda entry: (
        f"the connection of {name_of(entry.member)} closed {seconds(entry.after_ms)} after it left"
    ),
    CommitUnfenced: _unfenced,
    OptionsChanged: _options,
    PartitionsResumed: lambda entry: (
        f"{name_of(entry.member)} began to fetch {count(len(entry.partitions), 'assigned partition')} "
        f"(generation {entry.generation})"
    ),
}
"""Key: class of journal entries; value: function that builds the sentence of such an entry."""
