"""A rebalance of which only the generations were seen, told: cause, sentence, evidence, times as bounds."""

from __future__ import annotations

from kohort.insight.catalogue.table import advice_for
from kohort.insight.causes import Evidence
from kohort.insight.names import count, seconds
from kohort.insight.observed.causes import find_seen_causes
from kohort.insight.observed.generations import Bounds, SeenRebalance
from kohort.insight.why import Explanation

TOLD: int = 3
"""How many causes of one rebalance the sentence tells."""


def explain_seen(this: SeenRebalance) -> tuple[Explanation, tuple[str, ...]]:
    """Return what can be told of ``this``, and the further causes that fell into it."""
    found = find_seen_causes(this)
    first = found[0]
    clauses = [finding.clause for finding in found[:TOLD]]
    if len(found) > TOLD:
        clauses.append(f"and {count(len(found) - TOLD, 'other change')}")
    evidence = [fact for finding in found for fact in finding.evidence]
    advised = [advice_for(f.cause) for f in found]
    advice = "; ".join(dict.fromkeys(words for words in advised if words is not None))
    also = tuple(dict.fromkeys(f.cause for f in found if f.cause != first.cause))
    sentence = f"{_head(this)}: {'; '.join(clauses)}; {_tail(this)}."
    told = Explanation(first.cause, first.confidence, sentence, (*evidence, *_facts(this)), advice or None)
    return told, also


def _head(this: SeenRebalance) -> str:
    members = f"{count(len(this.after.members), 'member')}{' left' if not this.after.members else ''}"
    moved = f", {count(len(this.moves), 'partition')} moved" if this.before is not None else ""
    return f"Generation {this.after.generation} ({members}{moved})"


def _tail(this: SeenRebalance) -> str:
    took = bounds_text(this.join_ms)
    if took is None:
        return "how long the round took was not seen"
    return f"the join phase took {took}"


def bounds_text(bounds: Bounds) -> str | None:
    """Return how long something took, as far as it is known; None where it is not at all."""
    shortest, longest = bounds
    if longest is None:
        return None if not shortest else f"{seconds(shortest)} or longer"
    return f"{seconds(longest)} or less" if not shortest else f"between {seconds(shortest)} and {seconds(longest)}"


def _facts(this: SeenRebalance) -> list[Evidence]:
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
