"""From a group's finding to what ``doctor`` says: rules, each with advice; none fires where there is nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kohort.insight.evidence import Confidence
from kohort.insight.findings.groups import (
    HOUR_MS,
    GroupFinding,
    MemberFinding,
    PartitionFinding,
    Severity,
    name_of_ref,
)
from kohort.insight.findings.model import EvidenceFinding, MemberRef, RebalanceFinding
from kohort.insight.names import count, printable, seconds

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
SHOWN: Final = 3
"""So many names stand in a sentence; the evidence has all."""


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule found: in which group, of whom, how bad, how sure, on what evidence, and what to do."""

    rule: str
    severity: Severity
    group: str
    sentence: str
    advice: str
    confidence: Confidence
    member: MemberRef | None = None
    partitions: tuple[str, ...] = ()
    evidence: tuple[EvidenceFinding, ...] = ()


ADVICE: Final[dict[str, str]] = {
    "nobody-reads": "start its members; if it is done with for good, delete the group",
    "no-owner": "see why the assignor left it out: kohort group why; the next rebalance gives it out again",
    "stalled": "look at what that member does with the next record: kohort group describe shows its offset",
    "no-commits": "see whether the job runs that commits for it, and is no member, as of Spark and Flink; if it is "
    "done with for good, delete the group",
    "commits-alone": "look for longer, --watch-for 60s: whether it is read shows only once its offsets move",
    "never-committed": "commit what was handled, or turn enable.auto.commit on; if offsets are kept elsewhere, that is "
    "as it should be",
    "rewound": "if nobody reset it, look for a member that commits offsets of its own, or old ones after a rebalance",
    "slow": "make handling faster, or add members up to the number of partitions",
    "skew": "spread the keys: more members do not help where one partition gets most of what is written",
    "hot": "see whether its partitions get more than the others (keys), or it handles more slowly (host)",
    "open-transaction": "find its producer: kohort transactions list, or find-hanging; either can be aborted there",
    "records-lost": "raise retention, or read faster; what was deleted cannot be read again",
    "retention-near": "raise retention before the records that wait are deleted, or read faster",
    "beyond-the-end": "the topic was made anew, or its log cut: reset the offsets with kohort group reset-offsets",
    "topic-gone": "an offset is left of it, which does no harm and expires",
    "topic-missing": "a member is to read it: make the topic again, or change the subscription",
    "storm": "kohort group why tells what each was about; the causes repeat",
    "left-unheard": "it did not poll in time and never came back: look at that process, it may hang",
    "refused": "give every member a common entry in partition.assignment.strategy; kohort group fenced has both sides",
    "full": "raise group.max.size, or run fewer members",
    "idle": "more members than partitions do nothing but stand by",
    "not-seen": "ask for the right to describe it, or try again",
}
"""What to do, by rule."""
SEVERITY_OF: Final[dict[str, Severity]] = {
    **dict.fromkeys(("nobody-reads", "no-owner", "stalled", "records-lost", "beyond-the-end", "refused"), "error"),
    **dict.fromkeys(("commits-alone", "topic-gone", "idle", "not-seen"), "info"),
}
"""How bad it is, by rule; the others are warnings."""


def examine(found: GroupFinding, rebalances: Sequence[RebalanceFinding] | None = None) -> list[DoctorFinding]:
    """Return the findings of a group, the worst first."""
    findings = [one for rule in RULES for one in rule(found)]
    findings += [*_left_unheard(found, rebalances or ()), *_refused(found, rebalances or ())]
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def is_bad(findings: Iterable[DoctorFinding]) -> bool:
    return any(one.severity != "info" for one in findings)


def _by_status(found: GroupFinding) -> Iterator[DoctorFinding]:
    """Find partitions with a bad status, grouped by rule."""
    alike: dict[str, list[PartitionFinding]] = {}
    for one in found.partitions:
        if one.status not in (None, "OK") or (one.status is None and one.blame == "no_members"):
            alike.setdefault(_rule_of(one), []).append(one)
    for rule, partitions in alike.items():
        worst = max(partitions, key=lambda one: one.lag or 0)
        sentence = f"{_names(partitions)}: {worst.reason}"
        if worst.owner is not None and rule != "rewound":
            sentence += f"; {name_of_ref(worst.owner)} has {'it' if len(partitions) == 1 else 'the worst of them'}"
        yield _finding(found, rule, sentence, partitions, member=worst.owner)


def _rule_of(one: PartitionFinding) -> str:
    if one.status is None:
        return "commits-alone"
    if one.status == "STOP":
        return "no-owner" if one.blame == "no_owner" else "nobody-reads"
    if one.status == "STALL" and one.blame == "no_members":
        return "no-commits"
    if one.status == "WARN":
        return {
            "open_transaction": "open-transaction",
            "never_committed": "never-committed",
            "skew": "skew",
        }.get(one.blame, "slow")
    return {"STALL": "stalled", "REWIND": "rewound"}.get(one.status or "", "slow")


