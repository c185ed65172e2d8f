"""Rebalances of a journal as findings: of both protocols, observed by a watcher, and events without a rebalance.

A partition of a classic group has no owner from the moment that its old owner stopped until the first fetch of its new
owner. An owner that rejoins stops with its JoinGroup, a departed owner with its last request. The number of records
that are read again is known only where the old owner named its position: in a late commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from kohort.coordinator.journal import JournalEntry, Move, RequestFenced, Who
from kohort.coordinator.journal_events import PartitionsResumed, ResumedPartition
from kohort.insight.causes.table import advice_for
from kohort.insight.epochs import EpochRebalance, MemberRow, epoch_rebalances
from kohort.insight.events import GroupEvent, Takeover, events, takeovers
from kohort.insight.findings.model import (
    BlockerFinding,
    MemberRef,
    MoveFinding,
    RebalanceFinding,
    StandingFinding,
    evidence_finding,
    member_ref,
)
from kohort.insight.holdings import GONE, Place
from kohort.insight.observed.generations import SeenRebalance, seen_rebalances
from kohort.insight.partings import SEEN, parting_of_raised, parting_of_removed
from kohort.insight.rebalances import Rebalance, rebalances
from kohort.insight.why import Explanation, blocker, explain, members_in, why_late


def find_rebalances(entries: Sequence[JournalEntry]) -> list[RebalanceFinding]:
    """Return all rebalances and events of ``entries``, which are in the order of the journal, oldest first."""
    found = [classic_finding(this) for this in rebalances(entries)]
    found += [modern_finding(this) for this in epoch_rebalances(entries)]
    found += [event_finding(this) for this in takeovers(entries)]
    found += [observed_finding(this) for this in seen_rebalances(entries)]
    found += [event_finding(this) for this in events(entries)]
    return sorted(found, key=lambda this: this.opened_at_ms)


def _explained(told: Explanation) -> dict[str, Any]:
    return {
        "cause": told.cause,
        "confidence": told.confidence,
        "sentence": told.sentence,
        "advice": told.advice,
        "evidence": tuple(evidence_finding(fact) for fact in told.evidence),
    }


def classic_finding(this: Rebalance) -> RebalanceFinding:
    """Return the finding of a round of a classic group."""
    told = explain(this)
    held_up = blocker(this)
    moves = _classic_moves(this)
    gaps = [move.unowned_ms for move in moves if move.unowned_ms is not None]
    return RebalanceFinding(
        id=_classic_id(this),
        group=this.group,
        protocol="classic",
        opened_at_ms=this.opened_at_ms,
        end=this.end,
        **_explained(told),
        from_generation=this.from_generation,
        generation=this.generation,
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
        gone=_with_cause(told.cause, this.trigger.who, _removed(this)),
        moves=moves,
        unowned_partition_ms=sum(gaps) if gaps else None,
        follows=None if this.returned_from is None else _classic_id(this.returned_from),
        stale_requests=len(this.fenced),
    )


def _classic_id(this: Rebalance) -> str:
    return f"{this.group}/{f'after-{this.from_generation}' if this.generation is None else this.generation}"


def modern_finding(this: EpochRebalance) -> RebalanceFinding:
    """Return the finding of a raise of a consumer group's epoch."""
    told, slow = explain(this), this.held_up
    gaps = {(gap.topic, gap.partition): gap for gap in this.gaps}
    ends = {(move.topic, move.partition): move for move in this.moves}
    for place, gap in gaps.items():
        ends.setdefault(place, Move(gap.topic, gap.partition, gap.before, gap.after))
    moves = [
        _moved(ends[place], gaps[place].since_ms, gaps[place].took_ms) if place in gaps else _moved(ends[place])
        for place in sorted(ends)
    ]
    return RebalanceFinding(
        id=f"{this.group}/{this.epoch}",
        group=this.group,
        protocol="consumer",
        origin="inferred" if this.raises[0].observed else "journal",
        opened_at_ms=this.opened_at_ms,
        end=this.end,
        **_explained(told),
        from_generation=this.from_epoch,
        generation=this.epoch,
        target_epoch=None if this.target is None else this.target.epoch,
        trigger=_maybe(this.raises[0].cause.who),
        blocker=None
        if slow is None
        else BlockerFinding(who=member_ref(slow.who), waited_ms=slow.revoked_after_ms or 0, because="slow_to_revoke"),
        took_ms=this.took_ms,
        phases_ms=this.phases_ms,
        assignor=None if this.target is None else this.target.assignor or None,
        members_before=_before(this),
        members=_refs(row.who for row in this.members),
        gone=_with_cause(told.cause, this.raises[0].cause.who, _gone(this)),
        standing=tuple(_standing(row) for row in this.members),
        moves=_with_costs(moves, this.resumed, this.fenced),
        unowned_partition_ms=this.unowned_ms,
        stale_requests=len(this.fenced),
    )


def observed_finding(this: SeenRebalance) -> RebalanceFinding:
    """Return the finding of an observed generation. Bounds of phases are in the evidence, not in ``phases_ms``."""
    told = explain(this)
    before, after = this.before, this.after
    departures = zip(this.departed, this.departures, strict=True)
    return RebalanceFinding(
        id=f"{this.group}/{after.generation}",
        group=this.group,
        protocol="classic",
        origin="inferred",
        opened_at_ms=this.opened_at_ms,
        end="stable" if after.members else "empty",
        **_explained(told),
        from_generation=None if before is None else before.generation,
        generation=after.generation,
        parent=this.parent,
        trigger=_seen_trigger(this),
        also=told.also,
        phases_ms={} if this.assign_ms is None else {"assign": this.assign_ms},
        assignor=after.protocol,
        leader=after.leader,
        members_before=_refs(member.who for member in (() if before is None else before.members)),
        members=_refs(member.who for member in after.members),
        gone={one.who.member_id: SEEN.get(found.cause, "gone") for one, found in departures},
        moves=tuple(_moved(move) for move in this.moves),
    )


