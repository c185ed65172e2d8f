"""Health of a group, with the state of each member and the status of each partition in Burrow's terms.

Pure functions over lags (``kohort.insight.lag``) and the rebalances of a journal. Each verdict has evidence and a
confidence. An unknown health is None, not OK: for example, one snapshot shows the lag, but no progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from kohort.coordinator.journal import ClientIdentity
from kohort.insight.evidence import Confidence, Evidence
from kohort.insight.lag import (
    FRESH_MS,
    IN_ROUND,
    JUDGED_AFTER_MS,
    GroupLag,
    LagOfPartition,
    at_open_transaction,
    may_be_marker,
    works_through_backlog,
)
from kohort.insight.names import count, name_of, printable, seconds
from kohort.insight.snapshot import MemberSnapshot
from kohort.model import TopicPartition

MemberState = Literal["ok", "stuck", "not-fetching", "not-committing", "rewinding", "slow", "hot", "idle"]
GroupHealth = Literal["OK", "WARN", "STOP", "STALL", "REWIND", "REBALANCING", "STORM"]

SURE_AFTER_MS: Final = 150_000
"""Time without commits that proves a stall: half the default ``max.poll.interval.ms``, long enough for any batch."""
LONG_BATCH: Final = " (its owner hangs, or handles one batch for that long)"
STORM: Final = 10
"""Number of rebalances within ``STORM_MS`` that make a storm; cooperative follow-up rebalances do not count."""
STORM_MS: Final = 600_000
HOT_FACTOR: Final = 3
WORST: Final[tuple[GroupHealth | None, ...]] = ("STORM", "STOP", "STALL", "REWIND", "WARN", "REBALANCING", None, "OK")


class HealthVerdict(msgspec.Struct, frozen=True, gc=False):
    """Status of a partition, member or group, with confidence, evidence, and a clause that states the reason."""

    word: str | None
    clause: str
    confidence: Confidence = "high"
    evidence: tuple[Evidence, ...] = ()


class RebalanceTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Start times of the rebalances that interrupted members; cooperative follow-up rebalances are left out."""

    opened_at_ms: tuple[int, ...] = ()


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    group: HealthVerdict
    partitions: tuple[HealthVerdict, ...]
    members: dict[str, HealthVerdict]


Own = Sequence[tuple[LagOfPartition, HealthVerdict]]
Rule = Callable[[MemberSnapshot, GroupLag, Own], HealthVerdict | None]


def health_of(lag: GroupLag, rebalances: RebalanceTimes | None = None) -> HealthReport:
    partitions = tuple(partition_verdict(one, lag) for one in lag.partitions)
    owned: dict[str, list[tuple[LagOfPartition, HealthVerdict]]] = {m.member_id: [] for m in lag.now.members}
    for one, verdict in zip(lag.partitions, partitions, strict=True):
        if one.owner is not None:
            owned[one.owner.member_id].append((one, verdict))
    members = {m.member_id: _member_verdict(m, lag, owned[m.member_id]) for m in lag.now.members}
    return HealthReport(
        group=_group_verdict(lag, partitions, rebalances or RebalanceTimes()), partitions=partitions, members=members
    )