def _of_logs(found: GroupFinding) -> Iterator[DoctorFinding]:
    """Find unread records that retention deleted or soon will, and offsets outside of the log."""
    lost = [one for one in found.partitions if one.lost and one.lag]
    if lost:
        total = sum(one.lost for one in lost)
        yield _finding(found, "records-lost", f"{count(total, 'record')} of {_names(lost)} deleted unread", lost)
    near = [
        one
        for one in found.partitions
        if one.lag and not one.lost and one.lead is not None and 0 < one.start_moved >= one.lead
    ]
    if near:
        sentence = (
            f"{_names(near)}: the start of the log moved by {count(near[0].start_moved, 'record')} while one looked, "
            f"and {count(near[0].lead or 0, 'record')} further is what is read next"
        )
        yield _finding(found, "retention-near", sentence, near)
    beyond = [
        one
        for one in found.partitions
        if one.committed is not None and one.log_end is not None and one.committed > one.log_end
    ]
    if beyond:
        sentence = f"the offset of {_names(beyond)} lies after the end of the log"
        yield _finding(found, "beyond-the-end", sentence, beyond)
    gone = [one for one in found.partitions if one.unknown is not None and "does not exist" in one.unknown]
    if gone:
        rule = "topic-missing" if any(one.owner is not None for one in gone) else "topic-gone"
        yield _finding(found, rule, f"{_names(gone)}: {printable(gone[0].unknown or '')}", gone)


def _of_members(found: GroupFinding) -> Iterator[DoctorFinding]:
    hot = [member for member in found.members if member.state == "hot"]
    for member in hot:
        yield _of_member(found, "hot", member)
    idle = [member for member in found.members if member.state == "idle"]
    if idle and any(member.partitions for member in found.members):
        names = ", ".join(name_of_ref(member.who) for member in idle[:SHOWN])
        more = f" and {len(idle) - SHOWN} more" if len(idle) > SHOWN else ""
        yield _finding(found, "idle", f"{names}{more}: no partition", (), evidence=idle[0].evidence)


def _of_group(found: GroupFinding) -> Iterator[DoctorFinding]:
    if found.health == "STORM":
        yield _finding(found, "storm", found.reason, (), evidence=found.evidence)
    hidden = [one for one in found.partitions if one.unknown is not None and "not authorised" in one.unknown]
    if hidden:
        yield _finding(found, "not-seen", f"{_names(hidden)}: {printable(hidden[0].unknown or '')}", hidden)
    if found.health is None and not found.partitions and found.evidence:
        yield _finding(found, "not-seen", found.reason, (), evidence=found.evidence)


RULES: Final[tuple[Callable[[GroupFinding], Iterator[DoctorFinding]], ...]] = (
    _by_status,
    _of_logs,
    _of_members,
    _of_group,
)


def _left_unheard(found: GroupFinding, rebalances: Sequence[RebalanceFinding]) -> Iterator[DoctorFinding]:
    """Find members that left because they did not poll in time, and did not return."""
    here = {(member.who.client_id, member.who.host) for member in found.members}
    came_after: set[tuple[str, str]] = set()
    told: set[tuple[str, str]] = set()
    for this in sorted(rebalances, key=lambda r: r.opened_at_ms, reverse=True):
        who = this.trigger
        if who is not None and this.cause == "MAX_POLL_EXCEEDED":
            name = (who.client_id, who.host)
            if name not in here | came_after | told:
                told.add(name)
                ago = seconds(max(found.at_ms - this.opened_at_ms, 0))
                sentence = f"{name_of_ref(who)} left {ago} ago because it did not poll in time, and did not come back"
                finding = _finding(found, "left-unheard", sentence, (), member=who, evidence=this.evidence)
                yield msgspec.structs.replace(finding, confidence=this.confidence)
        came_after |= {(member.client_id, member.host) for member in this.members}


REFUSALS: Final = {"INCOMPATIBLE_ASSIGNORS": "refused", "GROUP_FULL": "full"}
"""Causes of refused joins, and the rule that each makes."""


def _refused(found: GroupFinding, rebalances: Sequence[RebalanceFinding]) -> Iterator[DoctorFinding]:
    """Find clients with a refused join in this generation or in the last hour, that are no members now."""
    here = {(member.who.client_id, member.who.host) for member in found.members}
    in_order = sorted(rebalances, key=lambda r: r.opened_at_ms)
    last_ms = max((this.opened_at_ms for this in in_order if this.end != "no_rebalance"), default=0)
    latest = {this.cause: this for this in in_order if this.cause in REFUSALS}
    for cause, this in latest.items():
        who, since_ms = this.trigger, min(last_ms, found.at_ms - HOUR_MS)
        if this.opened_at_ms < since_ms or who is None or (who.client_id, who.host) in here:
            continue
        sentence = f"{this.sentence.removesuffix('.')}, {seconds(max(found.at_ms - this.opened_at_ms, 0))} ago"
        finding = _finding(found, REFUSALS[cause], sentence, (), member=who, evidence=this.evidence)
        yield msgspec.structs.replace(finding, confidence=this.confidence)


def _of_member(found: GroupFinding, rule: str, member: MemberFinding) -> DoctorFinding:
    sentence = f"{name_of_ref(member.who)}: {member.reason}"
    finding = _finding(found, rule, sentence, (), member=member.who, evidence=member.evidence)
    return msgspec.structs.replace(finding, confidence=member.confidence)


def _finding(
    found: GroupFinding,
    rule: str,
    sentence: str,
    partitions: Sequence[PartitionFinding] = (),
    *,
    member: MemberRef | None = None,
    evidence: tuple[EvidenceFinding, ...] = (),
) -> DoctorFinding:
    return DoctorFinding(
        rule=rule,
        severity=SEVERITY_OF.get(rule, "warning"),
        group=found.group,
        sentence=sentence,
        advice=ADVICE[rule],
        confidence=partitions[0].confidence if partitions else found.confidence,
        member=member,
        partitions=tuple(f"{one.topic}-{one.partition}" for one in partitions),
        evidence=evidence or tuple(fact for one in partitions for fact in one.evidence),
    )


def _names(partitions: Sequence[PartitionFinding]) -> str:
    names = [f"{printable(one.topic)}-{one.partition}" for one in partitions[:SHOWN]]
    more = len(partitions) - SHOWN
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
