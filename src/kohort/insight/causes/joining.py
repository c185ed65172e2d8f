"""Rebalances caused by joins: new members, rejoins after a removal, first members of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.journal import Change, EpochRaised, MemberRemoved, RequestFenced
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import (
    Beginning,
    CauseEntry,
    Confidence,
    Evidence,
    Finding,
    raise_beginning,
    round_beginning,
)
from kohort.insight.names import count, limit, name_and_place, name_of, printable, seconds
from kohort.insight.observed.departures import REMOVALS
from kohort.insight.observed.generations import SeenRebalance
from kohort.insight.rebalances import RECENT_MS, Rebalance, stopped_polling

_ADDED: Final = "Preparing to rebalance group ... (reason: Adding new member ...)"

JOINING: Final = (
    CauseEntry(
        code="GROUP_FORMING",
        sentence="The first members joined an empty group.",
        proof="the first JoinGroup, or heartbeat with epoch 0, while the group had no members",
        look_alikes=(("NEW_MEMBER", "the group already had members"),),
        kafka_log="Preparing to rebalance group ... with old generation ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="NEW_MEMBER",
        sentence="A new member joined.",
        proof="the member id is new, and no removal or rejection of the same client precedes the join",
        look_alikes=(
            ("CLIENT_RESET", "the same client was removed or rejected within the previous ten minutes"),
            ("STATIC_REJOIN", "the group already had a member with its group.instance.id"),
        ),
        kafka_log=_ADDED,
    ),
    CauseEntry(
        code="CLIENT_RESET",
        sentence="A client rejoined after its removal or a missed poll.",
        proof="a removal or rejection of the same client id and address within ten minutes before the join",
        look_alikes=(("NEW_MEMBER", "no removal or rejection of the same client precedes the join"),),
        advice="see the rebalance that removed the member",
        kafka_log=_ADDED,
    ),
    CauseEntry(
        code="STATIC_REJOIN",
        sentence="A static member returned, but the group had to start a new generation.",
        proof="a JoinGroup with the member's instance id, before the assignment of a rebalance or with other assignors",
        look_alikes=(
            ("STATIC_RESTART", "the group kept its generation"),
            ("ASSIGNOR_CHANGED", "the member returned with other assignors: the change costs the rebalance"),
        ),
        advice="give every member the same list of assignors before a rolling restart",
        kafka_log="Updating metadata for static member ...",
    ),
)


def round_joined(rebalance: Rebalance, find_cause: Callable[[Rebalance], Finding]) -> Finding:
    """Explain a rebalance that a join triggered; ``find_cause`` explains an earlier removal of the joining member."""
    begin = round_beginning(rebalance)
    seen = begin.fact("join_group", f"{begin.member_text} was not in generation {rebalance.from_generation}")
    evidence = (seen, *begin.reason_facts, *([_initial_delay(rebalance)] if rebalance.initial else ()))
    if rebalance.returned is not None:
        before = rebalance.returned
        ago = seconds(rebalance.opened_at_ms - before.at_ms)
        what = _why_out(before)
        clause = (
            f"{begin.member_text} rejoined as a new member, {ago} after {name_of(before.member)} was removed ({what})"
        )
        chain = [Evidence("removed_before", what, before.at_ms)]
        if rebalance.returned_from is not None:
            earlier = rebalance.returned_from
            which = "open" if earlier.generation is None else str(earlier.generation)
            chain.append(
                Evidence(
                    "chained_to", f"generation {which}: {_cause_before(earlier, find_cause)}", earlier.opened_at_ms
                )
            )
        return Finding("CLIENT_RESET", "high", clause, (*evidence, *chain))
    if rebalance.left_in is not None and not rebalance.initial:
        why = find_cause(rebalance.left_in).cause
        if why in ("MAX_POLL_EXCEEDED", "ADMIN_REMOVED"):
            ago = seconds(rebalance.opened_at_ms - rebalance.left_in.opened_at_ms)
            clause = f"{begin.member_text} rejoined as a new member, {ago} after it left or was removed ({why})"
            out = Evidence("removed_before", why, rebalance.left_in.opened_at_ms)
            return Finding("CLIENT_RESET", "high", clause, (*evidence, out))
    if rebalance.initial:
        newcomers = len({a.member.member_id for a in rebalance.arrivals})
        clause = f"the group was empty and {begin.member_text} joined"
        clause += f", then {newcomers - 1} more" if newcomers > 1 else ""
        return Finding("GROUP_FORMING", "proof", clause, evidence)
    return Finding("NEW_MEMBER", "proof", f"{begin.member_text} joined the group", evidence)


def _cause_before(earlier: Rebalance, find_cause: Callable[[Rebalance], Finding]) -> str:
    if earlier.trigger.event == "member_joined" and earlier.returned is not None:
        return "CLIENT_RESET"
    return find_cause(earlier).cause


def _why_out(before: MemberRemoved | RequestFenced) -> str:
    if isinstance(before, RequestFenced):
        return before.error
    return "it did not poll within max.poll.interval.ms" if stopped_polling(before.reason) else before.why


def _initial_delay(rebalance: Rebalance) -> Evidence:
    """Return evidence of an empty group's initial rebalance delay; each further join extends the delay (KIP-134)."""
    if rebalance.join_ms is None:
        words = f"waits {limit(rebalance.timeout_ms)} for more members, and longer if more members join"
    else:
        prolonged = (
            f" ({limit(rebalance.timeout_ms)}, extended because more members joined)"
            if len(rebalance.arrivals) > 1
            else ""
        )
        words = f"waited {seconds(rebalance.join_ms)} for more members{prolonged}"
    return Evidence("initial_delay", words, rebalance.opened_at_ms)


