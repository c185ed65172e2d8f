"""Findings about rebalances of both protocols and of watched groups, and about events without a rebalance.

A partition of a classic group has no owner from the last read of its old owner until the first fetch of its new
owner. An old owner that rejoins reads until it sends JoinGroup. An old owner that departs reads until its last request.
Only a late commit of the old owner shows how many records were read twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kohort.coordinator.journal import ClientIdentity, JournalEntry, Move, RequestFenced
from kohort.coordinator.journal_events import PartitionsResumed, ResumedPartition
from kohort.insight.assignments import DEPARTURE_EVENTS, Place
from kohort.insight.causes.table import advice_for
from kohort.insight.epochs import EpochRebalance, MemberRow, epoch_rebalances
from kohort.insight.events import GroupEvent, Takeover, events, takeovers
from kohort.insight.evidence import Evidence
from kohort.insight.findings.model import (
    BlockerFinding,
    EvidenceFinding,
    MemberAssignmentFinding,
    MemberRef,
    MoveFinding,
    RebalanceFinding,
    evidence_finding,
    member_ref,
)
from kohort.insight.member_exits import INFERRED, exit_of_raised, exit_of_removed
from kohort.insight.observed.generations import SeenRebalance, seen_rebalances
from kohort.insight.rebalances import Rebalance, rebalances
from kohort.insight.why import blocker, explain, members_in, why_late


def find_rebalances(entries: Sequence[JournalEntry]) -> list[RebalanceFinding]:
    """Return findings about all rebalances and other events in journal ``entries``, oldest first."""
    found = [classic_finding(rebalance) for rebalance in rebalances(entries)]
    found += [consumer_finding(rebalance) for rebalance in epoch_rebalances(entries)]
    found += [event_finding(rebalance) for rebalance in takeovers(entries)]
    found += [observed_finding(rebalance) for rebalance in seen_rebalances(entries)]
    found += [event_finding(rebalance) for rebalance in events(entries)]
    return sorted(found, key=lambda rebalance: rebalance.opened_at_ms)


def _evidence(facts: Iterable[Evidence]) -> tuple[EvidenceFinding, ...]:
    return tuple(evidence_finding(fact) for fact in facts)


def classic_finding(rebalance: Rebalance) -> RebalanceFinding:
    explanation = explain(rebalance)
    held_up = blocker(rebalance)
    moves = _classic_moves(rebalance)
    unowned = [move.unowned_ms for move in moves if move.unowned_ms is not None]
    return RebalanceFinding(
        id=_classic_id(rebalance),
        group=rebalance.group,
        protocol="classic",
        opened_at_ms=rebalance.opened_at_ms,
        end=rebalance.end,
        cause=explanation.cause,
        confidence=explanation.confidence,
        sentence=explanation.sentence,
        advice=explanation.advice,
        evidence=_evidence(explanation.evidence),
        from_generation=rebalance.from_generation,
        generation=rebalance.generation,
        parent=rebalance.parent,
        trigger=_maybe(rebalance.trigger.member),
        also=explanation.also,
        blocker=None
        if held_up is None
        else BlockerFinding(
            member=member_ref(held_up[0]), waited_ms=held_up[1], because=why_late(rebalance, held_up[0])
        ),
        took_ms=rebalance.took_ms,
        phases_ms=rebalance.phases_ms,
        assignor=rebalance.protocol,
        leader=rebalance.leader,
        members_before=_refs(rebalance.members_before),
        members=_refs(rebalance.members_after),
        departures=_with_cause(explanation.cause, rebalance.trigger.member, _removed(rebalance)),
        moves=moves,
        unowned_partition_ms=sum(unowned) if unowned else None,
        follows=None if rebalance.returned_from is None else _classic_id(rebalance.returned_from),
        stale_requests=len(rebalance.fenced),
    )


def _classic_id(rebalance: Rebalance) -> str:
    generation = f"after-{rebalance.from_generation}" if rebalance.generation is None else rebalance.generation
    return f"{rebalance.group}/{generation}"


def consumer_finding(rebalance: EpochRebalance) -> RebalanceFinding:
    explanation, slow = explain(rebalance), rebalance.held_up
    unowned = {(gap.topic, gap.partition): gap for gap in rebalance.unowned}
    ends = {(move.topic, move.partition): move for move in rebalance.moves}
    for place, gap in unowned.items():
        ends.setdefault(place, Move(gap.topic, gap.partition, gap.before, gap.after))
    moves = [
        _moved(ends[place], unowned[place].since_ms, unowned[place].took_ms)
        if place in unowned
        else _moved(ends[place])
        for place in sorted(ends)
    ]
    return RebalanceFinding(
        id=f"{rebalance.group}/{rebalance.epoch}",
        group=rebalance.group,
        protocol="consumer",
        origin="inferred" if rebalance.raises[0].observed else "journal",
        opened_at_ms=rebalance.opened_at_ms,
        end=rebalance.end,
        cause=explanation.cause,
        confidence=explanation.confidence,
        sentence=explanation.sentence,
        advice=explanation.advice,
        evidence=_evidence(explanation.evidence),
        from_generation=rebalance.from_epoch,
        generation=rebalance.epoch,
        target_epoch=None if rebalance.target is None else rebalance.target.epoch,
        trigger=_maybe(rebalance.raises[0].cause.member),
        also=explanation.also,
        blocker=None
        if slow is None
        else BlockerFinding(
            member=member_ref(slow.member), waited_ms=slow.revoked_after_ms or 0, because="slow_to_revoke"
        ),
        took_ms=rebalance.took_ms,
        phases_ms=rebalance.phases_ms,
        assignor=None if rebalance.target is None else rebalance.target.assignor or None,
        members_before=_before(rebalance),
        members=_refs(row.member for row in rebalance.members),
        departures=_with_cause(explanation.cause, rebalance.raises[0].cause.member, _departed(rebalance)),
        standing=tuple(_standing(row) for row in rebalance.members),
        moves=_with_costs(moves, rebalance.resumed, rebalance.fenced),
        unowned_partition_ms=rebalance.unowned_ms,
        stale_requests=len(rebalance.fenced),
    )


def observed_finding(rebalance: SeenRebalance) -> RebalanceFinding:
    """Build the finding of a rebalance that a watcher observed; its evidence contains bounds of the phase durations."""
    explanation = explain(rebalance)
    before, after = rebalance.before, rebalance.after
    departures = zip(rebalance.departed, rebalance.departures, strict=True)
    return RebalanceFinding(
        id=f"{rebalance.group}/{after.generation}",
        group=rebalance.group,
        protocol="classic",
        origin="inferred",
        opened_at_ms=rebalance.opened_at_ms,
        end="stable" if after.members else "empty",
        cause=explanation.cause,
        confidence=explanation.confidence,
        sentence=explanation.sentence,
        advice=explanation.advice,
        evidence=_evidence(explanation.evidence),
        from_generation=None if before is None else before.generation,
        generation=after.generation,
        parent=rebalance.parent,
        trigger=_seen_trigger(rebalance),
        also=explanation.also,
        phases_ms={} if rebalance.assign_ms is None else {"assign": rebalance.assign_ms},
        assignor=after.protocol,
        leader=after.leader,
        members_before=_refs(member.member for member in (() if before is None else before.members)),
        members=_refs(member.member for member in after.members),
        departures={one.member.member_id: INFERRED.get(found.cause, "departed") for one, found in departures},
        moves=tuple(_moved(move) for move in rebalance.moves),
    )


def event_finding(rebalance: GroupEvent | Takeover) -> RebalanceFinding:
    return RebalanceFinding(
        id=f"{rebalance.group}/at-{rebalance.at_ms}",
        group=rebalance.group,
        protocol="classic",
        origin="inferred" if rebalance.observed else "journal",
        opened_at_ms=rebalance.at_ms,
        end="no_rebalance",
        cause=rebalance.cause,
        confidence=rebalance.confidence,
        sentence=rebalance.sentence,
        advice=advice_for(rebalance.cause),
        evidence=_evidence(rebalance.evidence),
        trigger=_maybe(rebalance.member),
        stale_requests=len(rebalance.refused),
    )


def _seen_trigger(rebalance: SeenRebalance) -> MemberRef | None:
    for changed in (rebalance.missing, rebalance.new, tuple(after for _, after in rebalance.restarted)):
        if changed:
            return member_ref(changed[0].member) if len(changed) == 1 else None
    return None


def _before(rebalance: EpochRebalance) -> tuple[MemberRef, ...]:
    joined = (raised.cause.member for raised in rebalance.raises if raised.cause.event == "member_joined")
    new = {member.member_id for member in joined if member is not None}
    return _refs(member for member_id, member in members_in(rebalance).items() if member_id not in new)


def _removed(rebalance: Rebalance) -> dict[str, str]:
    disconnected = {entry.member.member_id: entry for entry in rebalance.disconnected}
    members = [r for r in rebalance.removed if r.vitals is not None]
    return {r.member.member_id: exit_of_removed(r, disconnected.get(r.member.member_id)).kind for r in members}


def _departed(rebalance: EpochRebalance) -> dict[str, str]:
    disconnected = {entry.member.member_id: entry for entry in rebalance.disconnected}
    raises = [raised for raised in rebalance.raises if raised.cause.event in DEPARTURE_EVENTS]
    named = [(member, r) for r in raises for member in (r.cause.member, *r.cause.others) if member is not None]
    return {
        member.member_id: exit_of_raised(r.cause, member, r.at_ms, disconnected.get(member.member_id)).kind
        for member, r in named
    }


def _with_cause(cause: str, member: ClientIdentity | None, departures: dict[str, str]) -> dict[str, str]:
    how = INFERRED.get(cause)
    if member is None or how is None or departures.get(member.member_id) not in ("left", "departed"):
        return departures
    return {**departures, member.member_id: how}


def _standing(row: MemberRow) -> MemberAssignmentFinding:
    return MemberAssignmentFinding(
        member=member_ref(row.member),
        epoch=row.epoch,
        state=row.state,
        known=row.known,
        assignment_before=_names(row.assignment_before),
        assignment=_names(row.assignment),
        target=None if row.target is None else _names(row.target),
        to_revoke=_names(row.revoking),
        to_revoke_since_ms=row.revoking_since_ms,
        still_to_get=() if row.target is None else _names(sorted({*row.target} - {*row.assignment})),
        awaited_from={f"{one.topic}-{one.partition}": one.owner for one in row.awaited},
    )


def _names(places: Iterable[Place]) -> tuple[str, ...]:
    return tuple(f"{topic}-{partition}" for topic, partition in places)


def _refs(members: Iterable[ClientIdentity]) -> tuple[MemberRef, ...]:
    return tuple(member_ref(member) for member in members)


def _maybe(member: ClientIdentity | None) -> MemberRef | None:
    return None if member is None else member_ref(member)


def _moved(move: Move, since_ms: int | None = None, unowned_ms: int | None = None) -> MoveFinding:
    return MoveFinding(
        topic=move.topic,
        partition=move.partition,
        before=move.before,
        after=move.after,
        unowned_since_ms=since_ms,
        unowned_ms=unowned_ms,
    )


def _classic_moves(rebalance: Rebalance) -> tuple[MoveFinding, ...]:
    stopped = {a.member.member_id: a.at_ms for a in rebalance.arrivals}
    for removed in rebalance.removed:
        vitals = removed.vitals
        if vitals is not None:
            stopped[removed.member.member_id] = vitals.last_seen_ms if removed.why != "left" else removed.at_ms
    began = {(p.topic, p.partition): entry.at_ms for entry in rebalance.resumed for p in entry.partitions}
    moves = []
    for move in rebalance.moves:
        since_ms = None if move.before is None else stopped.get(move.before, rebalance.opened_at_ms)
        at_ms = began.get((move.topic, move.partition))
        if since_ms is None or at_ms is None:
            moves.append(_moved(move))
        else:
            moves.append(_moved(move, since_ms, max(0, at_ms - since_ms)))
    return _with_costs(moves, rebalance.resumed, rebalance.fenced)


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
