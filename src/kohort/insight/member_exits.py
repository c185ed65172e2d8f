"""Departures of members under both protocols: kind (leave, removal, expiry), text, and silence before the departure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.coordinator.journal import ClientIdentity, EpochCause, EpochRaised, JournalEntry, MemberRemoved, Vitals
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.causes.leaving import find_missed_poll
from kohort.insight.epochs import epoch_rebalances
from kohort.insight.evidence import Finding
from kohort.insight.names import actor, limit, printable, seconds
from kohort.insight.observed.departures import find_raised_departure
from kohort.insight.observed.generations import seen_rebalances
from kohort.insight.rebalances import stopped_polling

VOLUNTARY: Final = ("left", "pending_left")
INFERRED: Final = {
    "MEMBER_LEFT": "left",
    "ADMIN_REMOVED": "removed",
    "MAX_POLL_EXCEEDED": "max_poll_exceeded",
    "SESSION_TIMEOUT": "session_expired",
    "STATIC_EXPIRED": "session_expired",
    "JOIN_TIMEOUT": "join_timeout",
    "REVOCATION_TIMEOUT": "revocation_timeout",
}
TEXTS: Final = {
    "new_member_expired": "removed: it waited five minutes for its first generation",
    "sync_timeout": "removed: it did not request its assignment in time",
    "group_full": "removed: the group has more than group.max.size members",
    "pending_left": "left before it joined",
    "pending_expired": "expired: it got a member id and did not join with it",
    "revocation_timeout": "removed: it did not revoke its partitions in time",
    "rejoin_timeout": "removed: it did not rejoin in time",
    "resync_timeout": "removed: it joined, but did not request its assignment in time",
    "departed": "departed: it left, or its session expired (indistinguishable for a watcher)",
}


class MemberExit(NamedTuple):
    """Departure of a member: kind as in ``RebalanceFinding.departures``, text, and start of the member's silence."""

    kind: str
    text: str
    silent_since_ms: int | None = None

    @property
    def is_voluntary(self) -> bool:
        return self.kind in VOLUNTARY


def exit_of_removed(entry: MemberRemoved, disconnected: MemberDisconnected | None = None) -> MemberExit:
    """Describe the departure of a classic group's member; ``disconnected``: the entry about its closed connection."""
    return _exit(entry.why, entry.vitals, entry.reason, entry.by, entry.at_ms, disconnected)


def exit_of_raised(
    cause: EpochCause, member: ClientIdentity, at_ms: int, disconnected: MemberDisconnected | None = None
) -> MemberExit:
    vitals = cause.vitals if cause.member == member else None
    kind = cause.event.removeprefix("member_")
    return _exit(kind, vitals, cause.reason, cause.by, at_ms, disconnected)


def observed_exits(entries: Sequence[JournalEntry]) -> dict[tuple[str, int], MemberExit]:
    """Return the departures that a watcher inferred; key: id of the departed member, and time of the journal entry."""
    found = {}
    for rebalance in seen_rebalances(entries):
        for departure, why in zip(rebalance.departed, rebalance.departures, strict=True):
            found[departure.member.member_id, rebalance.after.at_ms] = _seen(why, departure.sign_ms)
    if any(isinstance(entry, EpochRaised) and entry.cause.event == "member_departed" for entry in entries):
        for consumer in epoch_rebalances(entries):
            for raised in consumer.raises:
                member, signs = raised.cause.member, raised.cause.signs
                if raised.cause.event == "member_departed" and member is not None:
                    sign_ms = None if signs is None else max(signs.since_ms, signs.last_commit_ms or 0)
                    found[member.member_id, raised.at_ms] = _seen(find_raised_departure(consumer, raised), sign_ms)
    return found


def _seen(found: Finding, sign_ms: int | None) -> MemberExit:
    """Describe the departure of a member that a watcher inferred.

    A watcher sees commits but no heartbeats: the member may have lived longer than its last commit shows.
    """
    kind = INFERRED.get(found.cause, "departed")
    text = TEXTS["departed"] if kind == "departed" else f"{found.clause} (inferred, {found.confidence} confidence)"
    return MemberExit(kind, text, sign_ms if kind == "session_expired" else None)


def _exit(
    why: str,
    vitals: Vitals | None,
    reason: str | None,
    by: ClientIdentity | None,
    at_ms: int,
    disconnected: MemberDisconnected | None,
) -> MemberExit:
    quoted = f' ("{printable(reason)}")' if reason else ""
    if by is not None:
        return MemberExit("removed", f"removed by {actor(by)}{quoted}")
    if why == "left":
        if find_missed_poll("it", vitals, reason, at_ms, disconnected) is not None:
            return MemberExit("max_poll_exceeded", f"left: {_stopped(vitals, reason, at_ms)}")
        return MemberExit("left", f"left{quoted}")
    if why == "session_expired":
        return _silence(vitals, at_ms)
    if why == "join_timeout":
        within = "in time" if vitals is None else f"within {limit(vitals.rebalance_timeout_ms)}"
        return MemberExit("join_timeout", f"removed: it did not rejoin {within}")
    return MemberExit(why, TEXTS.get(why, f"removed: {why.replace('_', ' ')}"))


def _stopped(vitals: Vitals | None, reason: str | None, at_ms: int) -> str:
    if stopped_polling(reason) or vitals is None or vitals.last_progress_ms is None:
        return "it did not poll within max.poll.interval.ms (the client's reason)"
    idle = f"{seconds(at_ms - vitals.last_progress_ms)} without commit progress"
    if vitals.rebalance_timeout_ms == vitals.session_timeout_ms:
        return f"it probably did not poll within max.poll.interval.ms: {idle}"
    limited = f"its limit is {limit(vitals.rebalance_timeout_ms)} between polls"
    return f"it probably did not poll within max.poll.interval.ms: {idle} ({limited})"


def _silence(vitals: Vitals | None, at_ms: int) -> MemberExit:
    if vitals is None:
        return MemberExit("session_expired", "expired: it sent no heartbeat until its session expired")
    text = (
        f"expired: it sent no heartbeat for {seconds(at_ms - vitals.last_seen_ms)}"
        f" (session timeout {limit(vitals.session_timeout_ms)})"
    )
    closed_at_ms = vitals.connection_closed_at_ms
    if closed_at_ms is not None:
        text += f"; its connection had closed {seconds(at_ms - closed_at_ms)} before"
    if vitals.stalled_ms:
        text += f"; the broker itself stalled for {seconds(vitals.stalled_ms)} of this time"
    return MemberExit("session_expired", text, vitals.last_seen_ms)
