"""Rules of ``doctor``: problems of a group, each with severity and advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kohort.insight.evidence import Confidence
from kohort.insight.findings.groups import HOUR_MS, GroupFinding, PartitionFinding, Severity
from kohort.insight.findings.model import EvidenceFinding, MemberRef, RebalanceFinding, name_of_member
from kohort.insight.names import count, printable, seconds

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
SHOWN: Final = 3
"""Maximum number of members or partitions in one sentence; the evidence of the finding lists all of them."""


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Problem of a group: rule, severity, confidence, evidence and advice."""

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
    "no-consumer": "start the group's members, or delete the group if no application uses it",
    "no-owner": "find the reason: kohort group why; the next rebalance assigns the partition again",
    "stalled": "check how the member processes its next record: kohort group describe shows the offset",
    "no-commits": "check the job that commits for the group without being a member, such as Spark or Flink; delete the "
    "group if it is no longer used",
    "commits-alone": "sample for longer (--watch-for 60s): only moving offsets show that a consumer runs",
    "never-committed": "commit processed records, or set enable.auto.commit; expected if offsets are stored elsewhere",
    "rewound": "if you did not reset offsets, look for a member that commits old offsets after a rebalance",
    "slow": "process records faster, or add members up to the number of partitions",
    "skew": "spread the keys: more members do not help if one partition gets most records",
    "hot": "check whether its partitions get more records than other partitions (keys), or its host is slower",
    "open-transaction": "find its producer: kohort transactions list, find-hanging; end it: kohort transactions abort",
    "records-lost": "raise retention, or consume faster; deleted records are lost for the group",
    "retention-near": "raise retention before unread records are deleted, or consume faster",
    "beyond-the-end": "the topic was recreated or truncated: reset the offsets with kohort group reset-offsets",
    "topic-deleted": "no action needed: the leftover offset expires",
    "topic-missing": "the topic is still assigned to a member: create it again, or change the subscription",
    "storm": "list the repeating causes: kohort group why",
    "missed-poll": "it did not poll in time and did not rejoin: check that process, it may hang",
    "refused": "give every member a common entry in partition.assignment.strategy; see kohort group fenced",
    "duplicate": "give every process its own group.instance.id; kohort group fenced shows both processes",
    "full": "raise group.max.size, or run fewer members",
    "idle": "no action needed: members in excess of the partitions are standby members",
    "lag-unknown": "grant DESCRIBE on the topic and the group, or retry",
}
SEVERITY_OF: Final[dict[str, Severity]] = {
    **dict.fromkeys(
        ("no-consumer", "no-owner", "stalled", "records-lost", "beyond-the-end", "refused", "duplicate"), "error"
    ),
    **dict.fromkeys(("commits-alone", "topic-deleted", "idle", "lag-unknown"), "info"),
}
"""Severity of each ``doctor`` rule in this dict; every other rule is a warning."""


def examine(found: GroupFinding, rebalances: Sequence[RebalanceFinding] | None = None) -> list[DoctorFinding]:
    findings = [one for rule in (_by_status, _of_logs, _of_members, _of_group) for one in rule(found)]
    for rule_of_journal in (_missed_polls, _refused, _duplicates):
        findings += rule_of_journal(found, rebalances or ())
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def is_bad(findings: Iterable[DoctorFinding]) -> bool:
    return any(one.severity != "info" for one in findings)


def _by_status(found: GroupFinding) -> Iterator[DoctorFinding]:
    alike: dict[str, list[PartitionFinding]] = {}
    for one in found.partitions:
        if one.status not in (None, "OK") or (one.status is None and one.blame == "no_members"):
            alike.setdefault(_rule_of(one), []).append(one)
    for rule, partitions in alike.items():
        worst = max(partitions, key=lambda one: one.lag or 0)
        sentence = f"{_names(partitions)}: {worst.reason}"
        if worst.owner is not None and rule != "rewound":
            sentence += (
                f"; {name_of_member(worst.owner)} owns {'it' if len(partitions) == 1 else 'the worst partition'}"
            )
        yield _finding(found, rule, sentence, partitions, member=worst.owner)


WARNED: Final = {
    "open_transaction": "open-transaction",
    "never_committed": "never-committed",
    "skew": "skew",
    "beyond_the_end": "beyond-the-end",
}
"""Rule of a partition with the status WARN. Key: blame of its lag."""


def _rule_of(one: PartitionFinding) -> str:
    if one.status is None:
        return "commits-alone"
    if one.status == "STOP":
        return "no-owner" if one.blame == "no_owner" else "no-consumer"
    if one.status == "STALL" and one.blame == "no_members":
        return "no-commits"
    if one.status == "WARN":
        return WARNED.get(one.blame, "slow")
    return {"STALL": "stalled", "REWIND": "rewound"}.get(one.status or "", "slow")


def _of_logs(found: GroupFinding) -> Iterator[DoctorFinding]:
    lost = [one for one in found.partitions if one.lost]
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
            f"{_names(near)}: retention deleted {count(near[0].start_moved, 'record')} between the samples, "
            f"and the next record is only {count(near[0].lead or 0, 'record')} from the start of the log"
        )
        yield _finding(found, "retention-near", sentence, near)
    gone = [one for one in found.partitions if one.unknown is not None and "does not exist" in one.unknown]
    if gone:
        rule = "topic-missing" if any(one.owner is not None for one in gone) else "topic-deleted"
        yield _finding(found, rule, f"{_names(gone)}: {printable(gone[0].unknown or '')}", gone)