def static_replaced(rebalance: Rebalance) -> Finding:
    begin, change = round_beginning(rebalance), rebalance.trigger.change or Change()
    if change.protocols_before == change.protocols_after:
        clause = f"{begin.member_text} returned with its instance id before the previous rebalance had its assignment"
        return Finding("STATIC_REJOIN", "proof", clause, (begin.fact("static_replaced", begin.member_text),))
    fact = printable(f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}")
    clause = f"{begin.member_text} returned with its instance id and other assignors: {fact}"
    return Finding("ASSIGNOR_CHANGED", "proof", clause, (begin.fact("protocols", fact),), ("STATIC_REJOIN",))


def raise_joined(rebalance: EpochRebalance, raised: EpochRaised, find_cause: RaiseFinder) -> Finding:
    """Explain a new group epoch after a join; ``find_cause`` explains an earlier removal of the joining member."""
    begin = raise_beginning(rebalance, raised)
    topics = ", ".join(printable(topic) for topic in begin.added)
    subscribing = f", subscribing to {topics}" if topics else ""
    fact = begin.fact("heartbeat", f"{begin.member_text} joined with epoch 0{subscribing}")
    before = rebalance.removed_before
    if raised is rebalance.raises[0] and before is not None and raised.at_ms - before.at_ms <= RECENT_MS:
        why = find_cause(rebalance.removed_from or rebalance, before).cause
        anew = _joined_anew(begin, raised, before, why, fact)
        if anew is not None:
            return anew
    if raised.members == 1:
        return Finding("GROUP_FORMING", "proof", f"the group was empty and {begin.member_text} joined", (fact,))
    return Finding("NEW_MEMBER", "proof", f"{begin.member_text} joined the group", (fact,))


RaiseFinder = Callable[[EpochRebalance, EpochRaised], Finding]


def _joined_anew(
    begin: Beginning, raised: EpochRaised, before: EpochRaised, why: str, fact: Evidence
) -> Finding | None:
    ago = seconds(raised.at_ms - before.at_ms)
    chain = Evidence("chained_to", f"epoch {before.epoch}", before.at_ms)
    if before.cause.event != "member_departed":
        if before.cause.event == "member_left" and why not in REMOVALS:
            return None
        out = why if before.cause.event == "member_left" else before.cause.event
        clause = f"{begin.member_text} rejoined as a new member, {ago} after its removal ({out})"
        ids = {member.member_id for member in (before.cause.member, raised.cause.member) if member is not None}
        removed = Evidence("removed_before", out, before.at_ms)
        return Finding("CLIENT_RESET", "proof" if len(ids) == 1 else "high", clause, (fact, removed, chain))
    gone = Evidence("departed_before", f"cause: {why}", before.at_ms)
    if why in REMOVALS:
        clause = f"{begin.member_text} rejoined as a new member, {ago} after its removal ({why})"
        return Finding("CLIENT_RESET", "medium", clause, (fact, gone, chain))
    if raised.members == 1:
        return None
    clause = f"{begin.member_text} rejoined the group, {ago} after its departure"
    return Finding("NEW_MEMBER", "medium", clause, (fact, gone))


