"""The causes of rebalances: how each is told from the others by the evidence, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from kohort.coordinator.journal import Change, MemberRemoved, RequestFenced, TriggerEvent, Vitals, Who
from kohort.insight.names import count, limit, name_and_place, name_of, printable, seconds
from kohort.insight.rebalances import Rebalance, stopped_polling

Confidence = Literal["proof", "high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact: what kind it is, its value in words, and when it was so."""

    kind: str
    value: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause, how sure it is, the clause that tells it, and the facts behind it."""

    cause: str
    confidence: Confidence
    clause: str
    evidence: tuple[Evidence, ...]


AUTO_COMMIT_MS: Final = 5000
"""How long after its last poll a member may still commit by itself: the usual ``auto.commit.interval.ms``."""
ADVICE: Final[dict[str, str]] = {
    "MAX_POLL_EXCEEDED": "raise max.poll.interval.ms, lower max.poll.records, or process off the poll loop",
    "SESSION_TIMEOUT.process_died": "find out why the process ended; one that closes its consumer is not waited for",
    "SESSION_TIMEOUT.frozen": "look for long pauses (collector, swap, suspension), or raise session.timeout.ms",
    "SESSION_TIMEOUT.starved": "its heartbeats came ever later: give it CPU, or raise session.timeout.ms",
    "SESSION_TIMEOUT.unreachable": "look at the host and the network between it and the broker",
    "STATIC_EXPIRED": "its partitions had no owner all the while: raise session.timeout.ms above its restart time",
    "JOIN_TIMEOUT": "its poll loop was busy for longer than max.poll.interval.ms; shorten what it does between polls",
    "SYNC_TIMEOUT": "the member ended or froze between joining and being assigned",
    "LEADER_LOST": "the leader ended or froze while it computed the assignment",
    "STATIC_DUPLICATE": "give every process a group.instance.id of its own, and stop the one that was taken over",
    "STATIC_REJOIN": "give every member the same list of assignors before restarting one by one",
    "SUBSCRIPTION_CHANGED": "members of one group should subscribe to the same topics; change them together",
    "ASSIGNOR_CHANGED": "expected while a new list of assignors is rolled out",
    "LEADER_REJOIN": "the leader gave no reason; at a fixed period it is usually a client that refreshes its metadata",
    "OVER_CAPACITY": "raise group.max.size, or run fewer members",
    "ASSIGNMENT_STORE_FAILED": "the broker could not write; look at its disk",
    "REVOCATION_TIMEOUT": "its revoke callback took longer than max.poll.interval.ms, or it did not poll; shorten that",
    "CLIENT_RESET": "see the rebalance in which the member was removed",
}
"""What to do; causes that need nothing done are not here."""


def find_cause(this: Rebalance) -> Finding:
    """Return the cause of a rebalance, from what opened its round."""
    return FINDERS[this.trigger.event](this)


def _who(this: Rebalance) -> str:
    who = this.trigger.who
    return "a member" if who is None else f"member {name_and_place(who)}"


def _said(this: Rebalance) -> tuple[Evidence, ...]:
    reason = this.trigger.reason
    return (Evidence("client_reason", f'"{printable(reason)}"', this.opened_at_ms),) if reason else ()


def _joined(this: Rebalance) -> Finding:
    seen = Evidence("join_group", f"{_who(this)} was not in generation {this.from_generation}", this.opened_at_ms)
    evidence = (seen, *_said(this), *([_initial_delay(this)] if this.initial else ()))
    if this.returned is not None:
        before = this.returned
        ago = seconds(this.opened_at_ms - before.at_ms)
        what = _why_out(before)
        clause = f"{_who(this)} joined anew, {ago} after {name_of(before.who)} was out of the group ({what})"
        return Finding("CLIENT_RESET", "high", clause, (*evidence, Evidence("removed_before", what, before.at_ms)))
    if this.initial:
        newcomers = len({a.who.member_id for a in this.arrivals})
        clause = f"the group was empty and {_who(this)} joined"
        clause += f", then {newcomers - 1} more" if newcomers > 1 else ""
        return Finding("GROUP_FORMING", "proof", clause, evidence)
    return Finding("NEW_MEMBER", "proof", f"{_who(this)} joined the group", evidence)


def _why_out(before: MemberRemoved | RequestFenced) -> str:
    if isinstance(before, RequestFenced):
        return before.error
    return "it did not poll within max.poll.interval.ms" if stopped_polling(before.reason) else before.why


def _initial_delay(this: Rebalance) -> Evidence:
    """Return the wait of a group that was empty, which each member that comes prolongs (KIP-134)."""
    if this.join_ms is None:
        words = f"waits {limit(this.timeout_ms)} for more to come, and longer if some do"
    else:
        prolonged = f" ({limit(this.timeout_ms)}, and longer since some came)" if len(this.arrivals) > 1 else ""
        words = f"waited {seconds(this.join_ms)} for more to come{prolonged}"
    return Evidence("initial_delay", words, this.opened_at_ms)


def _rejoined(this: Rebalance) -> Finding:
    change = this.trigger.change or Change()
    said = (this.trigger.reason or "").lower()
    kind = "the leader, " if change.was_leader else ""
    evidence = (Evidence("join_group", f"{kind}{_who(this)} joined again", this.opened_at_ms), *_said(this))
    for applies, cause, confidence, tell in REJOINS:
        if applies(this, change, said):
            clause, fact = tell(this, change)
            return Finding(cause, confidence, clause, (*evidence, Evidence("change", fact, this.opened_at_ms)))
    why = f' ("{printable(this.trigger.reason)}")' if this.trigger.reason else " and gave no reason"
    if change.was_leader:
        return Finding("LEADER_REJOIN", "low", f"the leader, {_who(this)}, joined again{why}", evidence)
    return Finding("METADATA_CHANGED", "proof", f"{_who(this)} joined again with other metadata{why}", evidence)


def _tell_topics(this: Rebalance, change: Change) -> tuple[str, str]:
    parts = [f"added {printable(t)}" for t in change.topics_added]
    parts += [f"removed {printable(t)}" for t in change.topics_removed]
    return f"{_who(this)} changed its subscription: {', '.join(parts)}", ", ".join(parts)


def _tell_protocols(this: Rebalance, change: Change) -> tuple[str, str]:
    fact = f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}"
    return f"{_who(this)} changed its assignors: {printable(fact)}", printable(fact)


def _tell_partitions(this: Rebalance, change: Change) -> tuple[str, str]:
    grown = [f"{t} from {was} to {now} partitions" for t, (was, now) in sorted(change.partitions_changed.items())]
    fact = ", ".join(grown) or "the leader's metadata changed"
    return f"topics changed ({printable(fact)}) and {_who(this)} joined again", printable(fact)


def _tell_followup(this: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"members gave up partitions in generation {this.from_generation} so that others could have them"
    return clause, f"{_who(this)} owns other partitions than before and nothing else changed"


def _tell_user(this: Rebalance, _change: Change) -> tuple[str, str]:
    return f"{_who(this)} asked for it", "rebalance enforced by user"


def _tell_mismatch(this: Rebalance, _change: Change) -> tuple[str, str]:
    return f"{_who(this)} was assigned what it no longer subscribes to", "assignment and subscription differ"


Applies = Callable[[Rebalance, Change, str], bool]
Tell = Callable[[Rebalance, Change], tuple[str, str]]
REJOINS: Final[tuple[tuple[Applies, str, Confidence, Tell], ...]] = (
    (lambda _r, c, _s: bool(c.topics_added or c.topics_removed), "SUBSCRIPTION_CHANGED", "proof", _tell_topics),
    (lambda _r, c, _s: c.protocols_before != c.protocols_after, "ASSIGNOR_CHANGED", "proof", _tell_protocols),
    (lambda _r, c, _s: bool(c.partitions_changed), "PARTITIONS_CHANGED", "proof", _tell_partitions),
    (lambda r, _c, _s: r.parent is not None, "COOPERATIVE_FOLLOWUP", "proof", _tell_followup),
    (lambda _r, c, s: c.owned_changed and "need to revoke" in s, "COOPERATIVE_FOLLOWUP", "high", _tell_followup),
    (lambda _r, _c, s: "enforced by user" in s, "USER_ENFORCED", "high", _tell_user),
    (lambda _r, _c, s: "does not match the current subscription" in s, "ASSIGNMENT_MISMATCH", "high", _tell_mismatch),
    (lambda _r, _c, s: "cached metadata has changed" in s, "PARTITIONS_CHANGED", "high", _tell_partitions),
)
"""A rejoin, by what differs and what the client said; the first that applies."""


def _left(this: Rebalance) -> Finding:
    by = next((r.by for r in this.removed if r.why == "left" and r.by is not None), None)
    evidence = (Evidence("leave_group", f"{_who(this)} sent LeaveGroup", this.opened_at_ms), *_said(this))
    others = f" and {count(len(this.trigger.others), 'other')}" if this.trigger.others else ""
    if by is not None:
        clause = f"{_who(this)}{others} was removed by {name_and_place(by)}"
        return Finding("ADMIN_REMOVED", "proof", clause, evidence)
    if stopped_polling(this.trigger.reason):
        clause = f"{_who(this)} left because it did not poll within max.poll.interval.ms"
        return Finding("MAX_POLL_EXCEEDED", "high", clause, evidence)
    vitals = this.trigger.vitals
    idle_ms = _idle_ms(this, vitals)
    if vitals is not None and idle_ms is not None and vitals.connection_closed_at_ms is None:
        clause = (
            f"{_who(this)} left while its connection stayed open, after {seconds(idle_ms)} without commit progress"
            f" (its limit is {limit(vitals.rebalance_timeout_ms)} after a poll)"
        )
        progress = Evidence("last_commit_progress", f"{seconds(idle_ms)} before", vitals.last_progress_ms)
        return Finding("MAX_POLL_EXCEEDED", "medium", clause, (*evidence, progress))
    reason = f' ("{printable(this.trigger.reason)}")' if this.trigger.reason else ""
    return Finding("MEMBER_LEFT", "proof", f"{_who(this)}{others} left the group{reason}", evidence)


def _idle_ms(this: Rebalance, vitals: Vitals | None) -> int | None:
    """Return how long the member had committed nothing new, if that is so long that it cannot have polled in time."""
    if vitals is None or vitals.last_progress_ms is None:
        return None
    idle_ms = this.opened_at_ms - vitals.last_progress_ms
    after_poll_ms = min(AUTO_COMMIT_MS, vitals.rebalance_timeout_ms // 4)
    return idle_ms if idle_ms >= vitals.rebalance_timeout_ms - after_poll_ms else None


def _expired(this: Rebalance) -> Finding:
    vitals, who = this.trigger.vitals, this.trigger.who
    if vitals is None or who is None:  # a journal that the broker did not write so
        return Finding("SESSION_TIMEOUT", "low", f"{_who(this)} was silent until its session ended", ())
    return find_silence(who, vitals, this.opened_at_ms, this.fenced)


def find_silence(who: Who, vitals: Vitals, expired_at_ms: int, fenced: Iterable[RequestFenced]) -> Finding:
    """Find why a member fell silent until its session ended: gone, frozen, short of time, or out of reach."""
    silent_ms = expired_at_ms - vitals.last_seen_ms
    closed_at_ms = vitals.connection_closed_at_ms
    back = next((f for f in fenced if f.who.member_id == who.member_id), None)
    detail = f"session timeout {limit(vitals.session_timeout_ms)}; "
    evidence = [
        Evidence("last_request", f"{seconds(silent_ms)} before it was expired", vitals.last_seen_ms),
        Evidence("session_timeout", limit(vitals.session_timeout_ms)),
        Evidence("longest_gap", seconds(vitals.longest_gap_ms)),
    ]
    confidence: Confidence = "high"
    if closed_at_ms is not None:
        ago = seconds(expired_at_ms - closed_at_ms)
        evidence.append(Evidence("connection_closed", f"{ago} before", closed_at_ms))
        cause, detail = "process_died", f"{detail}its connection had closed {ago} before"
    elif back is not None:
        late = seconds(back.at_ms - expired_at_ms)
        evidence.append(Evidence("came_back", f"sent {back.api} {late} later: {back.error}", back.at_ms))
        cause, detail = "frozen", f"{detail}its connection stayed open and it came back {late} later"
    elif vitals.longest_gap_ms * 2 > vitals.session_timeout_ms:
        cause, detail = "starved", f"{detail}it had been silent for {seconds(vitals.longest_gap_ms)} before"
        confidence = "medium"
    else:
        cause, detail = "unreachable", f"{detail}its connection is open as far as is known"
        confidence = "medium"
    cause = f"SESSION_TIMEOUT.{cause}" if who.instance_id is None else "STATIC_EXPIRED"
    clause = f"member {name_and_place(who)} stopped heartbeating and was expired after {seconds(silent_ms)} ({detail})"
    return Finding(cause, confidence, clause, tuple(evidence))


def _new_member_expired(this: Rebalance) -> Finding:
    clause = f"{_who(this)} waited five minutes for its first generation and was given up"
    return Finding("NEW_MEMBER_EXPIRED", "proof", clause, (Evidence("timer", "new member", this.opened_at_ms),))


def _sync_timeout(this: Rebalance) -> Finding:
    others = f" and {count(len(this.trigger.others), 'other')}" if this.trigger.others else ""
    evidence = (Evidence("timer", f"no SyncGroup in generation {this.from_generation}", this.opened_at_ms),)
    if this.trigger.leader_lost:
        clause = f"the leader was lost between joining and assigning: {_who(this)}{others} sent no SyncGroup in time"
        return Finding("LEADER_LOST", "proof", clause, evidence)
    clause = f"{_who(this)}{others} did not ask for its assignment in time"
    return Finding("SYNC_TIMEOUT", "proof", clause, evidence)


def _static_replaced(this: Rebalance) -> Finding:
    clause = f"{_who(this)} came back with its instance id, and the group could not go on as it was"
    change = this.trigger.change or Change()
    fact = f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}"
    return Finding("STATIC_REJOIN", "proof", clause, (Evidence("protocols", printable(fact), this.opened_at_ms),))


def _over_capacity(this: Rebalance) -> Finding:
    size = len(this.members_before)
    clause = f"the group was loaded with {count(size, 'member')}, more than group.max.size allows"
    return Finding("OVER_CAPACITY", "proof", clause, (Evidence("members", str(size), this.opened_at_ms),))


def _append_failed(this: Rebalance) -> Finding:
    error = this.trigger.error or "unknown"
    clause = f"the broker could not write the generation before ({error})"
    return Finding("ASSIGNMENT_STORE_FAILED", "proof", clause, (Evidence("error", error, this.opened_at_ms),))


def _downgraded(this: Rebalance) -> Finding:
    clause = f"{_who(this)}, the last of the new protocol, went, and the group is a classic one again"
    evidence = (Evidence("converted", f"to the classic protocol, at {this.from_generation}", this.opened_at_ms),)
    return Finding("PROTOCOL_MIGRATION", "proof", clause, evidence)


FINDERS: Final[dict[TriggerEvent, Callable[[Rebalance], Finding]]] = {
    "member_joined": _joined,
    "member_rejoined": _rejoined,
    "member_left": _left,
    "session_expired": _expired,
    "new_member_expired": _new_member_expired,
    "sync_timeout": _sync_timeout,
    "static_replaced": _static_replaced,
    "over_capacity": _over_capacity,
    "append_failed": _append_failed,
    "downgraded": _downgraded,
}
