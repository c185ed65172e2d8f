"""Data classes of explanations: catalogue entries, findings with evidence, and the event that began a rebalance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from kohort.coordinator.journal import ClientIdentity, EpochRaised, Vitals
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.epochs import EpochRebalance
from kohort.insight.names import count, name_and_place, printable
from kohort.insight.rebalances import Rebalance

AUTO_COMMIT_MS: Final = 5000
"""Default of ``auto.commit.interval.ms``: longest normal time from a member's last poll to its last commit, in ms."""
Confidence = Literal["proof", "high", "medium", "low"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseEntry:
    """Catalogue entry of a cause: texts for ``kohort explain``, for the documentation, and for advice.

    ``kind``: cause of a rebalance, event without a rebalance, or pattern of many rebalances.
    """

    code: str
    sentence: str
    proof: str
    look_alikes: tuple[tuple[str, str], ...] = ()
    """Causes that are easily confused with this cause, each as a pair: code of the other cause, and the difference."""
    advice: str | None = None
    kafka_log: str | None = None
    kind: Literal["rebalance", "event", "pattern"] = "rebalance"


EventEntry = partial(CauseEntry, kind="event")
PatternEntry = partial(CauseEntry, kind="pattern")


@dataclass(frozen=True, slots=True)
class Evidence:
    """Fact that supports a cause: its kind, its value as text, and its time."""

    kind: str
    value: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """Cause of a rebalance or event, with its confidence, its evidence, and a clause that names the cause.

    ``also``: other causes that the evidence fits as well.
    """

    cause: str
    confidence: Confidence
    clause: str
    evidence: tuple[Evidence, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Beginning:
    """Event that began a rebalance, with the coordinator's evidence about the member that caused the event."""

    at_ms: int
    member: ClientIdentity | None
    others: tuple[ClientIdentity, ...] = ()
    reason: str | None = None
    vitals: Vitals | None = None
    by: ClientIdentity | None = None
    disconnected: MemberDisconnected | None = None
    assigned_ms: int | None = None
    """Time in ms of the member's last assignment before the event."""
    back: tuple[ClientIdentity, int] | None = None
    """Later member of the same client, and time of its join."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def member_text(self) -> str:
        return "a member" if self.member is None else f"member {name_and_place(self.member)}"

    @property
    def members_text(self) -> str:
        return f"{self.member_text} and {count(len(self.others), 'other')}" if self.others else self.member_text

    @property
    def topics(self) -> str:
        return topics_text(self.added, self.removed)

    @property
    def reason_text(self) -> str:
        return f' ("{printable(self.reason)}")' if self.reason else ""

    @property
    def reason_facts(self) -> tuple[Evidence, ...]:
        return (self.fact("client_reason", f'"{printable(self.reason)}"'),) if self.reason else ()

    def fact(self, kind: str, value: str) -> Evidence:
        return Evidence(kind, value, self.at_ms)


def round_beginning(rebalance: Rebalance) -> Beginning:
    trigger, change = rebalance.trigger, rebalance.trigger.change
    return Beginning(
        at_ms=rebalance.opened_at_ms,
        member=trigger.member,
        others=trigger.others,
        reason=trigger.reason,
        vitals=trigger.vitals,
        by=next((r.by for r in rebalance.removed if r.why == "left" and r.by is not None), None),
        disconnected=_disconnected(rebalance.disconnected, trigger.member),
        assigned_ms=rebalance.assigned_before_ms,
        back=None if trigger.member is None else rebalance.back.get(trigger.member.member_id),
        added=change.topics_added if change is not None else (),
        removed=change.topics_removed if change is not None else (),
    )


def raise_beginning(rebalance: EpochRebalance, raised: EpochRaised) -> Beginning:
    cause = raised.cause
    return Beginning(
        at_ms=raised.at_ms,
        member=cause.member,
        others=cause.others,
        reason=cause.reason,
        vitals=cause.vitals,
        by=cause.by,
        disconnected=_disconnected(rebalance.disconnected, cause.member),
        assigned_ms=None if cause.member is None else rebalance.last_assigned_ms(cause.member),
        back=None if cause.member is None else rebalance.back.get(cause.member.member_id),
        added=cause.topics_added,
        removed=cause.topics_removed,
    )


def _disconnected(entries: Iterable[MemberDisconnected], member: ClientIdentity | None) -> MemberDisconnected | None:
    return next((entry for entry in entries if member is not None and entry.member.member_id == member.member_id), None)


def topics_text(added: Iterable[str], removed: Iterable[str]) -> str:
    parts = [f"added {printable(topic)}" for topic in added]
    return ", ".join([*parts, *(f"removed {printable(topic)}" for topic in removed)])
