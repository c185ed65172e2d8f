"""The causes of the rebalances of modern groups (KIP-848), each from what raised the epoch, with its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kohort.coordinator.journal import EpochEvent, EpochRaised, Who
from kohort.insight.causes import Evidence, Finding, find_silence, find_stop, hung_up
from kohort.insight.epochs import EpochRebalance
from kohort.insight.holdings import Place
from kohort.insight.names import actor, count, limit, name_and_place, name_of, printable, seconds, short_id
from kohort.insight.observed.departures import PUT_OUT
from kohort.insight.observed.epochs import find_gone, find_unexplained, seen_from_outside
from kohort.insight.rebalances import REMEMBERED_MS

PLACES_SHOWN: Final = 5


def find_cause_of_raise(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return why the epoch rose with ``raised``, one of the raises of ``this``."""
    if raised is this.raises[0] and this.converted is not None:
        found = _converted(this, raised)
    else:
        found = FINDERS[raised.cause.event](this, raised)
    return seen_from_outside(found) if raised.observed else found


def partitions_text(places: Iterable[Place]) -> str:
    """Return partitions as people read them: the first few by name, and how many more."""
    found = sorted(places)
    shown = [printable(f"{topic}-{partition}") for topic, partition in found[:PLACES_SHOWN]]
    rest = len(found) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")


def _who(raised: EpochRaised) -> str:
    who = raised.cause.who
    return "a member" if who is None else f"member {name_and_place(who)}"


def _and_others(raised: EpochRaised) -> str:
    others: tuple[Who, ...] = raised.cause.others
    return f" and {count(len(others), 'other')}" if others else ""


def _fact(kind: str, value: str, raised: EpochRaised) -> Evidence:
    return Evidence(kind, value, raised.at_ms)


def _converted(this: EpochRebalance, raised: EpochRaised) -> Finding:
    converted = this.converted
    if converted is None:  # the conversion itself is not in this journal any more
        fact = _fact("converted", "from the classic protocol", raised)
        return Finding("PROTOCOL_MIGRATION", "proof", "the classic group became a modern one", (fact,))
    size = count(len(converted.members), "member")
    by = f"member {name_and_place(converted.by)}" if converted.by is not None else _who(raised)
    clause = f"{by} came with the consumer protocol, and the classic group of {size} became a modern one"
    fact = _fact("converted", f"generation {converted.epoch} became the group epoch", raised)
    return Finding("PROTOCOL_MIGRATION", "proof", clause, (fact,))


def _joined(this: EpochRebalance, raised: EpochRaised) -> Finding:
    topics = ", ".join(printable(topic) for topic in raised.cause.topics_added)
    fact = _fact(
        "heartbeat", f"{_who(raised)} came with epoch 0{f', subscribing to {topics}' if topics else ''}", raised
    )
    before = this.removed_before
    if raised is this.raises[0] and before is not None and raised.at_ms - before.at_ms <= REMEMBERED_MS:
        anew = _joined_anew(this, raised, before, fact)
        if anew is not None:
            return anew
    if raised.members == 1:
        return Finding("GROUP_FORMING", "proof", f"the group was empty and {_who(raised)} joined", (fact,))
    return Finding("NEW_MEMBER", "proof", f"{_who(raised)} joined the group", (fact,))