def event_finding(this: GroupEvent | Takeover) -> RebalanceFinding:
    """Return the finding of an event without a rebalance."""
    evidence = tuple(this.evidence)
    return RebalanceFinding(
        id=f"{this.group}/at-{this.at_ms}",
        group=this.group,
        protocol="classic",
        origin="inferred" if this.observed else "journal",
        opened_at_ms=this.at_ms,
        end="no_rebalance",
        **_explained(Explanation(this.cause, this.confidence, this.sentence, evidence, advice_for(this.cause))),
        trigger=_maybe(this.who),
        stale_requests=len(this.refused),
    )


def _seen_trigger(this: SeenRebalance) -> MemberRef | None:
    for changed in (this.gone, this.new, tuple(after for _, after in this.restarted)):
        if changed:
            return member_ref(changed[0].who) if len(changed) == 1 else None
    return None


def _before(this: EpochRebalance) -> tuple[MemberRef, ...]:
    joined = (raised.cause.who for raised in this.raises if raised.cause.event == "member_joined")
    new = {who.member_id for who in joined if who is not None}
    return _refs(who for member_id, who in members_in(this).items() if member_id not in new)


def _removed(this: Rebalance) -> dict[str, str]:
    hung_up = {entry.who.member_id: entry for entry in this.disconnected}
    members = [r for r in this.removed if r.vitals is not None]
    return {r.who.member_id: parting_of_removed(r, hung_up.get(r.who.member_id)).how for r in members}


def _gone(this: EpochRebalance) -> dict[str, str]:
    hung_up = {entry.who.member_id: entry for entry in this.disconnected}
    raises = [raised for raised in this.raises if raised.cause.event in GONE]
    named = [(who, r) for r in raises for who in (r.cause.who, *r.cause.others) if who is not None]
    return {who.member_id: parting_of_raised(r.cause, who, r.at_ms, hung_up.get(who.member_id)).how for who, r in named}


def _with_cause(cause: str, who: Who | None, gone: dict[str, str]) -> dict[str, str]:
    how = SEEN.get(cause)
    if who is None or how is None or gone.get(who.member_id) not in ("left", "gone"):
        return gone
    return {**gone, who.member_id: how}


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
        still_to_get=() if row.target is None else _names(sorted({*row.target} - {*row.has})),
        awaited_from={f"{one.topic}-{one.partition}": one.owner for one in row.awaited},
    )


def _names(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in places)


def _refs(members: Iterable[Who]) -> tuple[MemberRef, ...]:
    return tuple(member_ref(who) for who in members)


def _maybe(who: Who | None) -> MemberRef | None:
    return None if who is None else member_ref(who)


# Costs


def _moved(move: Move, since_ms: int | None = None, unowned_ms: int | None = None) -> MoveFinding:
    return MoveFinding(
        topic=move.topic,
        partition=move.partition,
        before=move.before,
        after=move.after,
        unowned_since_ms=since_ms,
        unowned_ms=unowned_ms,
    )


def _classic_moves(this: Rebalance) -> tuple[MoveFinding, ...]:
    stopped = {a.who.member_id: a.at_ms for a in this.arrivals}
    for removed in this.removed:
        vitals = removed.vitals
        if vitals is not None:
            stopped[removed.who.member_id] = vitals.last_seen_ms if removed.why != "left" else removed.at_ms
    began = {(p.topic, p.partition): entry.at_ms for entry in this.resumed for p in entry.partitions}
    moves = []
    for move in this.moves:
        since_ms = None if move.before is None else stopped.get(move.before, this.opened_at_ms)
        at_ms = began.get((move.topic, move.partition))
        if since_ms is None or at_ms is None:
            moves.append(_moved(move))
        else:
            moves.append(_moved(move, since_ms, max(0, at_ms - since_ms)))
    return _with_costs(moves, this.resumed, this.fenced)


def _with_costs(
    moves: Sequence[MoveFinding], resumed: Iterable[PartitionsResumed], fenced: Iterable[RequestFenced]
) -> tuple[MoveFinding, ...]:
    starts: dict[tuple[str, int], ResumedPartition] = {}
    for entry in resumed:
        for p in entry.partitions:
            starts.setdefault((p.topic, p.partition), p)
    tried: dict[tuple[str, int], int] = {}
    for refused in fenced:
        for offset in refused.offsets:
            place = offset.topic, offset.partition
            tried[place] = max(offset.after, tried.get(place, 0))
    return tuple(_with_cost(move, starts.get((move.topic, move.partition)), tried) for move in moves)


def _with_cost(move: MoveFinding, start: ResumedPartition | None, tried: dict[tuple[str, int], int]) -> MoveFinding:
    if start is None:
        return move
    reached = tried.get((move.topic, move.partition))
    again = None if reached is None else max(0, reached - start.offset)
    return replace(move, lag_before=start.lag_before, lag_after=start.lag, redelivered=again)
