"""The causes of rebalances of which only the generations were seen: each by what differs, with its facts.

Never ``proof``: what began the round was not seen. ``high`` where what differs can begin one and nothing else differs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.journal import SeenMember
from kohort.insight.causes import Confidence, Evidence, Finding
from kohort.insight.names import count, name_and_place, name_of, printable, seconds
from kohort.insight.observed.departures import PUT_OUT
from kohort.insight.observed.generations import SeenRebalance, owners

AFTER_FAILOVER: Final = ("MEMBER_GONE", "SESSION_TIMEOUT", "CLIENT_RESET", "MAX_POLL_EXCEEDED", "STATIC_RESTART")
"""What clients seem to do that have lost their coordinator, and do not find the next one at once."""
WEAKER: Final[dict[Confidence, Confidence]] = {"proof": "high", "high": "medium", "medium": "medium", "low": "low"}
"""How sure a cause is where something else may have begun the round, too."""


def find_seen_causes(this: SeenRebalance) -> list[Finding]:
    """Return the causes of a rebalance, at least one: what is likeliest to have begun the round first.

    Where there are several, or generations in between that nobody saw, none of them is sure.
    """
    if this.converted is not None:
        return [_converted(this)]
    if this.before is None:
        return [_first_seen(this)]
    if not this.before.members:
        return [_forming(this)]
    found = [finding for find in FINDERS for finding in find(this)]
    if [finding.cause for finding in found] == ["STATIC_RESTART"] and not this.coordinator_moved_lately:
        found = [_removed_and_back(this, found[0])]
    if all(finding.cause in AFTER_FAILOVER for finding in found) and this.coordinator_moved_lately:
        found = [_failover(this), *found]
    if not found:
        found = [_unexplained(this)]
    unsure = len({finding.cause for finding in found}) > 1 or this.not_written > 0
    if not unsure:
        return found
    return [Finding(f.cause, WEAKER[f.confidence], f.clause, f.evidence) for f in found]


def _fact(this: SeenRebalance, kind: str, value: str) -> Evidence:
    return Evidence(kind, value, this.after.at_ms)


def _converted(this: SeenRebalance) -> Finding:
    fact = _fact(this, "converted", "its records of a modern group ended, and this generation began with them")
    clause = "the modern group became a classic one again"
    return Finding("PROTOCOL_MIGRATION", "high", clause, (fact,))


def _first_seen(this: SeenRebalance) -> Finding:
    size = count(len(this.after.members), "member")
    if this.after.generation == 1:
        fact = _fact(this, "first_generation", f"{size}; a group begins with generation 1")
        return Finding("GROUP_FORMING", "high", f"the group was new and {size} joined", (fact,))
    fact = _fact(this, "first_seen", f"{size}; generations before this one are not in the log any more, or not seen")
    clause = f"it is the first that was seen ({size}), so that nothing tells why it came"
    return Finding("UNEXPLAINED", "low", clause, (fact,))


def _forming(this: SeenRebalance) -> Finding:
    who = this.after.members[0].who if this.after.members else None
    size = len(this.after.members)
    facts = [_fact(this, "was_empty", f"generation {this.after.generation - 1 - this.not_written} had no members")]
    facts += [_fact(this, "joined", name_and_place(m.who)) for m in this.after.members[:3]]
    more = f" and {count(size - 1, 'other')}" if size > 1 else ""
    joined = f"member {name_and_place(who)}{more}" if who is not None else "nobody"
    return Finding("GROUP_FORMING", "high", f"the group was empty and {joined} joined", tuple(facts))


def _departures(this: SeenRebalance) -> list[Finding]:
    return list(this.departures)


def _restarts(this: SeenRebalance) -> list[Finding]:
    found = []
    for before, after in this.restarted:
        value = f"{name_of(after.who)}: {printable(before.who.member_id)} became {printable(after.who.member_id)}"
        clause = f"static member {name_and_place(after.who)} was restarted: it has its instance id and a new member id"
        found.append(Finding("STATIC_RESTART", "medium", clause, (_fact(this, "new_member_id", value),)))
    return found


def _removed_and_back(this: SeenRebalance, restarted: Finding) -> Finding:
    """Return what else gives a static member a new id: nothing else differs, and a restart alone makes no rebalance."""
    who = this.restarted[0][1].who
    clause = (
        f"static member {name_and_place(who)} has a new member id, and the group rebalanced, which a restart alone "
        "does not make it do: it was probably removed, and came back"
    )
    unseen = Evidence("unknown", "whether it was restarted while the group rebalanced for another cause")
    return Finding("ADMIN_REMOVED", "low", clause, (*restarted.evidence, unseen))


def _newcomers(this: SeenRebalance) -> list[Finding]:
    if not this.new or _is_return(this):
        return []
    who = this.new[0].who
    facts = [_fact(this, "joined", f"{name_and_place(m.who)} was not in the generation before") for m in this.new[:3]]
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
    """Tell whether all who are new are clients of those who are gone: told with why those are gone."""
    gone = {(m.who.client_id, m.who.client_host) for m in this.gone}
    return bool(gone) and all((m.who.client_id, m.who.client_host) in gone for m in this.new)


def _assignor(this: SeenRebalance) -> list[Finding]:
    before = this.before.protocol if this.before is not None else None
    if before == this.after.protocol or before is None or this.after.protocol is None:
        return []
    fact = f"{printable(before)} became {printable(this.after.protocol)}"
    return [Finding("ASSIGNOR_CHANGED", "high", f"the assignor changed: {fact}", (_fact(this, "protocol", fact),))]


def _subscriptions(this: SeenRebalance) -> list[Finding]:
    for before, after in _stayed(this):
        added = [f"added {printable(t)}" for t in after.topics if t not in before.topics]
        removed = [f"removed {printable(t)}" for t in before.topics if t not in after.topics]
        if added or removed:
            what = ", ".join([*added, *removed])
            clause = f"member {name_and_place(after.who)} changed its subscription: {what}"
            unseen = Evidence("unknown", "whether it subscribes by an expression, and topics were made or deleted")
            return [Finding("SUBSCRIPTION_CHANGED", "medium", clause, (_fact(this, "change", what), unseen))]
    return []


def _partitions(this: SeenRebalance) -> list[Finding]:
    """Name topics of which partitions are assigned that were not there: with numbers above all before."""
    was, now = _tops(this)
    grown = [f"{printable(t)} from {was[t]} to {now[t]} partitions" for t in sorted(was) if now.get(t, 0) > was[t]]
    if not grown or this.new or this.gone or this.parent is not None:
        return []  # with other members, or the rest of a rebalance, what nobody had before may just be given out
    what = ", ".join(grown)
    fact = _fact(this, "assigned", f"{what}, by the highest that is assigned")
    return [Finding("PARTITIONS_CHANGED", "high", f"topics were given partitions ({what})", (fact,))]


def _tops(this: SeenRebalance) -> tuple[dict[str, int], dict[str, int]]:
    found: list[dict[str, int]] = []
    for generation in (this.before, this.after):
        tops: dict[str, int] = {}
        for topic, partition in (owners(generation) or {}) if generation is not None else {}:
            tops[topic] = max(tops.get(topic, 0), partition + 1)
        found.append(tops)
    return found[0], found[1]


def _followup(this: SeenRebalance) -> list[Finding]:
    if this.parent is None:
        return []
    given = sum(move.before is None for move in this.moves)
    clause = f"members gave up partitions in generation {this.parent} so that others could have them"
    fact = _fact(this, "given", f"{count(given, 'partition')} that nobody had in generation {this.parent}")
    return [Finding("COOPERATIVE_FOLLOWUP", "high", clause, (fact,))]


def _failover(this: SeenRebalance) -> Finding:
    at_ms = this.after.at_ms if this.loaded is None else this.loaded.at_ms
    moved = Evidence("coordinator_moved", "the partition of its records has another leader epoch than before", at_ms)
    unseen = Evidence(
        "unknown", "who joined anew, and whether that was because of it; requests are not seen from outside"
    )
    clause = "its coordinator moved, or began anew, and members did not find it again in time"
    return Finding("COORDINATOR_FAILOVER", "medium", clause, (moved, unseen))


def _unexplained(this: SeenRebalance) -> Finding:
    same = _fact(this, "same", "the same members, subscriptions, assignor and topics as before")
    unseen = Evidence("unknown", "who asked for it and why: requests, and reasons in them, are not seen from outside")
    return Finding(
        "UNEXPLAINED", "low", "some member joined again, and nothing that is written differs", (same, unseen)
    )


def _stayed(this: SeenRebalance) -> list[tuple[SeenMember, SeenMember]]:
    was = {m.who.member_id: m for m in this.before.members} if this.before is not None else {}
    same = [(was[m.who.member_id], m) for m in this.after.members if m.who.member_id in was]
    return [*same, *this.restarted]


FINDERS: Final[tuple[Callable[[SeenRebalance], list[Finding]], ...]] = (
    _departures,
    _newcomers,
    _subscriptions,
    _assignor,
    _partitions,
    _restarts,
    _followup,
)
"""What can have begun a round, likeliest first."""
