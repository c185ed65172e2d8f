"""The causes of rounds of classic groups: how each is told from the others by the evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kohort.coordinator.journal import Change, MemberRemoved, RequestFenced, TriggerEvent, Vitals, Who
from kohort.insight.causes import Confidence, Evidence, Finding, find_silence, find_stop, hung_up
from kohort.insight.names import actor, count, limit, name_and_place, name_of, printable, seconds
from kohort.insight.rebalances import Rebalance, stopped_polling


def find_cause(this: Rebalance) -> Finding:
    """Return the cause of a rebalance, from what opened its round."""
    return _after_failover(this) or _since_failover(this) or FINDERS[this.trigger.event](this)


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


def _since_failover(this: Rebalance) -> Finding | None:
    """Return the cause of a rebalance that a client began which had just lost its coordinator: it joined again, or
    anew, and nothing else differs."""
    loaded = this.loaded_lately
    if loaded is None:
        return None
    since = seconds(this.opened_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    if this.trigger.event == "member_rejoined":
        said, change = (this.trigger.reason or "").lower(), _change(this)
        applies = [cause for told, cause, *_ in REJOINS if told(this, change, said)]
        if (applies and (applies[0] != "PARTITIONS_CHANGED" or change.partitions_changed)) or _is_users(said):
            return None
        clause = f"{_who(this)} joined again {since} after its coordinator had begun anew, and nothing else differs"
        return Finding("COORDINATOR_FAILOVER", "high", clause, (fact, *_said(this)))
    who = this.trigger.who
    if this.trigger.event != "member_joined" or who is None or this.returned is not None or not who.client_id:
        return None
    if (who.client_id, who.client_host) not in {(known.client_id, known.client_host) for known in loaded.members}:
        return None
    known = Evidence("known_client", f"a member of client {printable(who.client_id)} was read from the log")
    clause = f"{_who(this)} joined anew {since} after its coordinator had begun anew"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (fact, known, *_said(this)))


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
    if this.left_in is not None and not this.initial:
        why = find_cause(this.left_in)
        if why.cause in ("MAX_POLL_EXCEEDED", "ADMIN_REMOVED"):
            ago = seconds(this.opened_at_ms - this.left_in.opened_at_ms)
            clause = f"{_who(this)} joined anew, {ago} after it was out of the group ({why.cause})"
            out = Evidence("removed_before", why.cause, this.left_in.opened_at_ms)
            return Finding("CLIENT_RESET", "high", clause, (*evidence, out))
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


def _change(this: Rebalance) -> Change:
    """Return what differs of a member that joined again. Of one that was read from the log only the assignor that was
    chosen is known, so that others which it names are nothing new."""
    change = this.trigger.change or Change()
    if this.loaded is not None and {*change.protocols_before} <= {*change.protocols_after}:
        return msgspec.structs.replace(change, protocols_before=change.protocols_after)
    return change


def _rejoined(this: Rebalance) -> Finding:
    change = _change(this)
    said = (this.trigger.reason or "").lower()
    kind = "the leader, " if change.was_leader else ""
    evidence = (Evidence("join_group", f"{kind}{_who(this)} joined again", this.opened_at_ms), *_said(this))
    for applies, cause, confidence, tell in REJOINS:
        if applies(this, change, said):
            clause, fact = tell(this, change)
            return Finding(cause, confidence, clause, (*evidence, Evidence("change", fact, this.opened_at_ms)))
    why = f' ("{printable(this.trigger.reason)}")' if this.trigger.reason else " and gave no reason"
    if _is_users(said):
        return Finding("USER_ENFORCED", "medium", f"{_who(this)} asked for it{why}", evidence)
    if change.was_leader:
        return Finding("LEADER_REJOIN", "low", f"the leader, {_who(this)}, joined again{why}", evidence)
    if change.owned_changed:  # it may come late for a round before, or for topics that it has looked at since
        return Finding(
            "METADATA_CHANGED", "medium", f"{_who(this)} joined again, and owns other partitions{why}", evidence
        )
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


def _tell_found(this: Rebalance, change: Change) -> tuple[str, str]:
    fact = ", ".join(printable(topic) for topic in (*change.topics_added, *change.topics_removed))
    made = "made" if change.topics_added else "deleted"
    return f"{_who(this)} found that topics were {made} ({fact}), as another member had before it", f"{made}: {fact}"


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


def _tell_view(this: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"{_who(this)} joined again as its view of the topics changed, and their partitions are as many as before"
    return clause, "no number of partitions differs: others are looked at since members came or went"


def _tell_followup(this: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"members gave up partitions in generation {this.from_generation} so that others could have them"
    return clause, f"{_who(this)} owns other partitions than before and nothing else changed"


def _tell_user(this: Rebalance, _change: Change) -> tuple[str, str]:
    return f"the application of {_who(this)} asked for it", printable(this.trigger.reason or "")


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
    "partitions were revoked",
    "dial tcp",
    "read tcp",
    "write tcp",
    "connection",
    "eof",
    "timeout",
    "kafka server",
)
"""What is in the reasons that client libraries give by themselves; another reason is the application's."""