def partition_verdict(partition: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    """Return the status of a partition in Burrow's terms; REWIND takes precedence over every other status."""
    if partition.blame == "not_subscribed":
        why = "its topic was deleted" if partition.at.deleted else "no member reads its topic"
        return HealthVerdict("OK", f"{why}; only its committed offset remains")
    if partition.blame == "beyond_the_end":
        clause = f"{partition.unknown}: the topic was recreated or truncated"
        return HealthVerdict(
            "WARN", clause, "proof", (Evidence("beyond_the_end", partition.unknown or "", lag.now.at_ms),)
        )
    if partition.records is None:
        if partition.blame == "none":
            return HealthVerdict("OK", "empty partition")
        return _stopped(partition, lag) if partition.blame == "no_owner" else _never_committed(partition, lag)
    if (back := _rewound(partition, lag)) is not None:
        return back
    if partition.blame == "none":
        return HealthVerdict("OK", "no lag", evidence=(_behind(partition),))
    if partition.blame in ("no_members", "no_owner"):
        return _stopped(partition, lag)
    if partition.blame == "open_transaction":
        return _open_transaction(partition)
    if any(sample.log_end <= sample.committed for sample in partition.samples):
        return HealthVerdict("OK", "all records were read between the samples", evidence=(_behind(partition),))
    return _by_progress(partition, lag)


def _never_committed(partition: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    why = printable(partition.unknown or "never committed")
    new, in_ms = lag.grown[partition.partition]
    if partition.blame == "slow_member":
        return _not_reached(partition, lag, "no commit so far")
    if partition.blame == "never_committed" and partition.owner is not None and new and in_ms >= JUDGED_AFTER_MS:
        fact = Evidence("never_committed", f"{count(new, 'new record')} in {seconds(in_ms)}")
        clause = f"{fact.value}, and no commit so far"
        return HealthVerdict("WARN", clause, "medium", (fact,))
    return HealthVerdict(None, why, evidence=(Evidence("unknown", why),))


def _rewound(partition: LagOfPartition, lag: GroupLag) -> HealthVerdict | None:
    highest = lag.highest.get(partition.partition)
    at = partition.at.committed
    if highest is None or at is None or at >= highest[0] or not partition.records:
        return None
    fact = Evidence("offset_went_back", f"from {highest[0]} to {at}", highest[1])
    clause = f"its offset moved back from {highest[0]} to {at}: {count(highest[0] - at, 'record')} are read again"
    return HealthVerdict("REWIND", clause, "proof", (fact, _behind(partition)))


def _stopped(partition: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    if partition.blame == "no_members" and not lag.now.protocol_type:
        return _without_members(partition)
    if partition.blame == "no_members":
        fact = Evidence("no_members", f"the group is {printable(lag.now.state)} and has no members")
        sure: Confidence = "high" if partition.span_ms >= JUDGED_AFTER_MS else "medium"
        return HealthVerdict("STOP", "no member reads it", sure, (fact, _behind(partition)))
    fact = Evidence("no_owner", f"none of {count(len(lag.now.members), 'member')} owns it")
    return HealthVerdict("STOP", "no member owns it", evidence=(fact, _behind(partition)))


def _without_members(partition: LagOfPartition) -> HealthVerdict:
    fact = Evidence("no_protocol", "commits without any member")
    no_members = "the group has commits but no members, as with Spark and Flink"
    if partition.span_ms < JUDGED_AFTER_MS:
        short = f"{seconds(partition.span_ms)} are too short" if partition.span_ms else "one sample is not enough"
        clause = f"{no_members}: {short} to detect a reader"
        return HealthVerdict(None, clause, "low", (fact, _behind(partition)))
    sure: Confidence = "medium" if partition.unmoved_ms >= SURE_AFTER_MS else "low"
    clause = f"no commit for {seconds(partition.unmoved_ms)} or longer; {no_members}, so a reader may still run"
    return HealthVerdict("STALL", clause, sure, (fact, _behind(partition)))


def _open_transaction(partition: LagOfPartition) -> HealthVerdict:
    stable = partition.at.last_stable
    same = [sample for sample in partition.samples if sample.last_stable == stable]
    frozen_ms = max(same[-1].at_ms - same[0].at_ms if same else 0, partition.time_ms or 0)
    fact = Evidence("last_stable_offset", f"{stable} of {partition.at.log_end}, for {seconds(frozen_ms)} or longer")
    if frozen_ms < JUDGED_AFTER_MS:
        return HealthVerdict("OK", "a transaction is open", "medium", (fact,))
    clause = f"an open transaction hides {count(partition.records or 0, 'record')} from read_committed consumers"
    return HealthVerdict("WARN", clause, "medium", (fact, _behind(partition)))


def _not_reached(partition: LagOfPartition, lag: GroupLag, silence: str) -> HealthVerdict:
    assert partition.owner is not None
    ahead = [one for one in lag.partitions if one.owner == partition.owner and works_through_backlog(one)]
    rate = sum(one.read_per_s or 0.0 for one in ahead)
    fact = Evidence("works_elsewhere", f"{rate:.1f} records/s in {_names(ahead)}")
    clause = f"{silence}: its owner reads {_names(ahead)} first, {rate:.1f} records/s"
    return HealthVerdict("WARN", clause, "medium", (fact, _behind(partition)))


def _by_progress(partition: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    span_ms, first, last = partition.span_ms, partition.samples[0], partition.samples[-1]
    # without commit progress in the samples, the owner may have failed a moment ago
    seen: Confidence = "high" if last.committed > first.committed else "low"
    if partition.blame == "between_commits":
        clause = "the lag is newer than two usual commit intervals"
        if seen == "low":
            clause += ", and the samples show no commit progress"
        return HealthVerdict("OK", clause, seen, (_behind(partition),))
    moved = Evidence("commits", f"from {first.committed} to {last.committed} in {seconds(span_ms)}", last.at_ms)
    if partition.blame == "unknown" and partition.time_ms is not None and partition.time_ms < FRESH_MS:
        return HealthVerdict("OK", "it keeps up with producers", seen, (moved, _behind(partition)))
    if span_ms < JUDGED_AFTER_MS and last.committed == first.committed:
        clause = "one sample shows no progress" if not span_ms else f"{seconds(span_ms)} are too short to show progress"
        return HealthVerdict(None, clause, "low", (_behind(partition),))
    if last.committed == first.committed and may_be_marker(partition):
        clause = "the lag may be a transaction marker: the log was not read"
        return HealthVerdict(None, clause, "low", (_behind(partition),))
    if last.committed == first.committed:
        clause = f"no commit progress for {seconds(partition.unmoved_ms)} or longer"
        if partition.blame == "slow_member":
            return _not_reached(partition, lag, clause)
        is_sure = partition.unmoved_ms >= SURE_AFTER_MS
        if not is_sure:
            clause += LONG_BATCH
        facts = [moved, _behind(partition)]
        if partition.unmoved_ms > span_ms:
            since_ms = lag.now.at_ms - partition.unmoved_ms
            facts.insert(0, Evidence("no_progress_since", f"offset {last.committed}", since_ms))
        return HealthVerdict("STALL", clause, "high" if is_sure else "low", tuple(facts))
    lags = [sample.lag for sample in partition.samples]
    grew = lags[-1] > lags[0] and not any(after < before for before, after in pairwise(lags))
    if span_ms >= JUDGED_AFTER_MS and grew:
        fact = Evidence("lag", f"from {lags[0]} to {lags[-1]} in {seconds(span_ms)}", last.at_ms)
        clause = f"its commits progress, but its lag grew from {lags[0]} to {lags[-1]}"
        return HealthVerdict("WARN", clause, "medium", (moved, fact))
    return HealthVerdict("OK", "its commits progress", evidence=(moved, _behind(partition)))


def _behind(partition: LagOfPartition) -> Evidence:
    if partition.records is None:
        return Evidence("lag", printable(partition.unknown or "unknown"))
    waited = "" if partition.time_ms is None else f", the next one waiting for {seconds(partition.time_ms)}"
    return Evidence("lag", f"{count(partition.records, 'record')}{waited if partition.records else ''}")


def _member_verdict(member: MemberSnapshot, lag: GroupLag, own: Own) -> HealthVerdict:
    for rule in RULES:
        if (found := rule(member, lag, own)) is not None:
            return found
    return HealthVerdict("ok", "no lag" if not lag.members[member.member_id].records else "its commits progress")


def _stuck(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    stalled = [(one, status) for one, status in own if status.word == "STALL"]
    if not stalled:
        return None
    facts = tuple(Evidence("stalled", f"{place_name(one.partition)}: {status.clause}") for one, status in stalled)
    progressing = [one for one, _ in own if one.samples and one.samples[-1].committed > one.samples[0].committed]
    names = _names(one for one, _ in stalled)
    if not progressing:
        longest = max(one.unmoved_ms for one, _ in stalled)
        clause = f"no commit progress for {seconds(longest)} or longer, while records wait in {names}"
        if longest < SURE_AFTER_MS:
            clause += LONG_BATCH
        return HealthVerdict("stuck", clause, stalled[0][1].confidence, facts)
    clause = f"commits progress in {_names(progressing)}, but not in {names}: paused, or failing there"
    return HealthVerdict("not-fetching", clause, "medium", facts)


def _not_committing(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    if any(one.at.committed is not None for one, _ in own):
        return None
    facts = tuple(
        Evidence("never_committed", f"{place_name(one.partition)}: {status.clause}")
        for one, status in own
        if status.word == "WARN"
    )
    if not facts:
        return None
    clause = "its partitions get records, but it has never committed"
    return HealthVerdict("not-committing", clause, "medium", facts)


def _rewinding(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    back = [(one, status) for one, status in own if status.word == "REWIND"]
    if not back:
        return None
    facts = tuple(fact for _, status in back for fact in status.evidence)
    return HealthVerdict("rewinding", f"its offsets moved back in {_names(o for o, _ in back)}", "proof", facts)


def _slow(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    slow = [(one, status) for one, status in own if status.word == "WARN" and _is_slow(one)]
    if not slow:
        return None
    facts = tuple(fact for _, status in slow for fact in status.evidence)
    behind = [one for one, status in slow if any(fact.kind == "works_elsewhere" for fact in status.evidence)]
    if behind:
        ahead = [one for one, _ in own if works_through_backlog(one)]
        rate = sum(one.read_per_s or 0.0 for one in ahead)
        clause = f"it handles {rate:.1f} records/s in {_names(ahead)}, but has not reached {_names(behind)}"
        return HealthVerdict("slow", clause, "medium", facts)
    clause = f"it reads more slowly than producers write in {_names(one for one, _ in slow)}"
    return HealthVerdict("slow", clause, "medium", facts)


def _is_slow(one: LagOfPartition) -> bool:
    return one.blame != "beyond_the_end" and not at_open_transaction(one.at)


def _beyond_the_end(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    beyond = [(one, status) for one, status in own if one.blame == "beyond_the_end"]
    if not beyond:
        return None
    facts = tuple(fact for _, status in beyond for fact in status.evidence)
    clause = f"its committed offset is beyond the log end in {_names(one for one, _ in beyond)}"
    return HealthVerdict(None, clause, "proof", facts)


def _hot(member: MemberSnapshot, lag: GroupLag, _own: Own) -> HealthVerdict | None:
    mine, (busy, waiting) = lag.members[member.member_id], lag.shared
    if busy < 2 or not mine.partitions or mine.records is None or (mine.time_ms or 0) < FRESH_MS:
        return None
    mean = (waiting - mine.records) / (busy - 1)
    if mine.records < HOT_FACTOR * max(mean, 1):
        return None
    fact = Evidence("share", f"its lag is {mine.records} records; the average of the other members is {mean:.0f}")
    return HealthVerdict("hot", fact.value, "medium", (fact,))


def _idle(member: MemberSnapshot, lag: GroupLag, own: Own) -> HealthVerdict | None:
    if own or member.assignment or lag.now.state in IN_ROUND:
        return None
    total = sum(lag.now.partition_counts.get(topic, 0) for topic in member.topics)
    fact = Evidence("no_partitions", f"{count(len(lag.now.members), 'member')} for {count(total, 'partition')}")
    return HealthVerdict("idle", "it has no partition", evidence=(fact,))


RULES: Final[tuple[Rule, ...]] = (_stuck, _not_committing, _rewinding, _slow, _beyond_the_end, _hot, _idle)


def _group_verdict(lag: GroupLag, statuses: Sequence[HealthVerdict], rebalances: RebalanceTimes) -> HealthVerdict:
    now = lag.now
    if now.error is not None:
        why = printable(now.error)
        return HealthVerdict(None, why, evidence=(Evidence("unknown", why),))
    recent = [at_ms for at_ms in rebalances.opened_at_ms if 0 <= now.at_ms - at_ms <= STORM_MS]
    if len(recent) >= STORM:
        clause = f"it rebalanced {len(recent)} times in {seconds(STORM_MS)}"
        return HealthVerdict("STORM", clause, "proof", (Evidence("rebalances", clause),))
    if now.state in IN_ROUND:
        fact = Evidence("state", now.state)
        return HealthVerdict("REBALANCING", f"its state is {now.state}", "proof", (fact,))
    mine = [(one, status) for one, status in zip(lag.partitions, statuses, strict=True) if one.counts]
    if not mine:
        return HealthVerdict("OK", "no committed or assigned partitions", evidence=(Evidence("partitions", "none"),))
    mine = [(one, v) for one, v in mine if v.word is not None or one.blame != "never_committed"] or mine
    worst = min(mine, key=lambda pair: (_rank(pair[1].word), -(pair[0].records or 0)))
    silent = [one for one in lag.partitions if one.counts and one.records is None]
    # partitions with unknown lag make the health of an otherwise healthy group unknown
    if worst[1].word == "OK" and silent:
        clause = f"no commit so far for {_names(silent)}; other partitions: {_fine(lag)}"
        return HealthVerdict(None, clause, evidence=(Evidence("never_committed", _names(silent)),))
    alike = [one for one, status in mine if status.word == worst[1].word]
    return msgspec.structs.replace(worst[1], clause=_reason(lag, worst, alike))


def _rank(word: str | None) -> int:
    return next((place for place, name in enumerate(WORST) if name == word), len(WORST))


def _reason(lag: GroupLag, worst: tuple[LagOfPartition, HealthVerdict], alike: Sequence[LagOfPartition]) -> str:
    one, status = worst
    if status.word == "OK":
        return status.clause if status.confidence == "low" else _fine(lag)
    owner = "" if one.owner is None else f", owned by {name_of_member_snapshot(one.owner)}"
    if status.word is None and status.clause == "never committed":
        return f"no commit so far for {_names(alike)}"
    more = "" if len(alike) == 1 else f", also in {count(len(alike) - 1, 'other partition')}"
    return f"{place_name(one.partition)}{owner}: {status.clause}{more}"


def _fine(lag: GroupLag) -> str:
    total = lag.total
    if not total.records or total.draining == "empty":
        return "no lag"
    if total.draining == "draining" and total.eta_ms is not None:
        return f"the lag drains in about {seconds(total.eta_ms)}"
    return "it keeps up with producers"


def name_of_member_snapshot(member: MemberSnapshot) -> str:
    return name_of(ClientIdentity(member.member_id, member.client_id, member.host, member.instance_id))


def place_name(tp: TopicPartition) -> str:
    return printable(str(tp))


def _names(lags: Iterable[LagOfPartition]) -> str:
    names = [place_name(lag.partition) for lag in lags]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
