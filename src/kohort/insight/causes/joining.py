"""Members that join: new, again after their removal, or the first of a group."""

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
from kohort.insight.observed.departures import PUT_OUT
from kohort.insight.observed.generations import SeenRebalance
from kohort.insight.rebalances import REMEMBERED_MS, Rebalance, stopped_polling

JOINING: Final = (
    CauseEntry(
        code="GROUP_FORMING",
        sentence="The group was empty, and somebody came.",
        proof="the first JoinGroup, or heartbeat with epoch 0, while the group had no members",
        look_alikes=(("NEW_MEMBER", "there were members already"),),
        kafka_log="Preparing to rebalance group ... with old generation ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="NEW_MEMBER",
        sentence="A member joined that was not there before.",
        proof="its member id was in no generation before, and no removal or refusal of the same client precedes it",
        look_alikes=(
            ("CLIENT_RESET", "the same client was put out, or refused, within the ten minutes before"),
            ("STATIC_REJOIN", "it has a group.instance.id that the group knows"),
        ),
        kafka_log="Preparing to rebalance group ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="CLIENT_RESET",
        sentence="A client that had been put out, or did not poll in time, joined anew.",
        proof="a removal or a refusal of the same client id at the same address, within ten minutes before it joined",
        look_alikes=(("NEW_MEMBER", "nothing of the same client precedes it"),),
        advice="see the rebalance in which the member was removed",
        kafka_log="Preparing to rebalance group ... (reason: Adding new member ...)",
    ),
    CauseEntry(
        code="STATIC_REJOIN",
        sentence="A static member came back, and the group could not go on as it was.",
        proof="a JoinGroup with its instance id, and another selected protocol, or a rebalance under way",
        look_alikes=(("STATIC_RESTART", "the group went on"),),
        advice="give every member the same list of assignors before restarting one by one",
        kafka_log="Updating metadata for static member ...",
    ),
)


def round_joined(this: Rebalance, find_cause: Callable[[Rebalance], Finding]) -> Finding:
    """Find the cause of a round that a new member opened; ``find_cause`` finds the causes of earlier rounds."""
    begin = round_beginning(this)
    seen = begin.fact("join_group", f"{begin.member} was not in generation {this.from_generation}")
    evidence = (seen, *begin.said, *([_initial_delay(this)] if this.initial else ()))
    if this.returned is not None:
        before = this.returned
        ago = seconds(this.opened_at_ms - before.at_ms)
        what = _why_out(before)
        clause = f"{begin.member} joined anew, {ago} after {name_of(before.who)} was out of the group ({what})"
        chain = [Evidence("removed_before", what, before.at_ms)]
        if this.returned_from is not None:
            earlier = this.returned_from
            which = "open" if earlier.generation is None else str(earlier.generation)
            chain.append(
                Evidence(
                    "chained_to", f"generation {which}: {_cause_before(earlier, find_cause)}", earlier.opened_at_ms
                )
            )
        return Finding("CLIENT_RESET", "high", clause, (*evidence, *chain))
    if this.left_in is not None and not this.initial:
        why = find_cause(this.left_in).cause
        if why in ("MAX_POLL_EXCEEDED", "ADMIN_REMOVED"):
            ago = seconds(this.opened_at_ms - this.left_in.opened_at_ms)
            clause = f"{begin.member} joined anew, {ago} after it was out of the group ({why})"
            out = Evidence("removed_before", why, this.left_in.opened_at_ms)
            return Finding("CLIENT_RESET", "high", clause, (*evidence, out))
    if this.initial:
        newcomers = len({a.who.member_id for a in this.arrivals})
        clause = f"the group was empty and {begin.member} joined"
        clause += f", then {newcomers - 1} more" if newcomers > 1 else ""
        return Finding("GROUP_FORMING", "proof", clause, evidence)
    return Finding("NEW_MEMBER", "proof", f"{begin.member} joined the group", evidence)


def _cause_before(earlier: Rebalance, find_cause: Callable[[Rebalance], Finding]) -> str:
    if earlier.trigger.event == "member_joined" and earlier.returned is not None:
        return "CLIENT_RESET"
    return find_cause(earlier).cause


def _why_out(before: MemberRemoved | RequestFenced) -> str:
    if isinstance(before, RequestFenced):
        return before.error
    return "it did not poll within max.poll.interval.ms" if stopped_polling(before.reason) else before.why


def _initial_delay(this: Rebalance) -> Evidence:
    """Return the initial delay of an empty group, which each further member extends (KIP-134)."""
    if this.join_ms is None:
        words = f"waits {limit(this.timeout_ms)} for more to come, and longer if some do"
    else:
        prolonged = f" ({limit(this.timeout_ms)}, and longer since some came)" if len(this.arrivals) > 1 else ""
        words = f"waited {seconds(this.join_ms)} for more to come{prolonged}"
    return Evidence("initial_delay", words, this.opened_at_ms)


def static_replaced(this: Rebalance) -> Finding:
    begin, change = round_beginning(this), this.trigger.change or Change()
    clause = f"{begin.member} came back with its instance id, and the group could not go on as it was"
    fact = f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}"
    return Finding("STATIC_REJOIN", "proof", clause, (begin.fact("protocols", printable(fact)),))