_VIEW: Final = "cached metadata has changed"
"""What Java's leader says where it sees other topics, or other numbers of partitions, than when it assigned them."""
USERS_WORDS: Final = ("enforced by user", "from forcerebalance")
"""What client libraries say where the application asked, and gave no reason of its own: Java's and ours; franz-go's."""


REVOKED_WORDS: Final = ("need to revoke", "partitions were revoked", "after revoking what we lost")
"""What clients say that have given up what others are to have: Java's, ours, franz-go's."""


def _gave_up(said: str) -> bool:
    return any(words in said for words in REVOKED_WORDS)


def _is_users(said: str) -> bool:
    """Tell whether a reason, in small letters, is the application's own."""
    return bool(said) and not any(words in said for words in LIBRARY_WORDS)


def _only_made(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_removed or set(change.topics_added) - {*change.topics_made}:
        return False
    return bool(change.topics_made or sizes) and all(not was for was, _ in sizes)


def _found_late(topics: tuple[str, ...], others: tuple[str, ...], this: Rebalance) -> bool:
    """Tell whether all that differs are topics that were made (or deleted) a while before: members find them one by
    one."""
    return bool(topics) and not others and {*topics} <= this.made_lately


def _only_gone(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_added or set(change.topics_removed) - {*change.topics_gone}:
        return False
    return bool(change.topics_gone or sizes) and all(not now for _, now in sizes)


REJOINS: Final[tuple[tuple[Applies, str, Confidence, Tell], ...]] = (
    (lambda _r, c, _s: _only_made(c), "TOPIC_CREATED", "proof", _tell_made),
    (lambda _r, c, _s: _only_gone(c), "TOPIC_DELETED", "proof", _tell_gone),
    (lambda r, c, _s: _found_late(c.topics_added, c.topics_removed, r), "TOPIC_CREATED", "high", _tell_found),
    (lambda r, c, _s: _found_late(c.topics_removed, c.topics_added, r), "TOPIC_DELETED", "high", _tell_found),
    (lambda _r, c, _s: bool(c.topics_added or c.topics_removed), "SUBSCRIPTION_CHANGED", "proof", _tell_topics),
    (lambda _r, c, _s: c.protocols_before != c.protocols_after, "ASSIGNOR_CHANGED", "proof", _tell_protocols),
    (lambda _r, c, _s: bool(c.partitions_changed), "PARTITIONS_CHANGED", "proof", _tell_partitions),
    (lambda _r, c, _s: c.racks is not None, "RACK_CHANGED", "proof", _tell_rack),
    (lambda r, _c, _s: r.parent is not None, "COOPERATIVE_FOLLOWUP", "proof", _tell_followup),
    (lambda _r, c, s: c.owned_changed and _gave_up(s), "COOPERATIVE_FOLLOWUP", "high", _tell_followup),
    (lambda _r, _c, s: any(words in s for words in USERS_WORDS), "USER_ENFORCED", "high", _tell_user),
    (lambda _r, _c, s: "does not match the current subscription" in s, "ASSIGNMENT_MISMATCH", "high", _tell_mismatch),
    (lambda r, _c, s: _VIEW in s and r.grown_before, "PARTITIONS_CHANGED", "high", _tell_partitions),
    (lambda _r, _c, s: _VIEW in s, "LEADER_REJOIN", "medium", _tell_view),
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


def _expired(this: Rebalance) -> Finding:
    vitals, who = this.trigger.vitals, this.trigger.who
    if vitals is None or who is None:  # a journal that the broker did not write so
        return Finding("SESSION_TIMEOUT", "low", f"{_who(this)} was silent until its session ended", ())
    return find_silence_in(this, who, vitals, this.opened_at_ms)


def find_silence_in(this: Rebalance, who: Who, vitals: Vitals, expired_at_ms: int) -> Finding:
    """Find why a member fell silent whose session ended with a rebalance, or during it: of one that was not heard since
    its coordinator took over nothing is known."""
    loaded = this.loaded_lately
    if loaded is None or vitals.last_seen_ms > loaded.at_ms or who.instance_id is not None:
        return find_silence(who, vitals, expired_at_ms, this)
    since = seconds(expired_at_ms - loaded.at_ms)
    fact = Evidence("group_loaded", f"at generation {loaded.generation}, {since} before", loaded.at_ms)
    clause = (
        f"member {name_and_place(who)} was not heard in the {since} since its coordinator had begun anew, and its"
        f" session ended ({limit(vitals.session_timeout_ms)})"
    )
    return Finding("SESSION_TIMEOUT", "low", clause, (fact,))


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
    if this.trigger.who is None:
        clause = "the group became a classic one again, and was loaded before its members had joined it"
    else:
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