def seen_forming(rebalance: SeenRebalance) -> Finding:
    member = rebalance.after.members[0].member if rebalance.after.members else None
    size = len(rebalance.after.members)
    facts = [
        rebalance.fact(
            "was_empty", f"generation {rebalance.after.generation - 1 - rebalance.not_written} had no members"
        )
    ]
    facts += [rebalance.fact("joined", name_and_place(m.member)) for m in rebalance.after.members[:3]]
    more = f" and {count(size - 1, 'other')}" if size > 1 else ""
    joined = f"member {name_and_place(member)}{more}" if member is not None else "no member"
    return Finding("GROUP_FORMING", "high", f"the group was empty and {joined} joined", tuple(facts))


def seen_newcomers(rebalance: SeenRebalance) -> list[Finding]:
    if not rebalance.new or _is_return(rebalance):
        return []
    member = rebalance.new[0].member
    facts = [
        rebalance.fact("joined", f"{name_and_place(m.member)} was not in the previous generation")
        for m in rebalance.new[:3]
    ]
    others = f" and {count(len(rebalance.new) - 1, 'other')}" if len(rebalance.new) > 1 else ""
    confidence: Confidence = "high"
    if rebalance.returned is not None:
        gone, cause, at_ms = rebalance.returned
        ago = seconds(rebalance.after.at_ms - at_ms)
        facts.append(Evidence("departed_before", f"{name_of(gone)}, cause: {cause}", at_ms))
        facts.append(Evidence("unknown", "possibly a restart of the process, which looks the same to a watcher"))
        if len(rebalance.new) == 1 and cause in REMOVALS:
            clause = f"member {name_and_place(member)} rejoined, {ago} after {name_of(gone)} was removed ({cause})"
            return [Finding("CLIENT_RESET", "medium", clause, tuple(facts))]
        confidence = "medium"
    return [
        Finding("NEW_MEMBER", confidence, f"member {name_and_place(member)}{others} joined the group", tuple(facts))
    ]


def _is_return(rebalance: SeenRebalance) -> bool:
    departed = {m.member.client for m in rebalance.missing}
    return bool(departed) and all(m.member.client in departed for m in rebalance.new)


def seen_first(rebalance: SeenRebalance) -> Finding:
    size = count(len(rebalance.after.members), "member")
    if rebalance.after.generation == 1:
        fact = rebalance.fact("first_generation", f"{size}; the first generation of a group is 1")
        return Finding("GROUP_FORMING", "high", f"the group was new and {size} joined", (fact,))
    fact = rebalance.fact("first_seen", f"{size}; earlier generations are no longer in the log, or were not observed")
    clause = f"it is the first observed generation ({size}), so its cause is unknown"
    return Finding("UNEXPLAINED", "low", clause, (fact,))


def seen_restarts(rebalance: SeenRebalance) -> list[Finding]:
    found = []
    for before, after in rebalance.restarted:
        value = (
            f"{name_of(after.member)}: {printable(before.member.member_id)} became {printable(after.member.member_id)}"
        )
        clause = (
            f"static member {name_and_place(after.member)} restarted: it kept its instance id and has a new member id"
        )
        found.append(Finding("STATIC_RESTART", "medium", clause, (rebalance.fact("new_member_id", value),)))
    return found


def removed_and_back(rebalance: SeenRebalance, restarted: Finding) -> Finding:
    """Explain the new member id of a static member as a removal and a rejoin: a restart alone causes no rebalance."""
    member = rebalance.restarted[0][1].member
    clause = (
        f"static member {name_and_place(member)} has a new member id, and the group rebalanced, unlike "
        "after a restart: it was probably removed, and rejoined"
    )
    unseen = Evidence("unknown", "possibly a restart during a rebalance with another cause")
    return Finding("ADMIN_REMOVED", "low", clause, (*restarted.evidence, unseen))
