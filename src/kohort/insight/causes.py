"""The causes of rebalances: how each is told from the others by the evidence, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from kohort.coordinator.journal import (
    Change,
    MemberRemoved,
    RequestFenced,
    TriggerEvent,
    Vitals,
    Who,
)
from kohort.coordinator.journal_events import MemberDisconnected
from kohort.insight.names import actor, count, limit, name_and_place, name_of, printable, seconds
from kohort.insight.rebalances import Rebalance, closes_in_order, stopped_polling

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


HANG_UP_MS: Final = 10_000
"""Within which a client that is closed has closed its connection, too."""
AUTO_COMMIT_MS: Final = 5000
"""How long after its last poll a member may still commit by itself: the usual ``auto.commit.interval.ms``."""


def find_cause(this: Rebalance) -> Finding:
    """Return the cause of a rebalance, from what opened its round."""
    return _after_failover(this) or FINDERS[this.trigger.event](this)


def _after_failover(this: Rebalance) -> Finding | None:
    """Return the cause of a rebalance that began since the group was read from its log, and because of that."""
    loaded = this.loaded
    if loaded is None or this.trigger.event not in ("member_joined", "member_rejoined"):
        return None
    since = seconds(this.opened_at_ms - loaded.at_ms)
    evidence = [Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)]
    if this.newer is not None:
        newer = this.newer
        told = f"{name_of(newer.who)} named generation {newer.generation} ({newer.api}: {newer.error})"
        clause = f"members knew generation {newer.generation}, and the log of their coordinator {newer.current}"
        return Finding("GENERATION_LOST", "proof", clause, (*evidence, Evidence("newer_generation", told, newer.at_ms)))
    before = this.interrupted
    if before is None or not _goes_on(this, before):
        return None
    cut = f"the rebalance after generation {before.from_generation} was under way when its coordinator went"
    evidence.append(Evidence("interrupted", cut, before.opened_at_ms))
    first = FINDERS[before.trigger.event](before).clause
    clause = f"the coordinator went while a rebalance was under way ({first}), and it began anew"
    return Finding("COORDINATOR_FAILOVER", "proof", clause, tuple(evidence))


def _goes_on(this: Rebalance, before: Rebalance) -> bool:
    """Tell whether the member that opened the round does again what it did when the coordinator went."""
    who, change = this.trigger.who, this.trigger.change or Change()
    if this.trigger.event == "member_rejoined":
        same = change.protocols_before == change.protocols_after
        return same and not (change.topics_added or change.topics_removed or change.partitions_changed)
    known = [*before.members_before, *(arrival.who for arrival in before.arrivals)]
    clients = {(member.client_id, member.client_host) for member in known}
    return who is not None and (who.client_id, who.client_host) in clients


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
        chain = [Evidence("removed_before", what, before.at_ms)]
        if this.returned_from is not None:
            earlier = this.returned_from
            which = "open" if earlier.generation is None else str(earlier.generation)
            chain.append(Evidence("chained_to", f"generation {which}: {_cause_before(earlier)}", earlier.opened_at_ms))
        return Finding("CLIENT_RESET", "high", clause, (*evidence, *chain))
    if this.initial:
        newcomers = len({a.who.member_id for a in this.arrivals})
        clause = f"the group was empty and {_who(this)} joined"
        clause += f", then {newcomers - 1} more" if newcomers > 1 else ""
        return Finding("GROUP_FORMING", "proof", clause, evidence)
    return Finding("NEW_MEMBER", "proof", f"{_who(this)} joined the group", evidence)


def _cause_before(earlier: Rebalance) -> str:
    """Return the cause of the round before in a chain; a client that crashes every minute makes one of hundreds, and
    its links are not followed to their beginning each time."""
    if earlier.trigger.event == "member_joined" and earlier.returned is not None:
        return "CLIENT_RESET"
    return find_cause(earlier).cause


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
    if this.trigger.reason and not any(words in said for words in LIBRARY_WORDS):
        return Finding("USER_ENFORCED", "medium", f"{_who(this)} asked for it{why}", evidence)
    if change.was_leader:
        return Finding("LEADER_REJOIN", "low", f"the leader, {_who(this)}, joined again{why}", evidence)
    return Finding("METADATA_CHANGED", "proof", f"{_who(this)} joined again with other metadata{why}", evidence)


def _tell_topics(this: Rebalance, change: Change) -> tuple[str, str]:
    parts = [f"added {printable(t)}" for t in change.topics_added]
    parts += [f"removed {printable(t)}" for t in change.topics_removed]
    return f"{_who(this)} changed its subscription: {', '.join(parts)}", ", ".join(parts)


def _tell_made(this: Rebalance, change: Change) -> tuple[str, str]:
    made = [*change.topics_made, *(t for t, (was, _) in sorted(change.partitions_changed.items()) if not was)]
    fact = ", ".join(printable(topic) for topic in made)
    return f"topics were made that the group reads ({fact}), and {_who(this)} joined again", f"made: {fact}"


def _tell_gone(this: Rebalance, change: Change) -> tuple[str, str]:
    gone = [*change.topics_gone, *(t for t, (_, now) in sorted(change.partitions_changed.items()) if not now)]
    fact = ", ".join(printable(topic) for topic in dict.fromkeys(gone))
    return f"topics were deleted that the group reads ({fact}), and {_who(this)} joined again", f"gone: {fact}"


def _tell_rack(this: Rebalance, change: Change) -> tuple[str, str]:
    was, now = (printable(rack or "") or "none" for rack in change.racks or (None, None))
    return f"{_who(this)} runs in rack {now}, and did in {was}", f"{was} became {now}"


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
LIBRARY_WORDS: Final = (
    "rebalanc",
    "re-join",
    "rejoin",
    "metadata has changed",
    "subscription",
    "revoke partitions",
    "revoking",
    "encountered",
    "offset commit",
    "group lifecycle",
    "partitions were added",
    "new partitions",
    "heartbeat",
    "generation id",
    "member id",
    "instance id",
    "consumeclaim",
)
"""What is in the reasons that client libraries give by themselves; another reason is the application's."""


