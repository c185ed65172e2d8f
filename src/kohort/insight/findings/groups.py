"""State of a group, its members and its partitions: lag, health and reasons, for any cluster and protocol.

Field names are those of the JSON. An unknown value is None, never 0. ``lag`` is in records. ``lag_ms`` is the age of
the next record to consume, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from kohort.insight.evidence import Confidence
from kohort.insight.findings.model import EvidenceFinding, MemberRef, RebalanceFinding, evidence_finding
from kohort.insight.health import HealthVerdict, RebalanceTimes, health_of
from kohort.insight.lag import GroupLag, LagOfPartition, LagSum, lag_of
from kohort.insight.names import count, printable, seconds
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot

HOUR_MS = 3_600_000
Severity = Literal["info", "warning", "error"]


class PartitionFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Partition of a group: offsets, lag, owner and status."""

    topic: str
    partition: int
    status: str | None
    """Status of the partition in Burrow's terms: OK, WARN, STOP, STALL, REWIND; None if unknown."""
    reason: str
    confidence: Confidence
    evidence: tuple[EvidenceFinding, ...] = ()
    blame: str
    owner: MemberRef | None = None
    committed: int | None = None
    log_start: int | None = None
    last_stable: int | None = None
    log_end: int | None = None
    lag: int | None = None
    stable_lag: int | None = None
    """Lag up to the last stable offset, in records: the lag of read_committed consumers."""
    lag_ms: int | None = None
    lead: int | None = None
    """Number of records between the log start offset and the committed offset."""
    lost: int = 0
    """Number of records that retention deleted before the group consumed them."""
    start_moved: int = 0
    """Number of offsets by which retention moved the log start offset between the first and the last sample."""
    written_per_s: float | None = None
    read_per_s: float | None = None
    eta_ms: int | None = None
    draining: str = "unknown"
    unknown: str | None = None
    metadata: str = ""


class MemberFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Member of a group: state, assignment and lag."""

    member: MemberRef
    state: str
    reason: str
    confidence: Confidence
    evidence: tuple[EvidenceFinding, ...] = ()
    topics: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    lag: int | None = None
    lag_ms: int | None = None
    lag_ms_complete: bool = True
    eta_ms: int | None = None
    draining: str = "unknown"
    epoch: int | None = None


class LastRebalance(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    at_ms: int
    cause: str
    took_ms: int | None = None


class GroupFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of a group at one time: health with its main reason, lag, and the member that causes the lag."""

    group: str
    at_ms: int
    sample_span_ms: int
    """Time between the first and the last sample of the group, in ms; 0 with one sample, which gives no rates."""
    health: str | None
    """Health of the group: OK, WARN, STOP, STALL, REWIND, REBALANCING, STORM; None if unknown."""
    reason: str
    confidence: Confidence
    evidence: tuple[EvidenceFinding, ...] = ()
    sentence: str
    state: str
    protocol: str
    protocol_type: str
    assignor: str | None = None
    coordinator_id: int | None = None
    epoch: int | None = None
    """Group epoch of a consumer group; for a classic group, the generation in its last journal entries."""
    lag: int | None = None
    stable_lag: int | None = None
    lag_ms: int | None = None
    lag_ms_complete: bool = True
    """False if some partitions have an unknown time lag; then the time lag of the group may exceed ``lag_ms``."""
    lag_unknown: int = 0
    """Number of partitions with unknown lag; ``lag`` is the sum over the other partitions."""
    eta_ms: int | None = None
    draining: str = "unknown"
    blame: str = "none"
    blamed: MemberRef | None = None
    rebalances_1h: int | None = None
    """Number of rebalances in the last hour, except cooperative follow-ups; None without a journal of the group."""
    last_rebalance: LastRebalance | None = None
    stable_share_1h: float | None = None
    """Fraction (0 to 1) of the last hour in which the group did not rebalance; None without a journal of the group."""
    members: tuple[MemberFinding, ...] = ()
    partitions: tuple[PartitionFinding, ...] = ()


