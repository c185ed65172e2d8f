"""Why a rebalance happened, in a sentence, with the evidence: never a cause without at least one fact behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kohort.coordinator.journal import MemberRemoved, Vitals, Who
from kohort.insight.catalogue.table import advice_for
from kohort.insight.causes import Confidence, Evidence, Finding, find_stop
from kohort.insight.names import count, limit, name_and_place, name_of, seconds
from kohort.insight.rebalances import Rebalance
from kohort.insight.round_causes import find_cause, find_silence_in


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened, why, how sure that is, on what evidence, and what to do."""

    cause: str
    confidence: Confidence
    sentence: str
    evidence: tuple[Evidence, ...]
    advice: str | None = None
    also: tuple[str, ...] = ()
    """Causes of the other things that happened in the round."""


LOST_MS: Final = 1_000
"""A wait for one member that is shorter says nothing about that member."""


def explain(rebalance: Rebalance) -> Explanation:
    """Explain a rebalance by the cause that cost most of its time.

    That is the event that opened the round, unless the round spent most of its join phase waiting for a member that the
    coordinator then removed. Advice covers every cause, and the member that the others waited for.
    """
    opened = find_cause(rebalance)
    waited_for = _find_costly_removal(rebalance)
    first = opened if waited_for is None else waited_for
    clauses = [opened.clause, *(_meanwhile(rebalance, r, r.vitals) for r in rebalance.also_expired if r.vitals)]
    sentence = f"{_head(rebalance)}: {'; '.join(clauses)}; {_tail(rebalance)}."
    facts = [*first.evidence, *(() if first is opened else opened.evidence), *_facts_of_the_round(rebalance)]
    causes = dict.fromkeys([first.cause, opened.cause, *_causes_meanwhile(rebalance)])
    advice = [*(advice_for(cause) for cause in causes), _advice_on_wait(rebalance)]
    told = "; ".join(dict.fromkeys(words for words in advice if words is not None))
    also = tuple(cause for cause in causes if cause != first.cause)
    return Explanation(first.cause, first.confidence, sentence, tuple(dict.fromkeys(facts)), told or None, also)


def _find_costly_removal(this: Rebalance) -> Finding | None:
    """Find the cause of the removal that the round spent most of its join phase waiting for."""
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
"""Why a member kept the others waiting, and the cause whose advice helps against it."""


def _advice_on_wait(this: Rebalance) -> str | None:
    """Advise on the member that the others waited for."""
    waited = blocker(this)
    if waited is None or this.initial or waited[1] < LOST_MS:
        return None
    cause = ADVICE_ON_WAIT.get(why_late(this, waited[0]) or "")
    return None if cause is None else advice_for(cause)


def is_stalled(this: Rebalance, vitals: Vitals | None) -> bool:
    """Tell whether the broker stood still for so long of a round that no member can be blamed for coming late."""
    return vitals is not None and vitals.stalled_ms * 4 >= this.timeout_ms


def why_late(this: Rebalance, who: Who) -> str | None:
    """Return what a member that let others wait was doing, if that can be told: ``dead``, ``silent``, ``not_polling``,
    ``slow_to_revoke``, or ``broker_stalled``.

    Members join again when their user polls. One that sent heartbeats meanwhile lives, and did not poll; one that
    committed meanwhile polled, and was busy giving up what it had.
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
    """Return whom the round waited for, and for how long all others had come: the one that came last, or did not."""
    if this.not_rejoined and this.join_ms is not None:
        last_ms = max((a.after_ms for a in this.arrivals), default=0)
        return this.not_rejoined[0].who, this.join_ms - last_ms
    if this.released_by is not None:
        removed, waited_ms = this.released_by
        return removed.who, waited_ms
    return this.held_up


def _causes_meanwhile(this: Rebalance) -> tuple[str, ...]:
    """Name the causes of the removals while the round was open."""
    silent = [find_silence_in(this, r.who, r.vitals, r.at_ms).cause for r in this.also_expired if r.vitals]
    late = ["BROKER_STALL" if is_stalled(this, r.vitals) else "JOIN_TIMEOUT" for r in this.not_rejoined]
    return tuple(dict.fromkeys([*silent, *late]))


def _head(this: Rebalance) -> str:
    if this.generation is None:
        came = len({a.who.member_id for a in this.arrivals})
        return f"After generation {this.from_generation} ({count(came, 'member')} joined so far)"
    members = f"{count(len(this.members_after), 'member')}{' left' if not this.members_after else ''}"
    moved = f", {count(len(this.moves), 'partition')} moved" if this.assigned_at_ms is not None else ""
    return f"Generation {this.generation} ({members}{moved})"


def _meanwhile(this: Rebalance, removed: MemberRemoved, vitals: Vitals) -> str:
    """Return another member that was lost while the round was open."""
    return f"meanwhile {find_silence_in(this, removed.who, vitals, removed.at_ms).clause}"


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
