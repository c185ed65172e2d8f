"""From generations seen from the outside to findings: inferred, and marked so."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.journal import JournalEntry, SeenMember
from kohort.insight.findings.model import (
    MemberRef,
    MoveFinding,
    RebalanceFinding,
    evidence_finding,
    member_ref,
)
from kohort.insight.observed.generations import SeenRebalance, seen_rebalances
from kohort.insight.observed.why import explain_seen
from kohort.insight.partings import SEEN


def observed_findings(entries: Iterable[JournalEntry]) -> list[RebalanceFinding]:
    """Return the rebalances of classic groups that a watcher's entries tell of, in their order."""
    return [observed_finding(this) for this in seen_rebalances(entries)]


def observed_finding(this: SeenRebalance) -> RebalanceFinding:
    """Return one of them. Phases that were only seen within bounds are in the evidence, not in ``phases_ms``."""
    told, also = explain_seen(this)
    before, after = this.before, this.after
    return RebalanceFinding(
        id=f"{this.group}/{after.generation}",
        group=this.group,
        protocol="classic",
        origin="inferred",
        opened_at_ms=this.opened_at_ms,
        end="stable" if after.members else "empty",
        cause=told.cause,
        confidence=told.confidence,
        sentence=told.sentence,
        advice=told.advice,
        evidence=tuple(evidence_finding(fact) for fact in told.evidence),
        from_generation=None if before is None else before.generation,
        generation=after.generation,
        parent=this.parent,
        trigger=_trigger(this),
        also=also,
        phases_ms={} if this.assign_ms is None else {"assign": this.assign_ms},
        assignor=after.protocol,
        leader=after.leader,
        members_before=_refs(() if before is None else before.members),
        members=_refs(after.members),
        gone={
            one.who.member_id: SEEN.get(f.cause, "gone") for one, f in zip(this.departed, this.departures, strict=True)
        },
        moves=tuple(
            MoveFinding(topic=m.topic, partition=m.partition, before=m.before, after=m.after) for m in this.moves
        ),
    )


def _trigger(this: SeenRebalance) -> MemberRef | None:
    """Return the one member that went, or else came: who it was of several was not seen."""
    for changed in (this.gone, this.new, tuple(after for _, after in this.restarted)):
        if changed:
            return member_ref(changed[0].who) if len(changed) == 1 else None
    return None


def _refs(members: Iterable[SeenMember]) -> tuple[MemberRef, ...]:
    return tuple(member_ref(m.who) for m in members)