def _of_members(found: GroupFinding) -> Iterator[DoctorFinding]:
    for member in found.members:
        if member.state == "hot":
            sentence = f"{name_of_member(member.member)}: {member.reason}"
            yield _finding(
                found, "hot", sentence, member=member.member, evidence=member.evidence, confidence=member.confidence
            )
    idle = [member for member in found.members if member.state == "idle"]
    if idle and any(member.partitions for member in found.members):
        names = ", ".join(name_of_member(member.member) for member in idle[:SHOWN])
        more = f" and {len(idle) - SHOWN} more" if len(idle) > SHOWN else ""
        yield _finding(found, "idle", f"{names}{more}: no partition", evidence=idle[0].evidence)


def _of_group(found: GroupFinding) -> Iterator[DoctorFinding]:
    if found.health == "STORM":
        yield _finding(found, "storm", found.reason, evidence=found.evidence)
    hidden = [one for one in found.partitions if one.unknown is not None and "not authorised" in one.unknown]
    if hidden:
        yield _finding(found, "lag-unknown", f"{_names(hidden)}: {printable(hidden[0].unknown or '')}", hidden)
    if found.health is None and not found.partitions and found.evidence:
        yield _finding(found, "lag-unknown", found.reason, evidence=found.evidence)


def _missed_polls(found: GroupFinding, rebalances: Sequence[RebalanceFinding]) -> Iterator[DoctorFinding]:
    here = {(member.member.client_id, member.member.host) for member in found.members}
    joined_later: set[tuple[str, str]] = set()
    reported: set[tuple[str, str]] = set()
    for rebalance in sorted(rebalances, key=lambda r: r.opened_at_ms, reverse=True):
        identity = rebalance.trigger
        if identity is not None and rebalance.cause == "MAX_POLL_EXCEEDED":
            name = (identity.client_id, identity.host)
            if name not in here | joined_later | reported:
                reported.add(name)
                ago = seconds(max(found.at_ms - rebalance.opened_at_ms, 0))
                sentence = (
                    f"{name_of_member(identity)} left {ago} ago because it did not poll in time, and did not rejoin"
                )
                yield _of_rebalance(found, "missed-poll", sentence, rebalance)
        joined_later |= {(member.client_id, member.host) for member in rebalance.members}


REFUSALS: Final = {"INCOMPATIBLE_ASSIGNORS": "refused", "GROUP_FULL": "full"}


def _refused(found: GroupFinding, rebalances: Sequence[RebalanceFinding]) -> Iterator[DoctorFinding]:
    here = {(member.member.client_id, member.member.host) for member in found.members}
    in_order = sorted(rebalances, key=lambda r: r.opened_at_ms)
    last_ms = max((rebalance.opened_at_ms for rebalance in in_order if rebalance.end != "no_rebalance"), default=0)
    latest = {rebalance.cause: rebalance for rebalance in in_order if rebalance.cause in REFUSALS}
    for cause, rebalance in latest.items():
        identity, since_ms = rebalance.trigger, min(last_ms, found.at_ms - HOUR_MS)
        if rebalance.opened_at_ms < since_ms or identity is None or (identity.client_id, identity.host) in here:
            continue
        sentence = (
            f"{rebalance.sentence.removesuffix('.')}, {seconds(max(found.at_ms - rebalance.opened_at_ms, 0))} ago"
        )
        yield _of_rebalance(found, REFUSALS[cause], sentence, rebalance)


def _duplicates(found: GroupFinding, rebalances: Sequence[RebalanceFinding]) -> Iterator[DoctorFinding]:
    recent = [r for r in rebalances if r.cause == "STATIC_DUPLICATE" and r.opened_at_ms >= found.at_ms - HOUR_MS]
    latest: dict[str | None, list[RebalanceFinding]] = {}
    for rebalance in sorted(recent, key=lambda r: r.opened_at_ms):
        latest.setdefault(None if rebalance.trigger is None else rebalance.trigger.instance_id, []).append(rebalance)
    for of_instance in latest.values():
        last = of_instance[-1]
        ago = seconds(max(found.at_ms - last.opened_at_ms, 0))
        times = f", {len(of_instance)} times in the last hour" if len(of_instance) > 1 else ""
        yield _of_rebalance(found, "duplicate", f"{last.sentence.removesuffix('.')}, {ago} ago{times}", last)


def _of_rebalance(found: GroupFinding, rule: str, sentence: str, rebalance: RebalanceFinding) -> DoctorFinding:
    evidence, confidence = rebalance.evidence, rebalance.confidence
    return _finding(found, rule, sentence, member=rebalance.trigger, evidence=evidence, confidence=confidence)


def _finding(
    found: GroupFinding,
    rule: str,
    sentence: str,
    partitions: Sequence[PartitionFinding] = (),
    *,
    member: MemberRef | None = None,
    evidence: tuple[EvidenceFinding, ...] = (),
    confidence: Confidence | None = None,
) -> DoctorFinding:
    return DoctorFinding(
        rule=rule,
        severity=SEVERITY_OF.get(rule, "warning"),
        group=found.group,
        sentence=sentence,
        advice=ADVICE[rule],
        confidence=confidence or (partitions[0].confidence if partitions else found.confidence),
        member=member,
        partitions=tuple(f"{one.topic}-{one.partition}" for one in partitions),
        evidence=evidence or tuple(fact for one in partitions for fact in one.evidence),
    )


def _names(partitions: Sequence[PartitionFinding]) -> str:
    names = [f"{printable(one.topic)}-{one.partition}" for one in partitions[:SHOWN]]
    more = len(partitions) - SHOWN
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