def raise_joined(this: EpochRebalance, raised: EpochRaised, find_cause: RaiseFinder) -> Finding:
    """Find the cause of an epoch that a new member raised; ``find_cause`` finds the causes of earlier epochs."""
    begin = raise_beginning(this, raised)
    topics = ", ".join(printable(topic) for topic in begin.added)
    subscribing = f", subscribing to {topics}" if topics else ""
    fact = begin.fact("heartbeat", f"{begin.member} came with epoch 0{subscribing}")
    before = this.removed_before
    if raised is this.raises[0] and before is not None and raised.at_ms - before.at_ms <= REMEMBERED_MS:
        why = find_cause(this.removed_from or this, before).cause
        anew = _joined_anew(begin, raised, before, why, fact)
        if anew is not None:
            return anew
    if raised.members == 1:
        return Finding("GROUP_FORMING", "proof", f"the group was empty and {begin.member} joined", (fact,))
    return Finding("NEW_MEMBER", "proof", f"{begin.member} joined the group", (fact,))


RaiseFinder = Callable[[EpochRebalance, EpochRaised], Finding]


def _joined_anew(
    begin: Beginning, raised: EpochRaised, before: EpochRaised, why: str, fact: Evidence
) -> Finding | None:
    ago = seconds(raised.at_ms - before.at_ms)
    chain = Evidence("chained_to", f"epoch {before.epoch}", before.at_ms)
    if before.cause.event != "member_gone":
        if before.cause.event == "member_left" and why not in PUT_OUT:
            return None
        out = why if before.cause.event == "member_left" else before.cause.event
        clause = f"{begin.member} joined anew, {ago} after it was put out of the group ({out})"
        ids = {who.member_id for who in (before.cause.who, raised.cause.who) if who is not None}
        removed = Evidence("removed_before", out, before.at_ms)
        return Finding("CLIENT_RESET", "proof" if len(ids) == 1 else "high", clause, (fact, removed, chain))
    gone = Evidence("gone_before", f"by {why}", before.at_ms)
    if why in PUT_OUT:
        clause = f"{begin.member} joined anew, {ago} after it was out ({why})"
        return Finding("CLIENT_RESET", "medium", clause, (fact, gone, chain))
    if raised.members == 1:
        return None
    clause = f"{begin.member} joined the group again, {ago} after it was out"
    return Finding("NEW_MEMBER", "medium", clause, (fact, gone))


def seen_forming(this: SeenRebalance) -> Finding:
    who = this.after.members[0].who if this.after.members else None
    size = len(this.after.members)
    facts = [this.fact("was_empty", f"generation {this.after.generation - 1 - this.not_written} had no members")]
    facts += [this.fact("joined", name_and_place(m.who)) for m in this.after.members[:3]]
    more = f" and {count(size - 1, 'other')}" if size > 1 else ""
    joined = f"member {name_and_place(who)}{more}" if who is not None else "nobody"
    return Finding("GROUP_FORMING", "high", f"the group was empty and {joined} joined", tuple(facts))


def seen_newcomers(this: SeenRebalance) -> list[Finding]:
    if not this.new or _is_return(this):
        return []
    who = this.new[0].who
    facts = [this.fact("joined", f"{name_and_place(m.who)} was not in the generation before") for m in this.new[:3]]
    others = f" and {count(len(this.new) - 1, 'other')}" if len(this.new) > 1 else ""
    confidence: Confidence = "high"
    if this.returned is not None:
        gone, cause, at_ms = this.returned
        ago = seconds(this.after.at_ms - at_ms)
        facts.append(Evidence("gone_before", f"{name_of(gone)}, by {cause}", at_ms))
        facts.append(Evidence("unknown", "whether the process was restarted, which looks the same from outside"))
        if len(this.new) == 1 and cause in PUT_OUT:
            clause = f"member {name_and_place(who)} joined anew, {ago} after {name_of(gone)} was out ({cause})"
            return [Finding("CLIENT_RESET", "medium", clause, tuple(facts))]
        confidence = "medium"
    return [Finding("NEW_MEMBER", confidence, f"member {name_and_place(who)}{others} joined the group", tuple(facts))]


def _is_return(this: SeenRebalance) -> bool:
    """Tell whether all new members are clients of departed ones."""
    gone = {(m.who.client_id, m.who.client_host) for m in this.gone}
    return bool(gone) and all((m.who.client_id, m.who.client_host) in gone for m in this.new)


def seen_first(this: SeenRebalance) -> Finding:
    size = count(len(this.after.members), "member")
    if this.after.generation == 1:
        fact = this.fact("first_generation", f"{size}; a group begins with generation 1")
        return Finding("GROUP_FORMING", "high", f"the group was new and {size} joined", (fact,))
    fact = this.fact("first_seen", f"{size}; generations before this one are not in the log any more, or not seen")
    clause = f"it is the first that was seen ({size}), so that nothing tells why it came"
    return Finding("UNEXPLAINED", "low", clause, (fact,))


def seen_restarts(this: SeenRebalance) -> list[Finding]:
    found = []
    for before, after in this.restarted:
        value = f"{name_of(after.who)}: {printable(before.who.member_id)} became {printable(after.who.member_id)}"
        clause = f"static member {name_and_place(after.who)} was restarted: it has its instance id and a new member id"
        found.append(Finding("STATIC_RESTART", "medium", clause, (this.fact("new_member_id", value),)))
    return found


def removed_and_back(this: SeenRebalance, restarted: Finding) -> Finding:
    """Return what else changes the id of a static member: a restart alone does not rebalance the group."""
    who = this.restarted[0][1].who
    clause = (
        f"static member {name_and_place(who)} has a new member id, and the group rebalanced, which a restart alone "
        "does not make it do: it was probably removed, and came back"
    )
    unseen = Evidence("unknown", "whether it was restarted while the group rebalanced for another cause")
    return Finding("ADMIN_REMOVED", "low", clause, (*restarted.evidence, unseen))