def _only_made(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_removed or set(change.topics_added) - {*change.topics_made}:
        return False
    return bool(change.topics_made or sizes) and all(not was for was, _ in sizes)


def _only_gone(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_added or set(change.topics_removed) - {*change.topics_gone}:
        return False
    return bool(change.topics_gone or sizes) and all(not now for _, now in sizes)


REJOINS: Final[tuple[tuple[Applies, str, Confidence, Tell], ...]] = (
    (lambda _r, c, _s: _only_made(c), "TOPIC_CREATED", "proof", _tell_made),
    (lambda _r, c, _s: _only_gone(c), "TOPIC_DELETED", "proof", _tell_gone),
    (lambda _r, c, _s: bool(c.topics_added or c.topics_removed), "SUBSCRIPTION_CHANGED", "proof", _tell_topics),
    (lambda _r, c, _s: c.protocols_before != c.protocols_after, "ASSIGNOR_CHANGED", "proof", _tell_protocols),
    (lambda _r, c, _s: bool(c.partitions_changed), "PARTITIONS_CHANGED", "proof", _tell_partitions),
    (lambda _r, c, _s: c.racks is not None, "RACK_CHANGED", "proof", _tell_rack),
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
        clause = f"{_who(this)}{others} was removed by {actor(by)}"
        return Finding("ADMIN_REMOVED", "proof", clause, (*evidence, Evidence("removed_by", actor(by))))
    who = this.trigger.who
    gone = next((d for d in this.disconnected if who is not None and d.who.member_id == who.member_id), None)
    stopped = find_stop(_who(this), this.trigger.vitals, this.trigger.reason, this.opened_at_ms, gone)
    if stopped is not None:
        return Finding(stopped.cause, stopped.confidence, stopped.clause, (*evidence, *stopped.evidence))
    reason = f' ("{printable(this.trigger.reason)}")' if this.trigger.reason else ""
    return Finding("MEMBER_LEFT", "proof", f"{_who(this)}{others} left the group{reason}", (*evidence, *hung_up(gone)))


def hung_up(gone: MemberDisconnected | None) -> tuple[Evidence, ...]:
    """Return the fact that the connection of a member that left has closed, if it is known."""
    if gone is None:
        return ()
    return (Evidence("connection_closed", f"{seconds(gone.after_ms)} after it left", gone.at_ms),)


def find_stop(
    who: str, vitals: Vitals | None, reason: str | None, left_at_ms: int, gone: MemberDisconnected | None
) -> Finding | None:
    """Find out whether a member that left did so as its user no longer polled; None: it left in order, as far as is
    known.

    Its own words prove it. Without any it is concluded from commits: nothing moved on for as long as the user may take,
    though records waited, and the connection stayed open. A client whose limit is its session timeout does not say what
    its limit is (aiokafka), and none that hung up right after it left had stopped.
    """
    if stopped_polling(reason):
        return Finding(
            "MAX_POLL_EXCEEDED", "high", f"{who} left because it did not poll within max.poll.interval.ms", ()
        )
    if vitals is None or closes_in_order(reason) or vitals.connection_closed_at_ms is not None:
        return None
    idle_ms = _idle_ms(vitals, left_at_ms)
    tells_limit = vitals.rebalance_timeout_ms != vitals.session_timeout_ms
    closed_at_once = gone is not None and gone.after_ms <= HANG_UP_MS
    if idle_ms is None or vitals.lag == 0 or not tells_limit or closed_at_once:
        return None
    waiting = f", while {count(vitals.lag, 'record')} waited" if vitals.lag else ""
    clause = (
        f"{who} left while its connection stayed open, after {seconds(idle_ms)} without commit progress{waiting}"
        f" (its limit is {limit(vitals.rebalance_timeout_ms)} after a poll)"
    )
    evidence = [
        Evidence("last_commit_progress", f"{seconds(idle_ms)} before", vitals.last_progress_ms),
        Evidence("longest_gap", f"{seconds(vitals.longest_gap_ms)} between two of its requests"),
    ]
    if vitals.lag is not None:
        evidence.append(Evidence("lag", f"{count(vitals.lag, 'record')} in what it had"))
    return Finding("MAX_POLL_EXCEEDED", "high" if vitals.lag else "medium", clause, tuple(evidence))


def _idle_ms(vitals: Vitals, left_at_ms: int) -> int | None:
    """Return how long the member had committed nothing new, if that is so long that it cannot have polled in time."""
    if vitals.last_progress_ms is None:
        return None
    idle_ms = left_at_ms - vitals.last_progress_ms
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
    if vitals.stalled_ms:
        evidence.append(Evidence("broker_stalled", f"for {seconds(vitals.stalled_ms)} of it", vitals.stalled_at_ms))
        if _is_ours(vitals, silent_ms):
            clause = (
                f"the broker stood still for {seconds(vitals.stalled_ms)}, and found the session of member"
                f" {name_and_place(who)} ended, which it had not been able to hear"
            )
            heard = silent_ms - vitals.stalled_ms <= max(vitals.longest_gap_ms, vitals.session_timeout_ms // 3)
            return Finding("BROKER_STALL", "proof" if heard else "high", clause, tuple(evidence))
        confidence = "medium"
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


def _is_ours(vitals: Vitals, silent_ms: int) -> bool:
    """Tell whether a session ended as the broker stood still for about a heartbeat or more: without that time the
    member was not silent for too long, nor had it hung up before."""
    closed_at_ms, stalled_at_ms = vitals.connection_closed_at_ms, vitals.stalled_at_ms or 0
    if closed_at_ms is not None and closed_at_ms < stalled_at_ms:
        return False
    in_time = silent_ms - vitals.stalled_ms < vitals.session_timeout_ms
    return in_time and vitals.stalled_ms * 4 >= vitals.session_timeout_ms


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
