"""From a journal to findings: the rebalances of both protocols, and members that were replaced without one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.coordinator.journal import JournalEntry, Move, Who
from kohort.insight.causes import Evidence
from kohort.insight.epoch_why import explain_epoch
from kohort.insight.epochs import EpochRebalance, MemberRow, epoch_rebalances
from kohort.insight.events import GroupEvent, Takeover, events, takeovers
from kohort.insight.findings.cost import classic_moves, resumed_moves
from kohort.insight.findings.model import (
    BlockerFinding,
    EvidenceFinding,
    MemberRef,
    MoveFinding,
    RebalanceFinding,
    StandingFinding,
    evidence_finding,
    member_ref,
)
from kohort.insight.findings.observed import observed_findings
from kohort.insight.holdings import GONE, Gap, Place
from kohort.insight.partings import SEEN, parting_of_raised, parting_of_removed
from kohort.insight.rebalances import Rebalance, rebalances
from kohort.insight.why import blocker, explain, why_late


def find_rebalances(entries: Sequence[JournalEntry]) -> list[RebalanceFinding]:
    """Return all rebalances that ``entries``, in the order of the journal, tell of, and what happened without one; of
    all their groups, oldest first."""
    found = [classic_finding(this) for this in rebalances(entries)]
    found += [modern_finding(this) for this in epoch_rebalances(entries)]
    found += [takeover_finding(this) for this in takeovers(entries)]
    found += observed_findings(entries)
    found += [event_finding(this) for this in events(entries)]
    return sorted(found, key=lambda this: this.opened_at_ms)


def classic_finding(this: Rebalance) -> RebalanceFinding:
    """Return a rebalance of a classic group as a finding."""
    told = explain(this)
    held_up = blocker(this)
    moves = classic_moves(this)
    gaps = [move.unowned_ms for move in moves if move.unowned_ms is not None]
    generation = this.generation
    return RebalanceFinding(
        id=classic_id(this),
        group=this.group,
        protocol="classic",
        opened_at_ms=this.opened_at_ms,
        end=this.end,
        cause=told.cause,
        confidence=told.confidence,
        sentence=told.sentence,
        advice=told.advice,
        evidence=_facts(told.evidence),
        from_generation=this.from_generation,
        generation=generation,
        parent=this.parent,
        trigger=_maybe(this.trigger.who),
        also=told.also,
        blocker=None
        if held_up is None
        else BlockerFinding(who=member_ref(held_up[0]), waited_ms=held_up[1], because=why_late(this, held_up[0])),
        took_ms=this.took_ms,
        phases_ms=this.phases_ms,
        assignor=this.protocol,
        leader=this.leader,
        members_before=_refs(this.members_before),
        members=_refs(this.members_after),
        gone=_told_by(told.cause, this.trigger.who, _removed(this)),
        moves=moves,
        unowned_partition_ms=sum(gaps) if gaps else None,
        follows=None if this.returned_from is None else classic_id(this.returned_from),
        stale_requests=len(this.fenced),
    )


def classic_id(this: Rebalance) -> str:
    """Return the name of a rebalance of a classic group."""
    return f"{this.group}/{f'after-{this.from_generation}' if this.generation is None else this.generation}"


def modern_finding(this: EpochRebalance) -> RebalanceFinding:
    """Return a rebalance of a modern group as a finding."""
    told = explain_epoch(this)
    slow, gaps = this.held_up, {(gap.topic, gap.partition): gap for gap in this.gaps}
    ends = {(move.topic, move.partition): move for move in this.moves}
    for place, gap in gaps.items():
        ends.setdefault(place, Move(gap.topic, gap.partition, gap.before, gap.after))
    blocker = (
        None
        if slow is None
        else BlockerFinding(who=member_ref(slow.who), waited_ms=slow.revoked_after_ms or 0, because="slow_to_revoke")
    )
    return RebalanceFinding(
        id=f"{this.group}/{this.epoch}",
        group=this.group,
        protocol="consumer",
        origin="inferred" if this.raises[0].observed else "journal",
        opened_at_ms=this.opened_at_ms,
        end=this.end,
        cause=told.cause,
        confidence=told.confidence,
        sentence=told.sentence,
        advice=told.advice,
        evidence=_facts(told.evidence),
        from_generation=this.from_epoch,
        generation=this.epoch,
        target_epoch=None if this.target is None else this.target.epoch,
        trigger=_maybe(this.raises[0].cause.who),
        blocker=blocker,
        took_ms=this.took_ms,
        phases_ms=this.phases_ms,
        assignor=None if this.target is None else this.target.assignor or None,
        members_before=_before(this),
        members=_refs(row.who for row in this.members),
        gone=_told_by(told.cause, this.raises[0].cause.who, _gone(this)),
        standing=tuple(_standing(row) for row in this.members),
        moves=resumed_moves([_moved(ends[place], gaps) for place in sorted(ends)], this.resumed, this.fenced),
        unowned_partition_ms=this.unowned_ms,
        stale_requests=len(this.fenced),
    )


def takeover_finding(this: Takeover) -> RebalanceFinding:
    """Return a static member that was replaced without a rebalance as a finding."""
    return RebalanceFinding(
        id=f"{this.group}/at-{this.at_ms}",
        group=this.group,
        protocol="classic",
        origin="inferred" if this.observed else "journal",
        opened_at_ms=this.at_ms,
        end="no_rebalance",
        cause=this.cause,
        confidence=this.confidence,
        sentence=this.sentence,
        advice=this.advice,
        evidence=_facts(this.evidence),
        trigger=member_ref(this.who),
        stale_requests=len(this.refused),
    )


def event_finding(this: GroupEvent) -> RebalanceFinding:
    """Return what happened without a rebalance as a finding."""
    return RebalanceFinding(
        id=f"{this.group}/at-{this.at_ms}",
        group=this.group,
        protocol="classic",
        opened_at_ms=this.at_ms,
        end="no_rebalance",
        cause=this.cause,
        confidence=this.confidence,
        sentence=this.sentence,
        advice=this.advice,
        evidence=_facts(this.evidence),
        trigger=_maybe(this.who),
    )


def _before(this: EpochRebalance) -> tuple[MemberRef, ...]:
    """Return the members that were there when the epoch rose, as far as it tells of them."""
    told = [row.who for row in this.members] + [step.who for step in this.steps]
    told += [who for raised in this.raises for who in (raised.cause.who, *raised.cause.others) if who is not None]
    new = {r.cause.who.member_id for r in this.raises if r.cause.event == "member_joined" and r.cause.who is not None}
    return _refs({who.member_id: who for who in told if who.member_id not in new}.values())


def _removed(this: Rebalance) -> dict[str, str]:
    """Return how members went, by their ids; those that were no members yet are left out."""
    hung_up = {entry.who.member_id: entry for entry in this.disconnected}
    members = [r for r in this.removed if r.vitals is not None]
    return {r.who.member_id: parting_of_removed(r, hung_up.get(r.who.member_id)).how for r in members}


def _gone(this: EpochRebalance) -> dict[str, str]:
    hung_up = {entry.who.member_id: entry for entry in this.disconnected}
    raises = [raised for raised in this.raises if raised.cause.event in GONE]
    named = [(who, r) for r in raises for who in (r.cause.who, *r.cause.others) if who is not None]
    return {who.member_id: parting_of_raised(r.cause, who, r.at_ms, hung_up.get(who.member_id)).how for who, r in named}


def _told_by(cause: str, who: Who | None, gone: dict[str, str]) -> dict[str, str]:
    """Return how members went, with what is concluded of the one that the rebalance began with: not all that send that
    they leave do so of their own accord."""
    how = SEEN.get(cause)
    if who is None or how is None or gone.get(who.member_id) not in ("left", "gone"):
        return gone
    return {**gone, who.member_id: how}


def still_to_get(row: MemberRow) -> list[Place]:
    """Return what a member of a modern group is to have and has not."""
    return [] if row.target is None else sorted({*row.target} - {*row.has})


def _standing(row: MemberRow) -> StandingFinding:
    return StandingFinding(
        who=member_ref(row.who),
        epoch=row.epoch,
        state=row.state,
        known=row.known,
        had=_names(row.had),
        has=_names(row.has),
        target=None if row.target is None else _names(row.target),
        to_revoke=_names(row.revoking),
        to_revoke_since_ms=row.revoking_since_ms,
        still_to_get=_names(still_to_get(row)),
        awaited_from={f"{one.topic}-{one.partition}": one.owner for one in row.awaited},
    )


def _moved(move: Move, gaps: dict[Place, Gap]) -> MoveFinding:
    gap = gaps.get((move.topic, move.partition))
    return MoveFinding(
        topic=move.topic,
        partition=move.partition,
        before=move.before,
        after=move.after,
        unowned_since_ms=None if gap is None else gap.since_ms,
        unowned_ms=None if gap is None else gap.took_ms,
    )


def _names(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in places)


def _refs(members: Iterable[Who]) -> tuple[MemberRef, ...]:
    return tuple(member_ref(who) for who in members)


def _maybe(who: Who | None) -> MemberRef | None:
    return None if who is None else member_ref(who)


def _facts(evidence: Iterable[Evidence]) -> tuple[EvidenceFinding, ...]:
    return tuple(evidence_finding(fact) for fact in evidence)
