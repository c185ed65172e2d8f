"""Explanations of rebalances: of classic groups, of consumer groups, and of groups that a watcher observes.

A finder returns the cause of an event with its evidence. A ``Story`` describes a rebalance of one protocol; ``explain``
converts each story into a sentence, facts and advice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kohort.coordinator.journal import ClientIdentity, EpochEvent, EpochRaised, RequestFenced, TriggerEvent, Vitals
from kohort.insight.causes import changes, coordination, joining, timeouts
from kohort.insight.causes.leaving import find_left, find_missed_poll
from kohort.insight.causes.silence import expired_without_vitals, find_expiry, find_expiry_in
from kohort.insight.causes.table import advice_for
from kohort.insight.epochs import EpochRebalance, MemberRow
from kohort.insight.evidence import Confidence, Evidence, Finding, raise_beginning, round_beginning
from kohort.insight.names import count, limit, name_and_place, name_of, names_of, partitions_text, seconds, short_id
from kohort.insight.observed.departures import LOST_IN_FAILOVER, find_raised_departure
from kohort.insight.observed.generations import Bounds, SeenRebalance
from kohort.insight.rebalances import Rebalance


@dataclass(frozen=True, slots=True)
class Story:
    """Description of a rebalance of any protocol, from which ``explain`` builds the explanation."""

    head: str
    found: Sequence[Finding]
    clauses: Sequence[str]
    ends: Sequence[str]
    facts: Sequence[Evidence]
    further: Sequence[str] = ()
    """Causes of further triggers (such as expired sessions) during the rebalance."""
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    cause: str
    confidence: Confidence
    sentence: str
    evidence: tuple[Evidence, ...]
    advice: str | None = None
    also: tuple[str, ...] = ()


def explain(rebalance: Rebalance | EpochRebalance | SeenRebalance) -> Explanation:
    """Explain a rebalance by its main cause; the advice covers all its causes."""
    match rebalance:
        case Rebalance():
            story = _round_story(rebalance)
        case EpochRebalance():
            story = _epoch_story(rebalance)
        case SeenRebalance():
            story = _seen_story(rebalance)
    first = story.found[0]
    causes = dict.fromkeys([*(name for one in story.found for name in (one.cause, *one.also)), *story.further])
    advice = dict.fromkeys(text for text in (*map(advice_for, causes), story.advice) if text is not None)
    facts = dict.fromkeys([*(fact for finding in story.found for fact in finding.evidence), *story.facts])
    return Explanation(
        cause=first.cause,
        confidence=first.confidence,
        sentence=f"{story.head}: {'; '.join([*story.clauses, *story.ends])}.",
        evidence=tuple(facts),
        advice="; ".join(advice) or None,
        also=tuple(cause for cause in causes if cause != first.cause),
    )


def _facts_of(phases_ms: dict[str, int]) -> list[Evidence]:
    return [Evidence(f"phase_{name}", seconds(ms)) for name, ms in phases_ms.items()]


def _stale(fenced: Sequence[RequestFenced]) -> list[Evidence]:
    return [Evidence("stale_request", f"{name_of(f.member)} sent {f.api}: {f.error}", f.at_ms) for f in fenced]


def find_cause(rebalance: Rebalance) -> Finding:
    failed_over = coordination.after_failover(rebalance, _find_event) or coordination.since_failover(rebalance)
    return failed_over or _find_event(rebalance)


def _find_event(rebalance: Rebalance) -> Finding:
    return ROUND_FINDERS[rebalance.trigger.event](rebalance)


def _left(rebalance: Rebalance) -> Finding:
    begin = round_beginning(rebalance)
    return find_left(begin, begin.fact("leave_group", f"{begin.member_text} sent LeaveGroup"))


def _expired(rebalance: Rebalance) -> Finding:
    vitals, member = rebalance.trigger.vitals, rebalance.trigger.member
    if vitals is None or member is None:
        return expired_without_vitals(round_beginning(rebalance))
    return find_expiry_in(rebalance, member, vitals, rebalance.opened_at_ms)


ROUND_FINDERS: Final[dict[TriggerEvent, Callable[[Rebalance], Finding]]] = {
    "member_joined": lambda rebalance: joining.round_joined(rebalance, find_cause),
    "member_rejoined": changes.rejoined,
    "member_left": _left,
    "session_expired": _expired,
    "new_member_expired": timeouts.new_member_expired,
    "sync_timeout": timeouts.sync_timeout,
    "static_replaced": joining.static_replaced,
    "over_capacity": coordination.over_capacity,
    "append_failed": coordination.append_failed,
    "downgraded": coordination.downgraded,
}
LOST_MS: Final = 1_000
"""Shortest wait for a member, in ms, that can make its removal the main cause, or that leads to advice."""


def _round_story(rebalance: Rebalance) -> Story:
    """Describe a rebalance of a classic group. A long wait for a removed member is the main cause, not the trigger."""
    opened, waited_for = find_cause(rebalance), _find_costly_removal(rebalance)
    lost = [find_expiry_in(rebalance, r.member, r.vitals, r.at_ms) for r in rebalance.also_expired if r.vitals]
    late = ["BROKER_STALL" if is_stalled(rebalance, r.vitals) else "JOIN_TIMEOUT" for r in rebalance.not_rejoined]
    return Story(
        head=_head(rebalance),
        found=[opened] if waited_for is None else [waited_for, opened],
        clauses=[opened.clause, *(f"meanwhile {finding.clause}" for finding in lost)],
        ends=[_tail(rebalance)],
        facts=_facts_of_the_round(rebalance),
        further=[*(finding.cause for finding in lost), *late],
        advice=_advice_on_wait(rebalance),
    )


def _find_costly_removal(rebalance: Rebalance) -> Finding | None:
    waited = blocker(rebalance)
    if (
        waited is None
        or rebalance.initial
        or rebalance.join_ms is None
        or waited[1] < max(LOST_MS, rebalance.join_ms // 2)
    ):
        return None
    member = waited[0]
    removed = next((r for r in rebalance.removed if r.member.member_id == member.member_id), None)
    if removed is None or removed.vitals is None:
        return None
    if removed.why == "session_expired":
        return find_expiry_in(rebalance, removed.member, removed.vitals, removed.at_ms)
    if removed.why == "left":
        gone = next((d for d in rebalance.disconnected if d.member.member_id == member.member_id), None)
        return find_missed_poll(f"member {name_and_place(member)}", removed.vitals, removed.reason, removed.at_ms, gone)
    if removed.why != "join_timeout":
        return None
    cause = "BROKER_STALL" if is_stalled(rebalance, removed.vitals) else "JOIN_TIMEOUT"
    fact = Evidence(
        "not_rejoined", f"{name_of(member)} did not rejoin within {limit(rebalance.timeout_ms)}", removed.at_ms
    )
    return Finding(cause, "proof", fact.value, (fact,))


ADVICE_ON_WAIT: Final = {
    "dead": "SESSION_TIMEOUT.process_died",
    "silent": "SESSION_TIMEOUT",
    "not_polling": "JOIN_TIMEOUT",
    "slow_to_revoke": "REVOCATION_TIMEOUT",
    "broker_stalled": "BROKER_STALL",
}
"""Key: reason of a member's late JoinGroup; value: cause whose advice applies."""