def _joined_anew(this: EpochRebalance, raised: EpochRaised, before: EpochRaised, fact: Evidence) -> Finding | None:
    """Return that a member that had been put out is back; None where it had left in order. From outside it is not known
    whether it was put out: of one that left by itself it is no more than likely that its client began anew."""
    ago = seconds(raised.at_ms - before.at_ms)
    chain = Evidence("chained_to", f"epoch {before.epoch}", before.at_ms)
    why = find_cause_of_raise(this.removed_from or this, before).cause
    if before.cause.event != "member_gone":
        if before.cause.event == "member_left" and why not in PUT_OUT:
            return None
        out = why if before.cause.event == "member_left" else before.cause.event
        clause = f"{_who(raised)} joined anew, {ago} after it was put out of the group ({out})"
        ids = {who.member_id for who in (before.cause.who, raised.cause.who) if who is not None}
        removed = Evidence("removed_before", out, before.at_ms)
        return Finding("CLIENT_RESET", "proof" if len(ids) == 1 else "high", clause, (fact, removed, chain))
    gone = Evidence("gone_before", f"by {why}", before.at_ms)
    if why in PUT_OUT:
        clause = f"{_who(raised)} joined anew, {ago} after it was out ({why})"
        return Finding("CLIENT_RESET", "medium", clause, (fact, gone, chain))
    if raised.members == 1:
        return None
    return Finding(
        "NEW_MEMBER", "medium", f"{_who(raised)} joined the group again, {ago} after it was out", (fact, gone)
    )


def _left(this: EpochRebalance, raised: EpochRaised) -> Finding:
    reason = raised.cause.reason
    said = (_fact("client_reason", f'"{printable(reason)}"', raised),) if reason else ()
    evidence = (_fact("left", f"{_who(raised)} said that it leaves", raised), *said)
    by, who = raised.cause.by, raised.cause.who
    if by is not None:
        clause = f"{_who(raised)}{_and_others(raised)} was removed by {actor(by)}"
        return Finding("ADMIN_REMOVED", "proof", clause, (*evidence, _fact("removed_by", actor(by), raised)))
    gone = next((d for d in this.disconnected if who is not None and d.who.member_id == who.member_id), None)
    stopped = find_stop(_who(raised), raised.cause.vitals, reason, raised.at_ms, gone)
    if stopped is not None:
        return Finding(stopped.cause, stopped.confidence, stopped.clause, (*evidence, *stopped.evidence))
    why = f' ("{printable(reason)}")' if reason else ""
    clause = f"{_who(raised)}{_and_others(raised)} left the group{why}"
    return Finding("MEMBER_LEFT", "proof", clause, (*evidence, *hung_up(gone)))


def _expired(this: EpochRebalance, raised: EpochRaised) -> Finding:
    who, vitals = raised.cause.who, raised.cause.vitals
    if who is None or vitals is None:  # a broker that had just taken over
        fact = _fact("timer", "its session ended", raised)
        return Finding("SESSION_TIMEOUT", "low", f"{_who(raised)} was silent until its session ended", (fact,))
    return find_silence(who, vitals, raised.at_ms, this)


def _revocation_timeout(this: EpochRebalance, raised: EpochRaised) -> Finding:
    vitals = raised.cause.vitals
    within = f" of {limit(vitals.rebalance_timeout_ms)}" if vitals is not None else ""
    kept = this.left_revoking if raised is this.raises[0] else ()
    what = partitions_text(kept) if kept else "what it was told to"
    evidence = [_fact("timer", f"it did not give up {what} within its rebalance timeout{within}", raised)]
    if kept:
        evidence.append(Evidence("told_to_revoke", what, this.revoking_since_ms))
    if vitals is not None:
        evidence.append(
            Evidence("last_request", f"{seconds(raised.at_ms - vitals.last_seen_ms)} before it was put out")
        )
    clause = f"{_who(raised)} did not give up {what} within its rebalance timeout{within} and was put out"
    return Finding("REVOCATION_TIMEOUT", "proof", clause, tuple(evidence))


