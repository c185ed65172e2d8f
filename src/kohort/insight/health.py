"""How a group is: each partition in Burrow's words, each member by what it does, the group by its worst, with a reason.

Pure functions over lags (``kohort.insight.lag``) and, where there is a journal, the rebalances that it tells of. Every
verdict has evidence and says how sure it is. None means that it cannot be told from what was seen, which is not OK:
one look tells what is behind, and not whether it gets on. A group that does nothing because nothing is there to do is
OK, whatever else is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from kohort.coordinator.journal import Who
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

PartitionStatus = Literal["OK", "WARN", "STOP", "STALL", "REWIND"]
MemberState = Literal["ok", "stuck", "not-fetching", "not-committing", "rewinding", "slow", "hot", "idle"]
GroupHealth = Literal["OK", "WARN", "STOP", "STALL", "REWIND", "REBALANCING", "STORM"]

SURE_AFTER_MS: Final = 150_000
"""Half of the default of ``max.poll.interval.ms``: no progress for longer is hardly one batch."""
STORM: Final = 10
"""Number of rebalances within ``STORM_MS``, without second rounds."""
STORM_MS: Final = 600_000
HOT: Final = 3
"""Multiple of the other members' average lag."""
WORST: Final[tuple[GroupHealth | None, ...]] = ("STORM", "STOP", "STALL", "REWIND", "WARN", "REBALANCING", None, "OK")


class HealthVerdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Status of a partition, member or group, with a clause, a confidence and evidence."""

    word: str | None
    clause: str
    confidence: Confidence = "high"
    evidence: tuple[Evidence, ...] = ()


class RebalanceTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Opening times of rebalances that held members up, without second rounds."""

    opened_at_ms: tuple[int, ...] = ()


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    group: HealthVerdict
    partitions: tuple[HealthVerdict, ...]
    members: dict[str, HealthVerdict]


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


