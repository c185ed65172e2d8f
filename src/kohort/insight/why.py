"""Why a rebalance happened: one engine for rounds of classic groups, epochs of consumer groups, observed generations.

A finder names the cause of an event, with its evidence. A story is a rebalance in the terms of its protocol;
``explain`` turns every story into a sentence, facts and advice. No cause comes without a fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.coordinator.journal import (
    EpochEvent,
    EpochRaised,
    RequestFenced,
    TriggerEvent,
    Vitals,
    Who,
)
from kohort.insight.causes import changes, coordination, joining, timeouts
from kohort.insight.causes.leaving import find_left, find_stop
from kohort.insight.causes.silence import find_silence, find_silence_in, unheard
from kohort.insight.causes.table import advice_for
from kohort.insight.epochs import EpochRebalance, MemberRow
from kohort.insight.evidence import Confidence, Evidence, Finding, raise_beginning, round_beginning
from kohort.insight.names import count, limit, name_and_place, name_of, names_of, partitions_text, seconds, short_id
from kohort.insight.observed.departures import find_gone
from kohort.insight.observed.generations import Bounds, SeenRebalance
from kohort.insight.rebalances import Rebalance


@dataclass(frozen=True, slots=True)
class Story:
    """A rebalance of any protocol, as the engine explains it."""

    head: str
    found: Sequence[Finding]
    """Causes, the costliest first."""
    clauses: Sequence[str]
    ends: Sequence[str]
    facts: Sequence[Evidence]
    further: Sequence[str] = ()
    """Causes of other events during the rebalance."""
    advice: str | None = None
    """Advice beyond that of the causes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    cause: str
    confidence: Confidence
    sentence: str
    evidence: tuple[Evidence, ...]
    advice: str | None = None
    also: tuple[str, ...] = ()
    """Further causes during the rebalance."""


def explain(this: Rebalance | EpochRebalance | SeenRebalance) -> Explanation:
    """Explain a rebalance by its costliest cause. The advice covers every cause."""
    match this:
        case Rebalance():
            story = _round_story(this)
        case EpochRebalance():
            story = _epoch_story(this)
        case SeenRebalance():
            story = _seen_story(this)
    first = story.found[0]
    causes = dict.fromkeys([*(finding.cause for finding in story.found), *story.further])
    advice = dict.fromkeys(text for text in (*map(advice_for, causes), story.advice) if text is not None)
    facts = dict.fromkeys([*(fact for finding in story.found for fact in finding.evidence), *story.facts])
    return Explanation(
        cause=first.cause,
        confidence=first.confidence,
        sentence=f"{story.head}: {'; '.join([*story.clauses, *story.ends])}.",
        evidence=tuple(facts),
        advice="; ".join(advice) or None,
        also=tuple(cause for cause in causes if cause != first.cause),
    )


def _facts_of(phases_ms: dict[str, int]) -> list[Evidence]:
    return [Evidence(f"phase_{name}", seconds(ms)) for name, ms in phases_ms.items()]


def _stale(fenced: Sequence[RequestFenced]) -> list[Evidence]:
    return [Evidence("stale_request", f"{name_of(f.who)} sent {f.api}: {f.error}", f.at_ms) for f in fenced]


# Rounds of classic groups


def find_cause(this: Rebalance) -> Finding:
    failed_over = coordination.after_failover(this, _find_event) or coordination.since_failover(this)
    return failed_over or _find_event(this)


def _find_event(this: Rebalance) -> Finding:
    return ROUND_FINDERS[this.trigger.event](this)


def _left(this: Rebalance) -> Finding:
    begin = round_beginning(this)
    return find_left(begin, begin.fact("leave_group", f"{begin.member} sent LeaveGroup"))


def _expired(this: Rebalance) -> Finding:
    vitals, who = this.trigger.vitals, this.trigger.who
    if vitals is None or who is None:
        return unheard(round_beginning(this))
    return find_silence_in(this, who, vitals, this.opened_at_ms)


ROUND_FINDERS: Final[dict[TriggerEvent, Callable[[Rebalance], Finding]]] = {
    "member_joined": lambda this: joining.round_joined(this, find_cause),
    "member_rejoined": changes.rejoined,
    "member_left": _left,
    "session_expired": _expired,
    "new_member_expired": timeouts.new_member_expired,
    "sync_timeout": timeouts.sync_timeout,
    "static_replaced": joining.static_replaced,
    "over_capacity": coordination.over_capacity,
    "append_failed": coordination.append_failed,
    "downgraded": coordination.downgraded,
}
LOST_MS: Final = 1_000
"""Shortest wait that tells something about a member."""