def _advice_on_wait(rebalance: Rebalance) -> str | None:
    waited = blocker(rebalance)
    if waited is None or rebalance.initial or waited[1] < LOST_MS:
        return None
    cause = ADVICE_ON_WAIT.get(why_late(rebalance, waited[0]) or "")
    return None if cause is None else advice_for(cause)


def is_stalled(rebalance: Rebalance, vitals: Vitals | None) -> bool:
    """Return True if a broker stall delayed the JoinGroup of a member."""
    return vitals is not None and vitals.stalled_ms * 4 >= rebalance.timeout_ms


def why_late(rebalance: Rebalance, member: ClientIdentity) -> str | None:
    """Return why a member delayed the rebalance, or None if unknown.

    ``dead``, ``silent``, ``not_polling``, ``slow_to_revoke`` or ``broker_stalled``. Clients rejoin when the application
    polls. A late member with heartbeats did not poll; a late member with commits polled, but was slow to revoke.
    """
    gone = next((r for r in rebalance.removed if r.member.member_id == member.member_id), None)
    arrived = next((a for a in rebalance.arrivals if a.member.member_id == member.member_id), None)
    vitals = gone.vitals if gone is not None else arrived.vitals if arrived is not None else None
    if vitals is None:
        return None
    if is_stalled(rebalance, vitals):
        return "broker_stalled"
    if vitals.connection_closed_at_ms is not None:
        return "dead"
    if vitals.last_commit_ms is not None and vitals.last_commit_ms > rebalance.opened_at_ms:
        return "slow_to_revoke"
    return "not_polling" if vitals.last_seen_ms > rebalance.opened_at_ms else "silent"


