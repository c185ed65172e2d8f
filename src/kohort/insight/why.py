"""Why a rebalance happened, in a sentence, with the evidence: never a cause without at least one fact behind it."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.coordinator.journal import MemberRemoved, Vitals, Who
from kohort.insight.causes import ADVICE, Confidence, Evidence, find_cause, find_silence
from kohort.insight.names import count, limit, name_of, seconds
from kohort.insight.rebalances import Rebalance


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, why, how sure that is, on what evidence, and what to do."""

    cause: str
    confidence: Confidence
    sentence: str
    evidence: tuple[Evidence, ...]
    advice: str | None = None


def explain(rebalance: Rebalance) -> Explanation:
    """Return the cause of ``rebalance``, the time it took and whom it waited for."""
    finding = find_cause(rebalance)
    evidence = [*finding.evidence, *_facts_of_the_round(rebalance)]
    clauses = [finding.clause, *(_meanwhile(rebalance, r, r.vitals) for r in rebalance.also_expired if r.vitals)]
    sentence = f"{_head(rebalance)}: {'; '.join(clauses)}; {_tail(rebalance)}."
    causes = [finding.cause, *(["JOIN_TIMEOUT"] if rebalance.not_rejoined else [])]
    advice = "; ".join(ADVICE[cause] for cause in causes if cause in ADVICE)
    return Explanation(finding.cause, finding.confidence, sentence, tuple(evidence), advice or None)


def _head(this: Rebalance) -> str:
    if this.generation is None:
        came = len({a.who.member_id for a in this.arrivals})
        return f"After generation {this.from_generation} ({count(came, 'member')} joined so far)"
    members = f"{count(len(this.members_after), 'member')}{' left' if not this.members_after else ''}"
    moved = f", {count(len(this.moves), 'partition')} moved" if this.assigned_at_ms is not None else ""
    return f"Generation {this.generation} ({members}{moved})"


def _meanwhile(this: Rebalance, removed: MemberRemoved, vitals: Vitals) -> str:
    """Return another member that was lost while the round was open."""
    return f"meanwhile {find_silence(removed.who, vitals, removed.at_ms, this.fenced).clause}"


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
    """Name whom the round waited for, if it waited at all."""
    gone = this.not_rejoined
    if gone:
        names = _names([r.who for r in gone])
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


def _names(members: list[Who]) -> str:
    shown = [name_of(who) for who in members[:3]]
    rest = len(members) - len(shown)
    return ", ".join(shown) + (f" and {count(rest, 'other')}" if rest else "")


def _facts_of_the_round(this: Rebalance) -> list[Evidence]:
    facts = [Evidence(f"phase_{name}", seconds(ms)) for name, ms in this.phases_ms.items()]
    facts += [
        Evidence("not_rejoined", f"{name_of(r.who)} did not rejoin within {limit(this.timeout_ms)}", r.at_ms)
        for r in this.not_rejoined
    ]
    also = [r for r in this.removed if r.why != "join_timeout" and r.who != this.trigger.who]
    facts += [Evidence("also_removed", f"{name_of(r.who)}: {r.why}", r.at_ms) for r in also]
    if this.held_up is not None:
        who, waited_ms = this.held_up
        facts.append(Evidence("last_to_join", f"{name_of(who)}, {seconds(waited_ms)} after the others"))
    facts += [Evidence("stale_request", f"{name_of(f.who)} sent {f.api}: {f.error}", f.at_ms) for f in this.fenced]
    return facts
