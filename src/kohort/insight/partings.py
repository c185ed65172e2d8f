"""How a member went out of its group: by itself or put out, by whom, why, and since when it had been silent.

One answer for members of both protocols, and for those that went in a rebalance that another began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.coordinator.journal import EpochCause, EpochRaised, JournalEntry, MemberRemoved, Vitals, Who
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.causes.leaving import find_stop
from kohort.insight.epochs import epoch_rebalances
from kohort.insight.evidence import Finding
from kohort.insight.names import actor, limit, printable, seconds
from kohort.insight.observed.departures import find_gone
from kohort.insight.observed.generations import seen_rebalances
from kohort.insight.rebalances import stopped_polling

BY_ITSELF: Final = ("left", "pending_left")
SEEN: Final = {
    "MEMBER_LEFT": "left",
    "ADMIN_REMOVED": "removed",
    "MAX_POLL_EXCEEDED": "max_poll_exceeded",
    "SESSION_TIMEOUT": "session_expired",
    "STATIC_EXPIRED": "session_expired",
    "JOIN_TIMEOUT": "join_timeout",
    "REVOCATION_TIMEOUT": "revocation_timeout",
}
"""Departure by inferred cause; of others it is unknown."""
WORDS: Final = {
    "new_member_expired": "put out: it waited five minutes for its first generation",
    "sync_timeout": "put out: it did not ask for its assignment in time",
    "group_full": "put out: the group has as many members as it may",
    "pending_left": "left before it was a member",
    "pending_expired": "was given an id and never came back with it",
    "revocation_timeout": "put out: it did not give up in time what it was told to",
    "rejoin_timeout": "put out: it was told to join again, and did not in time",
    "resync_timeout": "put out: it joined, and did not ask for its assignment in time",
    "gone": "gone: it left, or its session ended, which look the same from here",
}


class Parting(NamedTuple):
    """How a member departed (as in ``RebalanceFinding.gone``), in words, and the start of a silence that ended it."""

    how: str
    text: str
    silent_since_ms: int | None = None

    @property
    def by_itself(self) -> bool:
        return self.how in BY_ITSELF


def parting_of_removed(entry: MemberRemoved, hung_up: MemberDisconnected | None = None) -> Parting:
    """Return how a member of a classic group departed; ``hung_up``: a later end of its connection."""
    return _parting(entry.why, entry.vitals, entry.reason, entry.by, entry.at_ms, hung_up)


def parting_of_raised(cause: EpochCause, who: Who, at_ms: int, hung_up: MemberDisconnected | None = None) -> Parting:
    vitals = cause.vitals if cause.who == who else None
    how = cause.event.removeprefix("member_")
    return _parting(how, vitals, cause.reason, cause.by, at_ms, hung_up)


def partings_seen(entries: Sequence[JournalEntry]) -> dict[tuple[str, int], Parting]:
    """Return inferred departures of a watcher, by member id and time of the entry."""
    found = {}
    for this in seen_rebalances(entries):
        for departure, why in zip(this.departed, this.departures, strict=True):
            found[departure.who.member_id, this.after.at_ms] = _seen(why, departure.sign_ms)
    if any(isinstance(entry, EpochRaised) and entry.cause.event == "member_gone" for entry in entries):
        for modern in epoch_rebalances(entries):
            for raised in modern.raises:
                who, signs = raised.cause.who, raised.cause.signs
                if raised.cause.event == "member_gone" and who is not None:
                    sign_ms = None if signs is None else max(signs.since_ms, signs.last_commit_ms or 0)
                    found[who.member_id, raised.at_ms] = _seen(find_gone(modern, raised), sign_ms)
    return found


def _seen(found: Finding, sign_ms: int | None) -> Parting:
    """Return an inferred departure. A watcher sees only commits: the member may have lived longer than its last
    sign."""
    how = SEEN.get(found.cause, "gone")
    text = WORDS["gone"] if how == "gone" else f"{found.clause}: that is inferred, {found.confidence} confidence"
    return Parting(how, text, sign_ms if how == "session_expired" else None)


def _parting(
    why: str,
    vitals: Vitals | None,
    reason: str | None,
    by: Who | None,
    at_ms: int,
    hung_up: MemberDisconnected | None,
) -> Parting:
    said = f' ("{printable(reason)}")' if reason else ""
    if by is not None:
        return Parting("removed", f"put out by {actor(by)}{said}")
    if why == "left":
        if find_stop("it", vitals, reason, at_ms, hung_up) is not None:
            return Parting("max_poll_exceeded", f"put out: {_stopped(vitals, reason, at_ms)}")
        return Parting("left", f"left{said}")
    if why == "session_expired":
        return _silence(vitals, at_ms)
    if why == "join_timeout":
        within = "in time" if vitals is None else f"within {limit(vitals.rebalance_timeout_ms)}"
        return Parting("join_timeout", f"put out: it did not join again {within}")
    return Parting(why, WORDS.get(why, f"put out: {why.replace('_', ' ')}"))


def _stopped(vitals: Vitals | None, reason: str | None, at_ms: int) -> str:
    if stopped_polling(reason) or vitals is None or vitals.last_progress_ms is None:
        return "it did not poll within max.poll.interval.ms, as its client said"
    return (
        f"it seems not to have polled within max.poll.interval.ms: {seconds(at_ms - vitals.last_progress_ms)} without"
        f" commit progress (its limit is {limit(vitals.rebalance_timeout_ms)} after a poll)"
    )


def _silence(vitals: Vitals | None, at_ms: int) -> Parting:
    """Return the end of a session, which a stall of the broker may have caused."""
    if vitals is None:
        return Parting("session_expired", "put out: nothing was heard of it until its session ended")
    text = (
        f"put out: nothing was heard of it for {seconds(at_ms - vitals.last_seen_ms)}, and its session ended"
        f" (timeout {limit(vitals.session_timeout_ms)})"
    )
    closed_at_ms = vitals.connection_closed_at_ms
    if closed_at_ms is not None:
        text += f"; its connection had closed {seconds(at_ms - closed_at_ms)} before"
    if vitals.stalled_ms:
        text += f"; the broker itself stood still for {seconds(vitals.stalled_ms)} of it"
    return Parting("session_expired", text, vitals.last_seen_ms)