def blocker(rebalance: Rebalance) -> tuple[ClientIdentity, int] | None:
    """Return the member that joined last or never, and the time in ms for which all other members waited for it."""
    if rebalance.not_rejoined and rebalance.join_ms is not None:
        last_ms = max((a.after_ms for a in rebalance.arrivals), default=0)
        return rebalance.not_rejoined[0].member, rebalance.join_ms - last_ms
    if rebalance.released_by is not None:
        removed, waited_ms = rebalance.released_by
        return removed.member, waited_ms
    return rebalance.held_up


def _head(rebalance: Rebalance) -> str:
    if rebalance.generation is None:
        came = len({a.member.member_id for a in rebalance.arrivals})
        return f"After generation {rebalance.from_generation} ({count(came, 'member')} joined so far)"
    members = f"{count(len(rebalance.members_after), 'member')}{' left' if not rebalance.members_after else ''}"
    moved = f", {count(len(rebalance.moves), 'partition')} moved" if rebalance.assigned_at_ms is not None else ""
    return f"Generation {rebalance.generation} ({members}{moved})"


def _tail(rebalance: Rebalance) -> str:
    took_ms = rebalance.took_ms
    if rebalance.end == "interrupted":
        return "the coordinator was lost during the rebalance"
    if rebalance.end == "dropped":
        return f"the rebalance failed, since it could not be persisted ({rebalance.error})"
    if rebalance.end == "superseded":
        return "another rebalance began before this one ended"
    if took_ms is None:
        return f"the rebalance is open for up to {limit(rebalance.timeout_ms)}"
    text = f"the rebalance took {seconds(took_ms)}"
    if rebalance.end == "assigning":
        return f"{text} so far, without the leader's assignment"
    return text + _waiting(rebalance)


def _waiting(rebalance: Rebalance) -> str:
    gone = rebalance.not_rejoined
    if gone:
        names = names_of([r.member for r in gone])
        return f", of which {seconds(rebalance.join_ms or 0)} waiting for {names}, which did not rejoin in time"
    if rebalance.initial:
        return f", of which {seconds(rebalance.join_ms or 0)} waiting for more members"
    if rebalance.released_by is not None:
        by, waited_ms = rebalance.released_by
        return f", of which {seconds(waited_ms)} waiting for {name_of(by.member)} until its removal ({by.why})"
    if rebalance.held_up is not None:
        member, waited_ms = rebalance.held_up
        return f", of which {seconds(waited_ms)} waiting for {name_of(member)}"
    return ""