def partition_verdict(this: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    """Return the status of a partition in Burrow's words; a rewind comes first."""
    if this.blame == "not_subscribed":
        why = "its topic does not exist any more" if this.at.gone else "no member reads its topic any more"
        return HealthVerdict(word="OK", clause=f"{why}; only an offset is left")
    if this.records is None:
        if this.blame == "none":
            return HealthVerdict(word="OK", clause="nothing was ever written to it")
        return _stopped(this, lag) if this.blame == "no_owner" else _never_committed(this, lag)
    if (back := _went_back(this, lag)) is not None:
        return back
    if this.blame == "none":
        return HealthVerdict(word="OK", clause="nothing waits", evidence=(_behind(this),))
    if this.blame in ("no_members", "no_owner"):
        return _stopped(this, lag)
    if this.blame == "open_transaction":
        return _held(this)
    if any(look.log_end <= look.committed for look in this.looks):
        return HealthVerdict(word="OK", clause="all was read within the time looked at", evidence=(_behind(this),))
    return _by_progress(this, lag)


def _never_committed(this: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    why = printable(this.unknown or "never committed")
    new, in_ms = lag.grown[this.partition]
    if this.blame == "slow_member":
        return _not_reached(this, lag, "nothing was ever committed here")
    if this.blame == "never_committed" and this.owner is not None and new and in_ms >= JUDGED_AFTER_MS:
        fact = Evidence("never_committed", f"{count(new, 'new record')} in {seconds(in_ms)}")
        clause = f"{fact.value}, and nothing was ever committed"
        return HealthVerdict(word="WARN", clause=clause, confidence="medium", evidence=(fact,))
    return HealthVerdict(word=None, clause=why, evidence=(Evidence("unknown", why),))


def _went_back(this: LagOfPartition, lag: GroupLag) -> HealthVerdict | None:
    highest = lag.highest.get(this.partition)
    at = this.at.committed
    if highest is None or at is None or at >= highest[0] or not this.records:
        return None
    fact = Evidence("offset_went_back", f"from {highest[0]} to {at}", highest[1])
    clause = f"its offset went back from {highest[0]} to {at}: {count(highest[0] - at, 'record')} are read again"
    return HealthVerdict(word="REWIND", clause=clause, confidence="proof", evidence=(fact, _behind(this)))


def _stopped(this: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    if this.blame == "no_members" and not lag.now.protocol_type:
        return _without_members(this)
    if this.blame == "no_members":
        fact = Evidence("no_members", f"the group is {printable(lag.now.state)} and has no members")
        sure: Confidence = "high" if this.span_ms >= JUDGED_AFTER_MS else "medium"
        return HealthVerdict(word="STOP", clause="nobody reads it", confidence=sure, evidence=(fact, _behind(this)))
    fact = Evidence("no_owner", f"none of {count(len(lag.now.members), 'member')} has it")
    return HealthVerdict(word="STOP", clause="no member has it", evidence=(fact, _behind(this)))


def _without_members(this: LagOfPartition) -> HealthVerdict:
    """Judge a partition of a group without members, such as Spark's: its reader may commit seldom."""
    fact = Evidence("no_protocol", "only offsets were committed, and nobody ever joined")
    who = "it commits without members, as Spark and Flink do"
    if this.span_ms < JUDGED_AFTER_MS:
        short = f"{seconds(this.span_ms)} are too short" if this.span_ms else "one look is not enough"
        clause = f"{who}: {short} to tell whether it is read"
        return HealthVerdict(word=None, clause=clause, confidence="low", evidence=(fact, _behind(this)))
    sure: Confidence = "medium" if this.span_ms >= SURE_AFTER_MS else "low"
    clause = f"nothing was committed for {seconds(this.span_ms)}; {who}, so it may still be read"
    return HealthVerdict(word="STALL", clause=clause, confidence=sure, evidence=(fact, _behind(this)))


def _held(this: LagOfPartition) -> HealthVerdict:
    stable = this.at.last_stable
    same = [look for look in this.looks if look.last_stable == stable]
    frozen_ms = max(same[-1].at_ms - same[0].at_ms if same else 0, this.time_ms or 0)
    fact = Evidence("last_stable_offset", f"{stable} of {this.at.log_end}, for {seconds(frozen_ms)} or longer")
    if frozen_ms < JUDGED_AFTER_MS:
        return HealthVerdict(word="OK", clause="a transaction is open", confidence="medium", evidence=(fact,))
    clause = f"an open transaction holds {count(this.records or 0, 'record')} back from readers of committed records"
    return HealthVerdict(word="WARN", clause=clause, confidence="medium", evidence=(fact, _behind(this)))


def _not_reached(this: LagOfPartition, lag: GroupLag, silence: str) -> HealthVerdict:
    """Judge a partition without progress whose owner works through the backlog of other partitions."""
    assert this.owner is not None
    ahead = [one for one in lag.partitions if one.owner == this.owner and works_through_backlog(one)]
    rate = sum(one.read_per_s or 0.0 for one in ahead)
    fact = Evidence("works_elsewhere", f"{rate:.1f} records/s in {_names(ahead)}")
    clause = f"{silence}: its owner works through {_names(ahead)} first, {rate:.1f} records/s"
    return HealthVerdict(word="WARN", clause=clause, confidence="medium", evidence=(fact, _behind(this)))


def _by_progress(this: LagOfPartition, lag: GroupLag) -> HealthVerdict:
    if this.blame == "between_commits":
        clause = "what waits is younger than two usual commits are apart"
        return HealthVerdict(word="OK", clause=clause, evidence=(_behind(this),))
    span_ms, first, last = this.span_ms, this.looks[0], this.looks[-1]
    moved = Evidence("commits", f"from {first.committed} to {last.committed} in {seconds(span_ms)}", last.at_ms)
    if this.blame == "unknown" and this.time_ms is not None and this.time_ms < FRESH_MS:
        return HealthVerdict(word="OK", clause="it keeps up", evidence=(moved, _behind(this)))
    if span_ms < JUDGED_AFTER_MS and last.committed == first.committed:
        clause = (
            "one look cannot tell whether it gets on" if not span_ms else f"{seconds(span_ms)} are too short to tell"
        )
        return HealthVerdict(word=None, clause=clause, confidence="low", evidence=(_behind(this),))
    if last.committed == first.committed and may_be_marker(this):
        clause = "what waits may be the marker that ends a transaction: nobody looked into the log"
        return HealthVerdict(word=None, clause=clause, confidence="low", evidence=(_behind(this),))
    if last.committed == first.committed:
        clause = f"no commit has moved for {seconds(span_ms)}"
        if this.blame == "slow_member":
            return _not_reached(this, lag, clause)
        sure: Confidence = "high" if span_ms >= SURE_AFTER_MS else "medium"
        return HealthVerdict(word="STALL", clause=clause, confidence=sure, evidence=(moved, _behind(this)))
    lags = [look.lag for look in this.looks]
    if (
        span_ms >= JUDGED_AFTER_MS
        and lags[-1] > lags[0]
        and not any(after < before for before, after in pairwise(lags))
    ):
        fact = Evidence("lag", f"from {lags[0]} to {lags[-1]} in {seconds(span_ms)}", last.at_ms)
        clause = f"it is read, and its lag grew from {lags[0]} to {lags[-1]}"
        return HealthVerdict(word="WARN", clause=clause, confidence="medium", evidence=(moved, fact))
    return HealthVerdict(word="OK", clause="it gets on", evidence=(moved, _behind(this)))


def _behind(this: LagOfPartition) -> Evidence:
    if this.records is None:
        return Evidence("lag", printable(this.unknown or "unknown"))
    waited = "" if this.time_ms is None else f", the next of which has waited for {seconds(this.time_ms)}"
    return Evidence("lag", f"{count(this.records, 'record')}{waited if this.records else ''}")


def _member_verdict(
    member: MemberSnapshot, lag: GroupLag, own: Sequence[tuple[LagOfPartition, HealthVerdict]]
) -> HealthVerdict:
    for rule in RULES:
        found = rule(member, lag, own)
        if found is not None:
            return found
    return HealthVerdict(
        word="ok", clause="nothing waits for it" if not lag.members[member.member_id].records else "it works"
    )


Own = Sequence[tuple[LagOfPartition, HealthVerdict]]
Rule = Callable[[MemberSnapshot, GroupLag, Own], HealthVerdict | None]


def _stuck(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    """No commit moves in any partition with records (Cloudflare's rule); in some only: not fetching."""
    stalled = [(one, status) for one, status in own if status.word == "STALL"]
    if not stalled:
        return None
    facts = tuple(Evidence("stalled", f"{place_name(one.partition)}: {status.clause}") for one, status in stalled)
    going_on = [one for one, _ in own if one.looks and one.looks[-1].committed > one.looks[0].committed]
    names = _names(one for one, _ in stalled)
    if not going_on:
        longest = max(one.span_ms for one, _ in stalled)
        clause = f"it has committed nothing for {seconds(longest)}, while records wait in {names}"
        return HealthVerdict(word="stuck", clause=clause, confidence=stalled[0][1].confidence, evidence=facts)
    clause = f"it gets on in {_names(going_on)} and not in {names}: paused, or failing there"
    return HealthVerdict(word="not-fetching", clause=clause, confidence="medium", evidence=facts)


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
    clause = "records come to its partitions, and it has never committed"
    return HealthVerdict(word="not-committing", clause=clause, confidence="medium", evidence=facts)


def _rewinding(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    back = [(one, status) for one, status in own if status.word == "REWIND"]
    if not back:
        return None
    facts = tuple(fact for _, status in back for fact in status.evidence)
    return HealthVerdict(
        word="rewinding",
        clause=f"its offsets went back in {_names(o for o, _ in back)}",
        confidence="proof",
        evidence=facts,
    )


def _slow(_member: MemberSnapshot, _lag: GroupLag, own: Own) -> HealthVerdict | None:
    slow = [(one, status) for one, status in own if status.word == "WARN" and not at_open_transaction(one.at)]
    if not slow:
        return None
    facts = tuple(fact for _, status in slow for fact in status.evidence)
    behind = [one for one, status in slow if any(fact.kind == "works_elsewhere" for fact in status.evidence)]
    if behind:
        ahead = [one for one, _ in own if works_through_backlog(one)]
        rate = sum(one.read_per_s or 0.0 for one in ahead)
        clause = f"it handles {rate:.1f} records/s in {_names(ahead)}, and has yet to reach {_names(behind)}"
        return HealthVerdict(word="slow", clause=clause, confidence="medium", evidence=facts)
    clause = f"it reads, and more is written than it reads, in {_names(one for one, _ in slow)}"
    return HealthVerdict(word="slow", clause=clause, confidence="medium", evidence=facts)


def _hot(member: MemberSnapshot, lag: GroupLag, _own: Own) -> HealthVerdict | None:
    mine, (busy, waiting) = lag.members[member.member_id], lag.shared
    if busy < 2 or not mine.partitions or mine.records is None or (mine.time_ms or 0) < FRESH_MS:
        return None
    mean = (waiting - mine.records) / (busy - 1)
    if mine.records < HOT * max(mean, 1):
        return None
    fact = Evidence("share", f"{mine.records} records wait for it, {mean:.0f} for each of the others on average")
    return HealthVerdict(word="hot", clause=fact.value, confidence="medium", evidence=(fact,))


def _idle(member: MemberSnapshot, lag: GroupLag, own: Own) -> HealthVerdict | None:
    if own or member.assignment or lag.now.state in IN_ROUND:
        return None
    total = sum(lag.now.partition_counts.get(topic, 0) for topic in member.topics)
    fact = Evidence("no_partitions", f"{count(len(lag.now.members), 'member')} for {count(total, 'partition')}")
    return HealthVerdict(word="idle", clause="it has no partition", evidence=(fact,))


RULES: Final[tuple[Rule, ...]] = (_stuck, _not_committing, _rewinding, _slow, _hot, _idle)
"""Worst first."""


def _group_verdict(lag: GroupLag, statuses: Sequence[HealthVerdict], rebalances: RebalanceTimes) -> HealthVerdict:
    now = lag.now
    if now.error is not None:
        why = printable(now.error)
        return HealthVerdict(word=None, clause=why, evidence=(Evidence("unknown", why),))
    recent = [at_ms for at_ms in rebalances.opened_at_ms if 0 <= now.at_ms - at_ms <= STORM_MS]
    if len(recent) >= STORM:
        clause = f"it rebalanced {len(recent)} times in {seconds(STORM_MS)}"
        return HealthVerdict(
            word="STORM", clause=clause, confidence="proof", evidence=(Evidence("rebalances", clause),)
        )
    if now.state in IN_ROUND:
        fact = Evidence("state", now.state)
        return HealthVerdict(
            word="REBALANCING", clause=f"its state is {now.state}", confidence="proof", evidence=(fact,)
        )
    mine = [(one, status) for one, status in zip(lag.partitions, statuses, strict=True) if one.counts]
    if not mine:
        return HealthVerdict(word="OK", clause="it reads nothing", evidence=(Evidence("partitions", "none"),))
    known = [(one, status) for one, status in mine if status.word is not None or one.blame != "never_committed"]
    mine = known or mine
    worst = min(mine, key=lambda pair: (_rank(pair[1].word), -(pair[0].records or 0)))
    silent = [one for one in lag.partitions if one.counts and one.records is None]
    if worst[1].word == "OK" and silent:  # what nobody knows of is not well
        clause = f"nothing was ever committed for {_names(silent)}; of the rest {_fine(lag)}"
        return HealthVerdict(word=None, clause=clause, evidence=(Evidence("never_committed", _names(silent)),))
    alike = [one for one, status in mine if status.word == worst[1].word]
    return HealthVerdict(
        word=worst[1].word,
        clause=_reason(lag, worst, alike),
        confidence=worst[1].confidence,
        evidence=worst[1].evidence,
    )


def _rank(word: str | None) -> int:
    return next((place for place, name in enumerate(WORST) if name == word), len(WORST))


def _reason(lag: GroupLag, worst: tuple[LagOfPartition, HealthVerdict], alike: Sequence[LagOfPartition]) -> str:
    one, status = worst
    if status.word == "OK":
        return _fine(lag)
    who = "" if one.owner is None else f", which {name_of_member_snapshot(one.owner)} has"
    if status.word is None and status.clause == "never committed":
        return f"nothing was ever committed for {_names(alike)}"
    more = "" if len(alike) == 1 else f", as with {count(len(alike) - 1, 'other partition')}"
    return f"{place_name(one.partition)}{who}: {status.clause}{more}"


def _fine(lag: GroupLag) -> str:
    total = lag.total
    if not total.records or total.draining == "empty":
        return "nothing waits"
    if total.draining == "draining" and total.eta_ms is not None:
        return f"it catches up, in about {seconds(total.eta_ms)}"
    return "it keeps up"


def name_of_member_snapshot(member: MemberSnapshot) -> str:
    return name_of(Who(member.member_id, member.client_id, member.host, member.instance_id))


def place_name(tp: TopicPartition) -> str:
    return printable(str(tp))


def _names(lags: Iterable[LagOfPartition]) -> str:
    names = [place_name(lag.partition) for lag in lags]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
