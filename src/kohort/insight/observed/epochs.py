"""Raises of the epoch of modern groups that only records told of: what the records do not say is inferred."""

from __future__ import annotations

from kohort.coordinator.journal import EpochRaised, SignsOfLife
from kohort.insight.causes import Evidence, Finding
from kohort.insight.epochs import EpochRebalance
from kohort.insight.names import count
from kohort.insight.observed.departures import Departure, find_departure


def seen_from_outside(found: Finding) -> Finding:
    """Return a cause that was seen in records, which is never a proof: what led to them was not seen."""
    if found.confidence != "proof":
        return found
    return Finding(found.cause, "high", found.clause, found.evidence)


def find_gone(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Infer why a member is gone: its records end in the same way whether it left or was put out."""
    cause, first = raised.cause, raised is this.raises[0]
    if cause.who is None:  # a journal that was not written so
        return Finding("MEMBER_GONE", "low", "a member is gone", (Evidence("gone", "a member", raised.at_ms),))
    signs = cause.signs or SignsOfLife(member_id=cause.who.member_id, since_ms=raised.at_ms)
    back, back_at_ms = this.back.get(cause.who.member_id, (None, raised.at_ms))
    departure = Departure(
        who=cause.who,
        signs=signs,
        out_by_ms=raised.at_ms,
        back=back,
        back_after_ms=back_at_ms - raised.at_ms,
        is_modern=True,
        revoking_since_ms=this.revoking_since_ms if first else None,
    )
    found = find_departure(departure)
    if not cause.others:
        return found
    return Finding(
        found.cause, found.confidence, f"{found.clause}, with {count(len(cause.others), 'other')}", found.evidence
    )


def find_unexplained(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return that the records do not say why the epoch rose."""
    fact = Evidence("epoch", f"it rose to {raised.epoch}, and no record of a member differs", raised.at_ms)
    unseen = Evidence("unknown", "brokers before 4.1 write nothing of the topics that they know")
    clause = "the epoch rose, and the records do not say why: topics that members subscribe to may have changed"
    return Finding("UNEXPLAINED", "low", clause, (fact, unseen))