def _facts_of_the_round(rebalance: Rebalance) -> list[Evidence]:
    facts = _facts_of(rebalance.phases_ms)
    facts += [
        Evidence("not_rejoined", f"{name_of(r.member)} did not rejoin within {limit(rebalance.timeout_ms)}", r.at_ms)
        for r in rebalance.not_rejoined
    ]
    also = [r for r in rebalance.removed if r.why != "join_timeout" and r.member != rebalance.trigger.member]
    facts += [Evidence("also_removed", f"{name_of(r.member)}: {r.why}", r.at_ms) for r in also]
    if rebalance.held_up is not None:
        member, waited_ms = rebalance.held_up
        facts.append(Evidence("last_to_join", f"{name_of(member)}, {seconds(waited_ms)} after the others"))
    return facts + _stale(rebalance.fenced)


def find_cause_of_raise(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return the cause of a new group epoch; a cause that a watcher inferred never has the confidence ``proof``."""
    is_conversion = raised is rebalance.raises[0] and rebalance.converted is not None
    found = RAISE_FINDERS["converted" if is_conversion else raised.cause.event](rebalance, raised)
    if not raised.observed or found.confidence != "proof":
        return found
    return replace(found, confidence="high")


def _raise_left(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    return find_left(begin, begin.fact("left", f"{begin.member_text} sent a leave"))


def _raise_expired(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    member, vitals = raised.cause.member, raised.cause.vitals
    if member is None or vitals is None:
        return expired_without_vitals(raise_beginning(rebalance, raised))
    return find_expiry(member, vitals, raised.at_ms, rebalance)


RAISE_FINDERS: Final[dict[EpochEvent, Callable[[EpochRebalance, EpochRaised], Finding]]] = {
    "member_joined": lambda rebalance, raised: joining.raise_joined(rebalance, raised, find_cause_of_raise),
    "member_left": _raise_left,
    "session_expired": _raise_expired,
    "revocation_timeout": timeouts.revocation_timeout,
    "rejoin_timeout": timeouts.rejoin_timeout,
    "resync_timeout": timeouts.resync_timeout,
    "subscription_changed": changes.subscription_changed,
    "regex_resolved": changes.regex_resolved,
    "assignor_changed": changes.assignor_changed,
    "topics_changed": changes.topics_changed,
    "converted": coordination.converted,
    "member_departed": find_raised_departure,
    "unexplained": coordination.epoch_unexplained,
}


SLOW_REVOCATION_MS: Final = 10_000
"""Shortest revocation in ms that leads to advice: two default heartbeat intervals of a consumer group."""


def _epoch_story(rebalance: EpochRebalance) -> Story:
    found = [find_cause_of_raise(rebalance, raised) for raised in rebalance.raises]
    slow = rebalance.held_up
    is_slow = slow is not None and (slow.revoked_after_ms or 0) >= SLOW_REVOCATION_MS
    return Story(
        head=_epoch_head(rebalance),
        found=found,
        clauses=[found[0].clause, *(f"then {other.clause}" for other in found[1:])],
        ends=[_epoch_tail(rebalance), *_unowned(rebalance)],
        facts=_facts_of_the_epoch(rebalance),
        advice=advice_for("REVOCATION_TIMEOUT") if is_slow else None,
    )


def _epoch_head(rebalance: EpochRebalance) -> str:
    members = count(rebalance.raises[-1].members, "member")
    moved = f", {count(len(rebalance.moves), 'partition')} to move" if rebalance.target is not None else ""
    return f"Epoch {rebalance.epoch} ({members}{moved})"


def _epoch_tail(rebalance: EpochRebalance) -> str:
    if rebalance.end == "stable":
        return f"the group was stable after {seconds(rebalance.took_ms or 0)}{_revoking(rebalance)}"
    if rebalance.end == "empty":
        return "the group is empty"
    if rebalance.end == "superseded":
        return f"the epoch was raised again before all members reached the epoch{_still(rebalance)}"
    if rebalance.end == "interrupted":
        return f"the coordinator was lost before all members reached the epoch{_still(rebalance)}"
    if rebalance.end == "converted":
        return "the group continues in the classic protocol"
    if rebalance.target is None:
        return "the target assignment is not computed yet"
    there = sum(row.state == "stable" and row.epoch == rebalance.epoch for row in rebalance.members)
    return f"{there} of {count(rebalance.target.members, 'member')} reached the epoch{_still(rebalance)}"


def _revoking(rebalance: EpochRebalance) -> str:
    slow = rebalance.held_up
    if slow is None:
        return ""
    what = partitions_text((topic, p) for topic, of in slow.revoked.items() for p in of)
    return f", of which {seconds(slow.revoked_after_ms or 0)} waiting for {name_of(slow.member)} to revoke {what}"


def _still(rebalance: EpochRebalance) -> str:
    if rebalance.unrevoked:
        texts = [
            f"{name_of(row.member)} has not revoked {partitions_text(row.revoking)}" for row in rebalance.unrevoked[:3]
        ]
        rest = len(rebalance.unrevoked) - len(texts)
        return f": {', '.join(texts)}" + (f" and {count(rest, 'other')} have not" if rest else "")
    behind = [row for row in rebalance.members if rebalance.target is not None and row.epoch != rebalance.target.epoch]
    if not behind:
        return ""
    return f": {names_of([row.member for row in behind])} must send a heartbeat"


def _unowned(rebalance: EpochRebalance) -> list[str]:
    texts = []
    longest = rebalance.longest_unowned
    if longest is not None and longest.took_ms:
        ended = sum(unowned.until_ms is not None for unowned in rebalance.unowned)
        total = f", the longest of {ended} ({rebalance.unowned_ms / 1000:.1f} partition-seconds)" if ended > 1 else ""
        place = partitions_text([(longest.topic, longest.partition)])
        texts.append(f"{place} had no owner for {seconds(longest.took_ms)}{total}")
    still = [(unowned.topic, unowned.partition) for unowned in rebalance.unowned if unowned.until_ms is None]
    if still and rebalance.end not in ("empty", "converted"):
        texts.append(f"{partitions_text(still)} {'has' if len(still) == 1 else 'have'} no owner yet")
    return texts


def _facts_of_the_epoch(rebalance: EpochRebalance) -> list[Evidence]:
    names = {member_id: name_of(member) for member_id, member in members_in(rebalance).items()}
    facts = _facts_of(rebalance.phases_ms)
    if rebalance.target is not None:
        by = f", by {rebalance.target.assignor}" if rebalance.target.assignor else ""
        value = f"for epoch {rebalance.target.epoch}{by}"
        facts.append(Evidence("target_computed", value, rebalance.target.at_ms))
    for row in rebalance.unrevoked:
        value = f"{name_of(row.member)} has not revoked {partitions_text(row.revoking)}"
        facts.append(Evidence("not_revoked", value, row.revoking_since_ms))
    facts += [fact for row in rebalance.members if (fact := _waits(row, names)) is not None]
    if rebalance.target is not None and rebalance.undisturbed:
        facts.append(
            Evidence("undisturbed", f"{names_of([row.member for row in rebalance.undisturbed])} kept their partitions")
        )
    return facts + _stale(rebalance.fenced)


def _waits(row: MemberRow, names: dict[str, str]) -> Evidence | None:
    if not row.awaited or row.state != "unreleased_partitions":
        return None
    owners = ", ".join(sorted({names.get(one.owner) or short_id(one.owner) for one in row.awaited}))
    what = partitions_text((one.topic, one.partition) for one in row.awaited)
    return Evidence("waits", f"{name_of(row.member)} waits for {what}, owned by {owners} at its last heartbeat")


def members_in(rebalance: EpochRebalance) -> dict[str, ClientIdentity]:
    members = [row.member for row in rebalance.members] + [step.member for step in rebalance.steps]
    members += [
        member
        for raised in rebalance.raises
        for member in (raised.cause.member, *raised.cause.others)
        if member is not None
    ]
    return {member.member_id: member for member in members}


# a watcher sees no trigger of a rebalance, so a cause in a classic group never has the confidence ``proof``

SHOWN: Final = 3
AFTER_FAILOVER: Final = (*LOST_IN_FAILOVER, "CLIENT_RESET", "STATIC_RESTART")
WEAKER: Final[dict[Confidence, Confidence]] = {"proof": "high", "high": "medium", "medium": "medium", "low": "low"}
"""Key: confidence in a single cause; value: confidence in each cause if the rebalance has several causes."""


def _find_seen(rebalance: SeenRebalance) -> list[Finding]:
    """Return inferred causes, likeliest first; several causes or missing generations lower their confidence."""
    if rebalance.converted is not None:
        return [coordination.seen_converted(rebalance)]
    if rebalance.before is None:
        return [joining.seen_first(rebalance)]
    if not rebalance.before.members:
        return [joining.seen_forming(rebalance)]
    found = [finding for find in SEEN_FINDERS for finding in find(rebalance)]
    if [finding.cause for finding in found] == ["STATIC_RESTART"] and not rebalance.is_after_failover:
        found = [joining.removed_and_back(rebalance, found[0])]
    if all(finding.cause in AFTER_FAILOVER for finding in found) and rebalance.is_after_failover:
        found = [coordination.seen_failover(rebalance), *found]
    if not found:
        found = [coordination.seen_unexplained(rebalance)]
    unsure = len({finding.cause for finding in found}) > 1 or rebalance.not_written > 0
    if not unsure:
        return found
    return [replace(one, confidence=WEAKER[one.confidence]) for one in found]


SEEN_FINDERS: Final[tuple[Callable[[SeenRebalance], list[Finding]], ...]] = (
    lambda rebalance: list(rebalance.departures),
    joining.seen_newcomers,
    changes.seen_subscriptions,
    changes.seen_assignor,
    changes.seen_partitions,
    joining.seen_restarts,
    changes.seen_followup,
)


def _seen_story(rebalance: SeenRebalance) -> Story:
    found = _find_seen(rebalance)
    clauses = [finding.clause for finding in found[:SHOWN]]
    if len(found) > SHOWN:
        clauses.append(f"and {count(len(found) - SHOWN, 'other change')}")
    took = bounds_text(rebalance.join_ms)
    tail = "the duration of the rebalance is unknown" if took is None else f"the join phase took {took}"
    return Story(_seen_head(rebalance), found, clauses, [tail], _facts_seen(rebalance))


def _seen_head(rebalance: SeenRebalance) -> str:
    members = f"{count(len(rebalance.after.members), 'member')}{' left' if not rebalance.after.members else ''}"
    moved = f", {count(len(rebalance.moves), 'partition')} moved" if rebalance.before is not None else ""
    return f"Generation {rebalance.after.generation} ({members}{moved})"


def bounds_text(bounds: Bounds) -> str | None:
    shortest, longest = bounds
    if longest is None:
        return None if not shortest else f"{seconds(shortest)} or longer"
    return f"{seconds(longest)} or less" if not shortest else f"between {seconds(shortest)} and {seconds(longest)}"


def _facts_seen(rebalance: SeenRebalance) -> list[Evidence]:
    facts = []
    if (took := bounds_text(rebalance.join_ms)) is not None:
        facts.append(Evidence("join_took", f"{took}, by polled group states"))
    if rebalance.assign_ms is not None:
        took = f"{seconds(rebalance.assign_ms)}, by the GroupMetadata record"
        facts.append(Evidence("assign_took", took, rebalance.after.joined_ms))
    if rebalance.not_written:
        what = f"{count(rebalance.not_written, 'generation')} before this one: never assigned, or no longer in the log"
        facts.append(Evidence("not_written", what))
    if rebalance.coordinator_moved:
        facts.append(Evidence("coordinator_moved", "the group's __consumer_offsets partition has a new leader epoch"))
    facts.append(Evidence("written", f"generation {rebalance.after.generation}", rebalance.after.at_ms))
    return facts