def find_group(
    snapshots: Sequence[GroupSnapshot], rebalances: Sequence[RebalanceFinding] | None = None
) -> GroupFinding:
    """Return lag, health, members and partitions of a group. Its newest snapshot is its present state.

    ``rebalances``: rebalances in the journal of the group, None without a journal. Raises ValueError without snapshots.
    """
    counted = [r for r in rebalances or () if r.parent is None and r.end != "no_rebalance"]
    last = max(counted, key=lambda r: r.opened_at_ms, default=None)
    since_ms = None if last is None else last.opened_at_ms + (last.took_ms or 0)
    lag = lag_of(snapshots, since_ms)
    # a first join and a last leave interrupt no other member
    disturbing = [r for r in counted if r.cause != "GROUP_FORMING" and r.members]
    report = health_of(lag, RebalanceTimes(opened_at_ms=tuple(r.opened_at_ms for r in disturbing)))
    now, total = lag.now, lag.total
    times = [s.at_ms for s in snapshots if s.group == now.group]
    recent = [r for r in counted if 0 <= now.at_ms - r.opened_at_ms <= HOUR_MS]
    busy_ms = sum(r.took_ms or 0 for r in recent)
    return GroupFinding(
        group=now.group,
        at_ms=now.at_ms,
        sample_span_ms=now.at_ms - min(times),
        health=report.group.word,
        reason=report.group.clause,
        confidence=report.group.confidence,
        evidence=_facts(report.group),
        sentence=sentence_of(lag, report.group),
        state=now.state,
        protocol=now.protocol,
        protocol_type=now.protocol_type,
        assignor=now.assignor,
        coordinator_id=now.coordinator_id,
        epoch=now.epoch if now.epoch is not None else _generation(rebalances or ()),
        lag=total.records,
        stable_lag=total.stable_records,
        lag_ms=total.time_ms,
        lag_ms_complete=total.time_complete,
        lag_unknown=total.unknown,
        eta_ms=total.eta_ms,
        draining=total.draining,
        blame=lag.blame,
        blamed=None if lag.blamed is None else ref_of(lag.blamed),
        rebalances_1h=None if rebalances is None else len(recent),
        last_rebalance=None
        if last is None
        else LastRebalance(at_ms=last.opened_at_ms, cause=last.cause, took_ms=last.took_ms),
        stable_share_1h=None if rebalances is None else round(1 - min(1.0, busy_ms / HOUR_MS), 6),
        members=tuple(_member(m, lag.members[m.member_id], report.members[m.member_id]) for m in now.members),
        partitions=tuple(
            _partition(one, verdict) for one, verdict in zip(lag.partitions, report.partitions, strict=True)
        ),
    )


def _generation(rebalances: Sequence[RebalanceFinding]) -> int | None:
    made = [r for r in rebalances if r.generation is not None and r.end != "no_rebalance" and r.protocol == "classic"]
    return max(made, key=lambda r: r.opened_at_ms).generation if made else None


def sentence_of(lag: GroupLag, verdict: HealthVerdict) -> str:
    now, total = lag.now, lag.total
    mine = [one for one in lag.partitions if one.counts]
    parts = [f"{printable(now.group)} is {printable(now.state) or 'in an unknown state'}"]
    parts.append(count(len(now.members), "member"))
    if now.members:
        owned = sum(one.owner is not None for one in mine)
        parts.append(f"{owned} of {count(len(mine), 'partition')} owned")
    if total.records is None:
        parts.append("lag unknown")
    else:
        waited = "" if not total.records or total.time_ms is None else f" ({waited_text(total)})"
        least = "at least " if total.unknown and total.records else ""
        parts.append(f"{least}{count(total.records, 'record')} behind{waited}")
    lost = sum(one.lost for one in mine)
    if lost:
        parts.append(f"{count(lost, 'record')} deleted unread")
    if verdict.word in (None, "OK"):
        return f"{', '.join(parts)}: {verdict.clause}."
    return f"{', '.join(parts)}. {verdict.word}: {verdict.clause}."


def waited_text(total: LagSum) -> str:
    return f"{'' if total.time_complete else 'at least '}{seconds(total.time_ms or 0)}"


def ref_of(member: MemberSnapshot) -> MemberRef:
    return MemberRef(
        member_id=member.member_id, client_id=member.client_id, host=member.host, instance_id=member.instance_id
    )


def _member(member: MemberSnapshot, total: LagSum, verdict: HealthVerdict) -> MemberFinding:
    return MemberFinding(
        member=ref_of(member),
        state=verdict.word or "unknown",
        reason=verdict.clause,
        confidence=verdict.confidence,
        evidence=_facts(verdict),
        topics=member.topics,
        partitions=tuple(str(tp) for tp in member.assignment),
        lag=total.records,
        lag_ms=total.time_ms,
        lag_ms_complete=total.time_complete,
        eta_ms=total.eta_ms,
        draining=total.draining,
        epoch=member.epoch,
    )


def _partition(one: LagOfPartition, verdict: HealthVerdict) -> PartitionFinding:
    at = one.at
    return PartitionFinding(
        topic=at.partition.topic,
        partition=at.partition.partition,
        status=verdict.word,
        reason=verdict.clause,
        confidence=verdict.confidence,
        evidence=_facts(verdict),
        blame=one.blame,
        owner=None if one.owner is None else ref_of(one.owner),
        committed=at.committed,
        log_start=at.log_start,
        last_stable=at.last_stable,
        log_end=at.log_end,
        lag=one.records,
        stable_lag=one.stable_records,
        lag_ms=one.time_ms,
        lead=one.lead,
        lost=one.lost,
        start_moved=one.start_moved,
        written_per_s=one.written_per_s,
        read_per_s=one.read_per_s,
        eta_ms=one.eta_ms,
        draining=one.draining,
        unknown=one.unknown,
        metadata=at.metadata,
    )


def _facts(verdict: HealthVerdict) -> tuple[EvidenceFinding, ...]:
    return tuple(evidence_finding(fact) for fact in verdict.evidence)