def _rejoin_timeout(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    fact = _fact("timer", "it was told to join again, and did not in time", raised)
    clause = f"{_who(raised)}, of the classic protocol, was told to join again, did not, and was put out"
    return Finding("JOIN_TIMEOUT", "proof", clause, (fact,))


def _resync_timeout(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    fact = _fact("timer", "it joined, and sent no SyncGroup in time", raised)
    clause = f"{_who(raised)}, of the classic protocol, did not ask for its assignment in time and was put out"
    return Finding("SYNC_TIMEOUT", "proof", clause, (fact,))


def _topics_text(raised: EpochRaised) -> str:
    parts = [f"added {printable(topic)}" for topic in raised.cause.topics_added]
    parts += [f"removed {printable(topic)}" for topic in raised.cause.topics_removed]
    return ", ".join(parts)


def _subscription(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    what = _topics_text(raised) or "another expression"
    return Finding(
        "SUBSCRIPTION_CHANGED",
        "proof",
        f"{_who(raised)} changed its subscription: {what}",
        (_fact("change", what, raised),),
    )


def _regex(this: EpochRebalance, raised: EpochRaised) -> Finding:
    what = _topics_text(raised) or "the topics that it matches"
    if this.was_empty and raised is this.raises[0] and raised.members:
        came = f"the group was empty and {count(raised.members, 'member')} came"
        clause = f"{came}, by a regular expression whose topics were found then: {what}"
        return Finding("GROUP_FORMING", "proof", clause, (_fact("change", what, raised),))
    clause = f"a regular expression that members subscribe by matches other topics: {what}"
    return Finding("REGEX_RESOLVED", "proof", clause, (_fact("change", what, raised),))


def _assignor(_this: EpochRebalance, raised: EpochRaised) -> Finding:
    name = printable(raised.cause.assignor or "another assignor")
    clause = f"most members prefer {name} now, since {_who(raised)} does"
    return Finding("ASSIGNOR_CHANGED", "proof", clause, (_fact("assignor", name, raised),))


def _topics(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Name the topics that the coordinator named, or else those by what the target gives out, and takes away, that was
    not, or had been, anybody's."""
    told = []
    for topic, (was, now) in (raised.cause.partitions_changed or this.sizes).items():
        name = printable(topic)
        if not was:
            told.append(f"{name} has come with {count(now, 'partition')}")
        elif not now:
            told.append(f"{name} is gone with its {count(was, 'partition')}")
        elif was == now:
            told.append(f"{name} was deleted and made anew with {count(now, 'partition')}")
        else:
            told.append(f"{name} from {was} to {count(now, 'partition')}")
    evidence = [_fact("topics", "not as they were when the epoch before was written", raised)]
    evidence += [Evidence("change", one, raised.at_ms) for one in told]
    detail = f" ({', '.join(told)})" if told else ""
    sizes = this.sizes.values()
    if told and all(not was for was, _ in sizes):
        return Finding("TOPIC_CREATED", "proof", f"topics that members subscribe to were made{detail}", tuple(evidence))
    if told and all(not now for _, now in sizes):
        clause = f"topics that members subscribe to were deleted{detail}"
        return Finding("TOPIC_DELETED", "proof", clause, tuple(evidence))
    clause = f"topics that members subscribe to were made, deleted or given partitions{detail}"
    return Finding("PARTITIONS_CHANGED", "proof", clause, tuple(evidence))


FINDERS: Final[dict[EpochEvent, Callable[[EpochRebalance, EpochRaised], Finding]]] = {
    "member_joined": _joined,
    "member_left": _left,
    "session_expired": _expired,
    "revocation_timeout": _revocation_timeout,
    "rejoin_timeout": _rejoin_timeout,
    "resync_timeout": _resync_timeout,
    "subscription_changed": _subscription,
    "regex_resolved": _regex,
    "assignor_changed": _assignor,
    "topics_changed": _topics,
    "converted": _converted,
    "member_gone": find_gone,
    "unexplained": find_unexplained,
}


def owner_text(names: dict[str, str], member_id: str | None) -> str:
    """Return what to call a member of whom maybe nothing but the id is known."""
    return "nobody" if member_id is None else names.get(member_id) or short_id(member_id)


def names_in(this: EpochRebalance) -> dict[str, str]:
    """Return what to call each member that the rebalance tells of, by id."""
    told = [row.who for row in this.members] + [step.who for step in this.steps]
    told += [who for raised in this.raises for who in (raised.cause.who, *raised.cause.others) if who is not None]
    return {who.member_id: name_of(who) for who in told}