def _round_story(this: Rebalance) -> Story:
    """Put the removal that most of the join phase waited for first, else the event that opened the round."""
    opened, waited_for = find_cause(this), _find_costly_removal(this)
    lost = [find_silence_in(this, r.who, r.vitals, r.at_ms) for r in this.also_expired if r.vitals]
    late = ["BROKER_STALL" if is_stalled(this, r.vitals) else "JOIN_TIMEOUT" for r in this.not_rejoined]
    return Story(
        head=_head(this),
        found=[opened] if waited_for is None else [waited_for, opened],
        clauses=[opened.clause, *(f"meanwhile {finding.clause}" for finding in lost)],
        ends=[_tail(this)],
        facts=_facts_of_the_round(this),
        further=[*(finding.cause for finding in lost), *late],
        advice=_advice_on_wait(this),
    )


def _find_costly_removal(this: Rebalance) -> Finding | None:
    """Find the cause of the removal that most of the join phase waited for."""
    waited = blocker(this)
    if waited is None or this.initial or this.join_ms is None or waited[1] < max(LOST_MS, this.join_ms // 2):
        return None
    who = waited[0]
    removed = next((r for r in this.removed if r.who.member_id == who.member_id), None)
    if removed is None or removed.vitals is None:
        return None
    if removed.why == "session_expired":
        return find_silence_in(this, removed.who, removed.vitals, removed.at_ms)
    if removed.why == "left":
        gone = next((d for d in this.disconnected if d.who.member_id == who.member_id), None)
        return find_stop(f"member {name_and_place(who)}", removed.vitals, removed.reason, removed.at_ms, gone)
    if removed.why != "join_timeout":
        return None
    cause = "BROKER_STALL" if is_stalled(this, removed.vitals) else "JOIN_TIMEOUT"
    fact = Evidence("not_rejoined", f"{name_of(who)} did not rejoin within {limit(this.timeout_ms)}", removed.at_ms)
    return Finding(cause, "proof", fact.value, (fact,))


ADVICE_ON_WAIT: Final = {
    "dead": "SESSION_TIMEOUT.process_died",
    "silent": "SESSION_TIMEOUT",
    "not_polling": "JOIN_TIMEOUT",
    "slow_to_revoke": "REVOCATION_TIMEOUT",
    "broker_stalled": "BROKER_STALL",
}
"""Cause whose advice helps, by the state of the member that others waited for."""


def _advice_on_wait(this: Rebalance) -> str | None:
    waited = blocker(this)
    if waited is None or this.initial or waited[1] < LOST_MS:
        return None
    cause = ADVICE_ON_WAIT.get(why_late(this, waited[0]) or "")
    return None if cause is None else advice_for(cause)


def is_stalled(this: Rebalance, vitals: Vitals | None) -> bool:
    """Tell whether the broker stalled for so long that no member is to blame for a late join."""
    return vitals is not None and vitals.stalled_ms * 4 >= this.timeout_ms


def why_late(this: Rebalance, who: Who) -> str | None:
    """Return the state of the member that others waited for: ``dead``, ``silent``, ``not_polling``,
    ``slow_to_revoke``, ``broker_stalled`` or None.

    Members rejoin when their application polls. With heartbeats meanwhile, it did not poll; with commits, it polled and
    was busy revoking.
    """
    gone = next((r for r in this.removed if r.who.member_id == who.member_id), None)
    arrived = next((a for a in this.arrivals if a.who.member_id == who.member_id), None)
    vitals = gone.vitals if gone is not None else arrived.vitals if arrived is not None else None
    if vitals is None:
        return None
    if is_stalled(this, vitals):
        return "broker_stalled"
    if vitals.connection_closed_at_ms is not None:
        return "dead"
    if vitals.last_commit_ms is not None and vitals.last_commit_ms > this.opened_at_ms:
        return "slow_to_revoke"
    return "not_polling" if vitals.last_seen_ms > this.opened_at_ms else "silent"


def blocker(this: Rebalance) -> tuple[Who, int] | None:
    """Return the member that joined last or not at all, and how long all others waited for it."""
    if this.not_rejoined and this.join_ms is not None:
        last_ms = max((a.after_ms for a in this.arrivals), default=0)
        return this.not_rejoined[0].who, this.join_ms - last_ms
    if this.released_by is not None:
        removed, waited_ms = this.released_by
        return removed.who, waited_ms
    return this.held_up


def _head(this: Rebalance) -> str:
    if this.generation is None:
        came = len({a.who.member_id for a in this.arrivals})
        return f"After generation {this.from_generation} ({count(came, 'member')} joined so far)"
    members = f"{count(len(this.members_after), 'member')}{' left' if not this.members_after else ''}"
    moved = f", {count(len(this.moves), 'partition')} moved" if this.assigned_at_ms is not None else ""
    return f"Generation {this.generation} ({members}{moved})"


def _tail(this: Rebalance) -> str:
    took_ms = this.took_ms
    if this.end == "interrupted":
        return "the round ended with its coordinator"
    if this.end == "dropped":
        return f"the round was dropped, since it could not be written ({this.error})"
    if this.end == "superseded":
        return "another round began before this one was done"
    if took_ms is None:
        return f"the round is open for up to {limit(this.timeout_ms)}"
    text = f"the round took {seconds(took_ms)}"
    if this.end == "assigning":
        return f"{text} so far, and the leader's assignment is awaited"
    return text + _waiting(this)


def _waiting(this: Rebalance) -> str:
    gone = this.not_rejoined
    if gone:
        names = names_of([r.who for r in gone])
        return f", of which {seconds(this.join_ms or 0)} waiting for {names}, which did not rejoin"
    if this.initial:
        return f", of which {seconds(this.join_ms or 0)} waiting for more members to come"
    if this.released_by is not None:
        by, waited_ms = this.released_by
        return f", of which {seconds(waited_ms)} waiting for {name_of(by.who)} until it was out ({by.why})"
    if this.held_up is not None:
        who, waited_ms = this.held_up
        return f", of which {seconds(waited_ms)} waiting for {name_of(who)}"
    return ""


def _facts_of_the_round(this: Rebalance) -> list[Evidence]:
    facts = _facts_of(this.phases_ms)
    facts += [
        Evidence("not_rejoined", f"{name_of(r.who)} did not rejoin within {limit(this.timeout_ms)}", r.at_ms)
        for r in this.not_rejoined
    ]
    also = [r for r in this.removed if r.why != "join_timeout" and r.who != this.trigger.who]
    facts += [Evidence("also_removed", f"{name_of(r.who)}: {r.why}", r.at_ms) for r in also]
    if this.held_up is not None:
        who, waited_ms = this.held_up
        facts.append(Evidence("last_to_join", f"{name_of(who)}, {seconds(waited_ms)} after the others"))
    return facts + _stale(this.fenced)


# Epochs of consumer groups


def find_cause_of_raise(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return why ``raised``, one of the raises of ``this``, raised the epoch. A watcher proves nothing."""
    is_conversion = raised is this.raises[0] and this.converted is not None
    found = RAISE_FINDERS["converted" if is_conversion else raised.cause.event](this, raised)
    if not raised.observed or found.confidence != "proof":
        return found
    return Finding(found.cause, "high", found.clause, found.evidence)


def _raise_left(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    return find_left(begin, begin.fact("left", f"{begin.member} said that it leaves"))


def _raise_expired(this: EpochRebalance, raised: EpochRaised) -> Finding:
    who, vitals = raised.cause.who, raised.cause.vitals
    if who is None or vitals is None:
        return unheard(raise_beginning(this, raised))
    return find_silence(who, vitals, raised.at_ms, this)


RAISE_FINDERS: Final[dict[EpochEvent, Callable[[EpochRebalance, EpochRaised], Finding]]] = {
    "member_joined": lambda this, raised: joining.raise_joined(this, raised, find_cause_of_raise),
    "member_left": _raise_left,
    "session_expired": _raise_expired,
    "revocation_timeout": timeouts.revocation_timeout,
    "rejoin_timeout": timeouts.rejoin_timeout,
    "resync_timeout": timeouts.resync_timeout,
    "subscription_changed": changes.subscription_changed,
    "regex_resolved": changes.regex_resolved,
    "assignor_changed": changes.assignor_changed,
    "topics_changed": changes.topics_changed,
    "converted": coordination.converted,
    "member_gone": find_gone,
    "unexplained": coordination.epoch_unexplained,
}


def _epoch_story(this: EpochRebalance) -> Story:
    found = [find_cause_of_raise(this, raised) for raised in this.raises]
    return Story(
        head=_epoch_head(this),
        found=found,
        clauses=[found[0].clause, *(f"then {other.clause}" for other in found[1:])],
        ends=[_epoch_tail(this), *_unowned(this)],
        facts=_facts_of_the_epoch(this),
    )


def _epoch_head(this: EpochRebalance) -> str:
    members = count(this.raises[-1].members, "member")
    moved = f", {count(len(this.moves), 'partition')} to move" if this.target is not None else ""
    return f"Epoch {this.epoch} ({members}{moved})"


def _epoch_tail(this: EpochRebalance) -> str:
    if this.end == "stable":
        return f"the group was stable after {seconds(this.took_ms or 0)}{_revoking(this)}"
    if this.end == "empty":
        return "nobody is left"
    if this.end == "superseded":
        return f"the epoch rose again before everybody was there{_still(this)}"
    if this.end == "interrupted":
        return f"the coordinator went before everybody was there{_still(this)}"
    if this.end == "converted":
        return "the group went on in the classic protocol"
    if this.target is None:
        return "its target is not computed yet"
    there = sum(row.state == "stable" and row.epoch == this.epoch for row in this.members)
    return f"{there} of {count(this.target.members, 'member')} are there{_still(this)}"


def _revoking(this: EpochRebalance) -> str:
    slow = this.held_up
    if slow is None:
        return ""
    what = partitions_text((topic, p) for topic, of in slow.revoked.items() for p in of)
    return f", of which {seconds(slow.revoked_after_ms or 0)} waiting for {name_of(slow.who)} to give up {what}"


def _still(this: EpochRebalance) -> str:
    if this.unrevoked:
        told = [f"{name_of(row.who)} has not given up {partitions_text(row.revoking)}" for row in this.unrevoked[:3]]
        rest = len(this.unrevoked) - len(told)
        return f": {', '.join(told)}" + (f", nor have {count(rest, 'other')} theirs" if rest else "")
    behind = [row for row in this.members if this.target is not None and row.epoch != this.target.epoch]
    if not behind:
        return ""
    return f": {names_of([row.who for row in behind])} yet to come nearer with a heartbeat"


def _unowned(this: EpochRebalance) -> list[str]:
    told = []
    longest = this.longest_gap
    if longest is not None and longest.took_ms:
        over = sum(gap.until_ms is not None for gap in this.gaps)
        had = "had no owner for" if over == 1 else f"was longest without an owner, of {over}:"
        summed = f" ({this.unowned_ms / 1000:.1f} partition-seconds)" if over > 1 else ""
        told.append(f"{partitions_text([(longest.topic, longest.partition)])} {had} {seconds(longest.took_ms)}{summed}")
    still = [(gap.topic, gap.partition) for gap in this.gaps if gap.until_ms is None]
    if still and this.end not in ("empty", "converted"):
        told.append(f"{partitions_text(still)} {'has' if len(still) == 1 else 'have'} no owner yet")
    return told


def _facts_of_the_epoch(this: EpochRebalance) -> list[Evidence]:
    names = {member_id: name_of(who) for member_id, who in members_in(this).items()}
    facts = _facts_of(this.phases_ms)
    if this.target is not None:
        by = f", by {this.target.assignor}" if this.target.assignor else ""
        value = f"for epoch {this.target.epoch}{by}"
        facts.append(Evidence("target_computed", value, this.target.at_ms))
    for row in this.unrevoked:
        value = f"{name_of(row.who)} was told to give up {partitions_text(row.revoking)}, and has not"
        facts.append(Evidence("not_revoked", value, row.revoking_since_ms))
    facts += [fact for row in this.members if (fact := _waits(row, names)) is not None]
    if this.target is not None and this.undisturbed:
        facts.append(Evidence("undisturbed", f"{names_of([row.who for row in this.undisturbed])} kept what they had"))
    return facts + _stale(this.fenced)


def _waits(row: MemberRow, names: dict[str, str]) -> Evidence | None:
    if not row.awaited or row.state != "unreleased_partitions":
        return None
    owners = ", ".join(sorted({_owner_text(names, one.owner) for one in row.awaited}))
    what = partitions_text((one.topic, one.partition) for one in row.awaited)
    return Evidence("waits", f"{name_of(row.who)} waits for {what}, held by {owners} when it last asked")


def _owner_text(names: dict[str, str], member_id: str | None) -> str:
    return "nobody" if member_id is None else names.get(member_id) or short_id(member_id)


def members_in(this: EpochRebalance) -> dict[str, Who]:
    told = [row.who for row in this.members] + [step.who for step in this.steps]
    told += [who for raised in this.raises for who in (raised.cause.who, *raised.cause.others) if who is not None]
    return {who.member_id: who for who in told}


# Generations of classic groups that a watcher observed. Never ``proof``: no watcher sees what began the round.

SHOWN: Final = 3
"""Causes of one rebalance in its sentence."""
AFTER_FAILOVER: Final = ("MEMBER_GONE", "SESSION_TIMEOUT", "CLIENT_RESET", "MAX_POLL_EXCEEDED", "STATIC_RESTART")
"""Apparent causes of clients that lost their coordinator."""
WEAKER: Final[dict[Confidence, Confidence]] = {"proof": "high", "high": "medium", "medium": "medium", "low": "low"}
"""Confidence with several causes."""


def _find_seen(this: SeenRebalance) -> list[Finding]:
    """Find the causes, the likeliest first. With several, or with unseen generations in between, none is sure."""
    if this.converted is not None:
        return [coordination.seen_converted(this)]
    if this.before is None:
        return [joining.seen_first(this)]
    if not this.before.members:
        return [joining.seen_forming(this)]
    found = [finding for find in SEEN_FINDERS for finding in find(this)]
    if [finding.cause for finding in found] == ["STATIC_RESTART"] and not this.coordinator_moved_lately:
        found = [joining.removed_and_back(this, found[0])]
    if all(finding.cause in AFTER_FAILOVER for finding in found) and this.coordinator_moved_lately:
        found = [coordination.seen_failover(this), *found]
    if not found:
        found = [coordination.seen_unexplained(this)]
    unsure = len({finding.cause for finding in found}) > 1 or this.not_written > 0
    if not unsure:
        return found
    return [Finding(f.cause, WEAKER[f.confidence], f.clause, f.evidence) for f in found]


SEEN_FINDERS: Final[tuple[Callable[[SeenRebalance], list[Finding]], ...]] = (
    lambda this: list(this.departures),
    joining.seen_newcomers,
    changes.seen_subscriptions,
    changes.seen_assignor,
    changes.seen_partitions,
    joining.seen_restarts,
    changes.seen_followup,
)
"""Likeliest first."""


def _seen_story(this: SeenRebalance) -> Story:
    found = _find_seen(this)
    clauses = [finding.clause for finding in found[:SHOWN]]
    if len(found) > SHOWN:
        clauses.append(f"and {count(len(found) - SHOWN, 'other change')}")
    took = bounds_text(this.join_ms)
    tail = "how long the round took was not seen" if took is None else f"the join phase took {took}"
    return Story(_seen_head(this), found, clauses, [tail], _facts_seen(this))


def _seen_head(this: SeenRebalance) -> str:
    members = f"{count(len(this.after.members), 'member')}{' left' if not this.after.members else ''}"
    moved = f", {count(len(this.moves), 'partition')} moved" if this.before is not None else ""
    return f"Generation {this.after.generation} ({members}{moved})"


def bounds_text(bounds: Bounds) -> str | None:
    """Return a duration with its bounds; None if unknown."""
    shortest, longest = bounds
    if longest is None:
        return None if not shortest else f"{seconds(shortest)} or longer"
    return f"{seconds(longest)} or less" if not shortest else f"between {seconds(shortest)} and {seconds(longest)}"


def _facts_seen(this: SeenRebalance) -> list[Evidence]:
    facts = []
    if (took := bounds_text(this.join_ms)) is not None:
        facts.append(Evidence("join_took", f"{took}, by the states that were seen"))
    if this.assign_ms is not None:
        facts.append(Evidence("assign_took", f"{seconds(this.assign_ms)}, by the record", this.after.joined_ms))
    if this.not_written:
        what = f"{count(this.not_written, 'generation')} before it: never assigned, or not in the log any more"
        facts.append(Evidence("not_written", what))
    if this.coordinator_moved:
        facts.append(Evidence("coordinator_moved", "another leader epoch of its records than before"))
    facts.append(Evidence("written", f"generation {this.after.generation}", this.after.at_ms))
    return facts
