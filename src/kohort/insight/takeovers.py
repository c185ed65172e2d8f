"""Static members replaced under a new id without a rebalance (KIP-345, KIP-814): restarts, and two of one name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kohort.coordinator.journal import JournalEntry, RequestFenced, StaticReplaced, Who
from kohort.insight.catalogue.table import advice_for
from kohort.insight.causes import Confidence, Evidence
from kohort.insight.names import name_and_place, name_of, printable, seconds, short_id

FENCED: Final = "FENCED_INSTANCE_ID"


@dataclass(slots=True)
class Takeover:
    """One replacement of a static member; ``refused`` are the requests of the process before, which still ran."""

    group: str
    at_ms: int
    who: Who
    old_member_id: str
    observed: bool = False
    """Nobody but a watcher saw it: whether the process before still runs is not known."""
    refused: list[RequestFenced] = field(default_factory=list)

    @property
    def cause(self) -> str:
        """STATIC_DUPLICATE where two processes had the instance id at a time, else STATIC_RESTART."""
        return "STATIC_DUPLICATE" if self.refused else "STATIC_RESTART"

    @property
    def confidence(self) -> Confidence:
        """The coordinator saw both; that nothing was heard of a process is no proof that it ended. From outside nothing
        can be heard of it."""
        return "proof" if self.refused else "medium" if self.observed else "high"

    @property
    def sentence(self) -> str:
        """What happened, in words."""
        instance = printable(self.who.instance_id or "")
        head = f"Instance {instance} is {name_and_place(self.who)} now, and kept its partitions without a rebalance"
        if self.observed:
            return f"{head}, as the group's record says."
        if not self.refused:
            return f"{head}; {short_id(self.old_member_id)} was not heard of again."
        first = self.refused[0]
        after = seconds(first.at_ms - self.at_ms)
        return (
            f"{head}, while {short_id(self.old_member_id)} still ran: it was refused {after} later "
            f"({printable(first.api)}: {FENCED}). Two processes have the same group.instance.id."
        )

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The facts behind it."""
        came = Evidence("static_replaced", f"{short_id(self.old_member_id)} became {name_of(self.who)}", self.at_ms)
        stale = [Evidence("stale_request", f"{name_of(f.who)} sent {f.api}: {f.error}", f.at_ms) for f in self.refused]
        return (came, *stale)

    @property
    def advice(self) -> str | None:
        """What to do, where something is to be done."""
        return advice_for(self.cause)


def takeovers(entries: Iterable[JournalEntry]) -> list[Takeover]:
    """Return the takeovers of one group's journal, oldest first."""
    found: list[Takeover] = []
    by_old_id: dict[str, Takeover] = {}
    for entry in entries:
        if isinstance(entry, StaticReplaced):
            found.append(Takeover(entry.group, entry.at_ms, entry.who, entry.old_member_id, entry.observed))
            by_old_id[entry.old_member_id] = found[-1]
        elif isinstance(entry, RequestFenced) and entry.error == FENCED and entry.who.member_id in by_old_id:
            by_old_id[entry.who.member_id].refused.append(entry)
    return found
