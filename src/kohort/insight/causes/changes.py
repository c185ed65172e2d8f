"""Rebalances caused by changes of subscriptions, topics, racks and assignors, or requested by clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from kohort.coordinator.journal import Change, EpochRaised, SeenMember
from kohort.insight.epochs import EpochRebalance
from kohort.insight.evidence import (
    CauseEntry,
    Confidence,
    Evidence,
    Finding,
    raise_beginning,
    round_beginning,
    topics_text,
)
from kohort.insight.names import count, name_and_place, printable
from kohort.insight.observed.generations import SeenRebalance, owners
from kohort.insight.rebalances import Rebalance

_REJOINED: Final = "Preparing to rebalance group ... (reason: Updating metadata for member ... during Stable)"
_LEADER: Final = "Preparing to rebalance group ... (reason: leader ... re-joining group during Stable)"
_BUMPED: Final = "Bumped group epoch to ... with metadata hash ..."

CHANGES: Final = (
    CauseEntry(
        code="SUBSCRIPTION_CHANGED",
        sentence="A member changed its subscription.",
        proof="the topics of the member's subscription, before and after",
        look_alikes=(("TOPIC_CREATED", "the topic is new, and matches the member's subscription pattern"),),
        advice="change the subscription of all members at the same time: one group should read the same topics",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="TOPIC_CREATED",
        sentence="A subscribed topic was created.",
        proof="the topic is newer than the previous generation, by the broker's list of topics or the new target",
        look_alikes=(
            ("SUBSCRIPTION_CHANGED", "the topic existed before, but the member did not subscribe to it"),
            ("PARTITIONS_CHANGED", "the topic existed before, with fewer partitions"),
        ),
        advice="expect several rebalances: members discover the topic at different times, within metadata.max.age.ms",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="TOPIC_DELETED",
        sentence="A subscribed topic was deleted.",
        proof="the topic is missing in the broker's list of topics",
        look_alikes=(("SUBSCRIPTION_CHANGED", "the topic still exists"),),
        advice="unsubscribe members before the deletion of a topic",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="PARTITIONS_CHANGED",
        sentence="The number of partitions of a subscribed topic changed.",
        proof="the numbers of partitions, before and after; or the client's reason (KIP-800)",
        look_alikes=(("LEADER_REJOIN", "the number of partitions is the same"),),
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="REGEX_RESOLVED",
        sentence="A subscription pattern of a consumer group now matches other topics than before.",
        proof="the topics that the coordinator resolved, before and after",
        look_alikes=(("SUBSCRIPTION_CHANGED", "a member changed its pattern"),),
        kafka_log=_BUMPED,
    ),
    CauseEntry(
        code="RACK_CHANGED",
        sentence="The rack of a member changed.",
        proof="the rack in the member's subscription, before and after (KIP-881)",
        look_alikes=(("METADATA_CHANGED", "the rack is the same"),),
        advice="keep one client.rack for the lifetime of each process",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="ASSIGNOR_CHANGED",
        sentence="A member changed its assignors, or most members now prefer another assignor.",
        proof="the member's assignors, before and after; in a consumer group the votes of all members",
        advice="expected during the rollout of a new list of assignors",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="METADATA_CHANGED",
        sentence="A member rejoined with changed metadata, which the broker cannot read.",
        proof="the subscription differs, but not in a known field; medium confidence if owned partitions differ",
        look_alikes=(
            (
                "COOPERATIVE_FOLLOWUP",
                "the member owns other partitions, and the previous rebalance left some unassigned",
            ),
        ),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="COOPERATIVE_FOLLOWUP",
        sentence="Second of two cooperative rebalances: revoked partitions get their new owners.",
        proof="a member rejoined, only its owned partitions differ, and the previous rebalance left some unassigned",
        look_alikes=(("LEADER_REJOIN", "the previous rebalance left no partition unassigned"),),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="LEADER_REJOIN",
        sentence="The leader rejoined, and the coordinator knows of no change.",
        proof="the leader's JoinGroup in a stable group, with unchanged metadata and numbers of partitions",
        look_alikes=(
            ("PARTITIONS_CHANGED", "numbers of partitions differ"),
            ("PERIODIC", "the leader rejoins repeatedly, at a fixed period"),
        ),
        advice="read the leader's log; at a fixed period, the client usually refreshes its metadata",
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="USER_ENFORCED",
        sentence="The application requested the rebalance (enforceRebalance, enforce_rebalance).",
        proof="the client's reason (KIP-800), from the client library or the application",
        look_alikes=(("LEADER_REJOIN", "the client sent no reason"),),
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="ASSIGNMENT_MISMATCH",
        sentence="A member got partitions outside of its present subscription, and rejoined.",
        proof="the client's reason (KIP-800)",
        look_alikes=(("SUBSCRIPTION_CHANGED", "the member's topics differ from those in its previous JoinGroup"),),
        advice="the subscription changed during a rebalance; no action needed unless it repeats",
        kafka_log=_REJOINED,
    ),
)


def rejoined(rebalance: Rebalance) -> Finding:
    begin, change = round_beginning(rebalance), change_of(rebalance)
    reason = (rebalance.trigger.reason or "").lower()
    kind = "the leader, " if change.was_leader else ""
    evidence = (begin.fact("join_group", f"{kind}{begin.member_text} rejoined"), *begin.reason_facts)
    for applies, cause, confidence, describe in REJOINS:
        if applies(rebalance, change, reason):
            clause, fact = describe(begin.member_text, rebalance, change)
            return Finding(cause, confidence, clause, (*evidence, begin.fact("change", fact)))
    why = begin.reason_text or " without a reason"
    if is_from_application(reason):
        return Finding("USER_ENFORCED", "medium", f"{begin.member_text} requested the rebalance{why}", evidence)
    if change.was_leader:
        return Finding("LEADER_REJOIN", "low", f"the leader, {begin.member_text}, rejoined{why}", evidence)
    # a member whose owned partitions alone changed reacts to an earlier rebalance or topic change
    if change.owned_changed:
        clause = f"{begin.member_text} rejoined with other owned partitions{why}"
        return Finding("METADATA_CHANGED", "medium", clause, evidence)
    return Finding("METADATA_CHANGED", "proof", f"{begin.member_text} rejoined with other metadata{why}", evidence)


def differs(rebalance: Rebalance) -> bool:
    """Return True if a member rejoined with changed metadata, or because its application requested a rebalance."""
    reason, change = (rebalance.trigger.reason or "").lower(), change_of(rebalance)
    applies = [cause for applies_to, cause, *_ in REJOINS if applies_to(rebalance, change, reason)]
    return bool(applies and (applies[0] != "PARTITIONS_CHANGED" or change.partitions_changed)) or is_from_application(
        reason
    )


def change_of(rebalance: Rebalance) -> Change:
    """Return the metadata changes of the member that triggered the rebalance.

    After a failover, the coordinator knows only the assignor in use. So the other assignors in a member's JoinGroup do
    not count as a change.
    """
    change = rebalance.trigger.change or Change()
    if rebalance.loaded is not None and {*change.protocols_before} <= {*change.protocols_after}:
        return msgspec.structs.replace(change, protocols_before=change.protocols_after)
    return change


def _describe_topics(member: str, rebalance: Rebalance, _change: Change) -> tuple[str, str]:
    topics = round_beginning(rebalance).topics
    return f"{member} changed its subscription: {topics}", topics


def _describe_created(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    made = [*change.topics_created, *(t for t, (was, _) in sorted(change.partitions_changed.items()) if not was)]
    fact = ", ".join(printable(topic) for topic in made)
    return f"subscribed topics were created ({fact}), and {member} rejoined", f"created: {fact}"


def _describe_deleted(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    gone = [*change.topics_deleted, *(t for t, (_, now) in sorted(change.partitions_changed.items()) if not now)]
    fact = ", ".join(printable(topic) for topic in dict.fromkeys(gone))
    return f"subscribed topics were deleted ({fact}), and {member} rejoined", f"deleted: {fact}"


def _describe_late(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    fact = ", ".join(printable(topic) for topic in (*change.topics_added, *change.topics_removed))
    made = "created" if change.topics_added else "deleted"
    return f"{member} discovered that topics were {made} ({fact}), after another member", f"{made}: {fact}"


def _describe_rack(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    was, now = (printable(rack or "") or "none" for rack in change.racks or (None, None))
    return f"{member} moved from rack {was} to rack {now}", f"{was} became {now}"


def _describe_protocols(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    fact = f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}"
    return f"{member} changed its assignors: {printable(fact)}", printable(fact)


def _describe_partitions(member: str, _rebalance: Rebalance, change: Change) -> tuple[str, str]:
    grown = [f"{t} from {was} to {now} partitions" for t, (was, now) in sorted(change.partitions_changed.items())]
    fact = ", ".join(grown) or "the leader's metadata changed"
    return f"topics changed ({printable(fact)}) and {member} rejoined", printable(fact)


def _describe_metadata(member: str, _rebalance: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"{member} rejoined because its metadata changed, but no number of partitions differs"
    return clause, "no number of partitions differs: the set of subscribed topics depends on the members"


def _describe_followup(member: str, rebalance: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"members revoked partitions in generation {rebalance.from_generation} for other members"
    return clause, f"{member} owns other partitions, and nothing else changed"


def _describe_request(member: str, rebalance: Rebalance, _change: Change) -> tuple[str, str]:
    return f"the application of {member} requested the rebalance", printable(rebalance.trigger.reason or "")


def _describe_mismatch(member: str, _rebalance: Rebalance, _change: Change) -> tuple[str, str]:
    return f"{member} got partitions outside of its subscription", "assignment and subscription differ"


Applies = Callable[[Rebalance, Change, str], bool]
Describe = Callable[[str, Rebalance, Change], tuple[str, str]]
LIBRARY_REASONS: Final = re.compile(
    "rebalanc|re-?join|metadata has changed|subscription|revoke partitions|revoking|encountered|offset commit|heartbeat"
    "|group lifecycle|partitions were added|new partitions|(generation|member|instance) id|consumeclaim|connection|eof"
    "|partitions were revoked|(dial|read|write) tcp|timeout|kafka server"
)
"""Regular expression for the rejoin reasons of client libraries; any other reason comes from the application."""


_MISMATCH: Final = "does not match the current subscription"
_VIEW: Final = "cached metadata has changed"
"""Part of the rejoin reason that a Java group leader sends after a change of topics or partition counts."""
APPLICATION_REASONS: Final = ("enforced by user", "from forcerebalance")
"""Parts of the reasons that Java, kohort and franz-go clients send if the application requested the rebalance."""
REVOCATION_REASONS: Final = ("need to revoke", "partitions were revoked", "after revoking what we lost")
"""Parts of the reasons that Java, kohort and franz-go clients send if a member rejoins after a revocation."""


def _has_revoked(reason: str) -> bool:
    return any(words in reason for words in REVOCATION_REASONS)


def is_from_application(reason: str) -> bool:
    return bool(reason) and LIBRARY_REASONS.search(reason) is None


def _only_created(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_removed or set(change.topics_added) - {*change.topics_created}:
        return False
    return bool(change.topics_created or sizes) and all(not was for was, _ in sizes)


def _late(topics: tuple[str, ...], others: tuple[str, ...], rebalance: Rebalance) -> bool:
    return bool(topics) and not others and {*topics} <= rebalance.recent_topics


def _only_deleted(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_added or set(change.topics_removed) - {*change.topics_deleted}:
        return False
    return bool(change.topics_deleted or sizes) and all(not now for _, now in sizes)


REJOINS: Final[tuple[tuple[Applies, str, Confidence, Describe], ...]] = (
    (lambda _r, c, _s: _only_created(c), "TOPIC_CREATED", "proof", _describe_created),
    (lambda _r, c, _s: _only_deleted(c), "TOPIC_DELETED", "proof", _describe_deleted),
    (lambda r, c, _s: _late(c.topics_added, c.topics_removed, r), "TOPIC_CREATED", "high", _describe_late),
    (lambda r, c, _s: _late(c.topics_removed, c.topics_added, r), "TOPIC_DELETED", "high", _describe_late),
    (lambda _r, c, _s: bool(c.topics_added or c.topics_removed), "SUBSCRIPTION_CHANGED", "proof", _describe_topics),
    (lambda _r, c, _s: c.protocols_before != c.protocols_after, "ASSIGNOR_CHANGED", "proof", _describe_protocols),
    (lambda _r, c, _s: bool(c.partitions_changed), "PARTITIONS_CHANGED", "proof", _describe_partitions),
    (lambda _r, c, _s: c.racks is not None, "RACK_CHANGED", "proof", _describe_rack),
    (lambda r, _c, _s: r.parent is not None, "COOPERATIVE_FOLLOWUP", "proof", _describe_followup),
    (lambda _r, c, s: c.owned_changed and _has_revoked(s), "COOPERATIVE_FOLLOWUP", "high", _describe_followup),
    (lambda _r, _c, s: any(words in s for words in APPLICATION_REASONS), "USER_ENFORCED", "high", _describe_request),
    (lambda _r, _c, s: _MISMATCH in s, "ASSIGNMENT_MISMATCH", "high", _describe_mismatch),
    (lambda r, _c, s: _VIEW in s and r.after_new_partitions, "PARTITIONS_CHANGED", "high", _describe_partitions),
    (lambda _r, _c, s: _VIEW in s, "LEADER_REJOIN", "medium", _describe_metadata),
)


def subscription_changed(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    what = begin.topics or "another subscription pattern"
    clause = f"{begin.member_text} changed its subscription: {what}"
    return Finding("SUBSCRIPTION_CHANGED", "proof", clause, (begin.fact("change", what),))


def regex_resolved(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    what = begin.topics or "its topics"
    if rebalance.was_empty and raised is rebalance.raises[0] and raised.members:
        came = f"the group was empty and {count(raised.members, 'member')} joined"
        clause = f"{came} with a subscription pattern, which now matches topics: {what}"
        return Finding("GROUP_FORMING", "proof", clause, (begin.fact("change", what),))
    clause = f"a subscription pattern of the group matches other topics: {what}"
    return Finding("REGEX_RESOLVED", "proof", clause, (begin.fact("change", what),))


def assignor_changed(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(rebalance, raised)
    name = printable(raised.cause.assignor or "another assignor")
    clause = f"most members now prefer {name}, after {begin.member_text} changed its preference"
    return Finding("ASSIGNOR_CHANGED", "proof", clause, (begin.fact("assignor", name),))


def topics_changed(rebalance: EpochRebalance, raised: EpochRaised) -> Finding:
    """Return the cause of a new group epoch: topics were created or deleted, or got more partitions."""
    changes = []
    for topic, (was, now) in (raised.cause.partitions_changed or rebalance.sizes).items():
        name = printable(topic)
        if not was:
            changes.append(f"{name} was created with {count(now, 'partition')}")
        elif not now:
            changes.append(f"{name} was deleted with {count(was, 'partition')}")
        elif was == now:
            changes.append(f"{name} was recreated with {count(now, 'partition')}")
        else:
            changes.append(f"{name} from {was} to {count(now, 'partition')}")
    evidence = [raise_beginning(rebalance, raised).fact("topics", "changed since the previous epoch")]
    evidence += [Evidence("change", one, raised.at_ms) for one in changes]
    detail = f" ({', '.join(changes)})" if changes else ""
    sizes = rebalance.sizes.values()
    if changes and all(not was for was, _ in sizes):
        return Finding("TOPIC_CREATED", "proof", f"subscribed topics were created{detail}", tuple(evidence))
    if changes and all(not now for _, now in sizes):
        clause = f"subscribed topics were deleted{detail}"
        return Finding("TOPIC_DELETED", "proof", clause, tuple(evidence))
    clause = f"subscribed topics were created, deleted or got partitions{detail}"
    return Finding("PARTITIONS_CHANGED", "proof", clause, tuple(evidence))


def seen_assignor(rebalance: SeenRebalance) -> list[Finding]:
    before = rebalance.before.protocol if rebalance.before is not None else None
    if before == rebalance.after.protocol or before is None or rebalance.after.protocol is None:
        return []
    fact = f"{printable(before)} became {printable(rebalance.after.protocol)}"
    return [Finding("ASSIGNOR_CHANGED", "high", f"the assignor changed: {fact}", (rebalance.fact("protocol", fact),))]


def seen_subscriptions(rebalance: SeenRebalance) -> list[Finding]:
    for before, after in _stayed(rebalance):
        added = [topic for topic in after.topics if topic not in before.topics]
        removed = [topic for topic in before.topics if topic not in after.topics]
        if added or removed:
            what = topics_text(added, removed)
            clause = f"member {name_and_place(after.member)} changed its subscription: {what}"
            unseen = Evidence("unknown", "possibly a subscription pattern whose topics were created or deleted")
            return [Finding("SUBSCRIPTION_CHANGED", "medium", clause, (rebalance.fact("change", what), unseen))]
    return []


def seen_partitions(rebalance: SeenRebalance) -> list[Finding]:
    """Return new partitions as the cause if the highest assigned partition number of a topic rose in the rebalance."""
    was, now = _tops(rebalance)
    grown = [f"{printable(t)} from {was[t]} to {now[t]} partitions" for t in sorted(was) if now.get(t, 0) > was[t]]
    if not grown or rebalance.new or rebalance.missing or rebalance.parent is not None:
        return []  # after a join or leave, an existing partition may be assigned for the first time
    what = ", ".join(grown)
    fact = rebalance.fact("assigned", f"{what}, as the highest assigned partition number shows")
    return [Finding("PARTITIONS_CHANGED", "high", f"topics got more partitions ({what})", (fact,))]


def _tops(rebalance: SeenRebalance) -> tuple[dict[str, int], dict[str, int]]:
    found: list[dict[str, int]] = []
    for generation in (rebalance.before, rebalance.after):
        tops: dict[str, int] = {}
        for topic, partition in (owners(generation) or {}) if generation is not None else {}:
            tops[topic] = max(tops.get(topic, 0), partition + 1)
        found.append(tops)
    return found[0], found[1]


def seen_followup(rebalance: SeenRebalance) -> list[Finding]:
    if rebalance.parent is None:
        return []
    given = sum(move.before is None for move in rebalance.moves)
    clause = f"members revoked partitions in generation {rebalance.parent} for other members"
    fact = rebalance.fact("given", f"{count(given, 'partition')} without an owner in generation {rebalance.parent}")
    return [Finding("COOPERATIVE_FOLLOWUP", "high", clause, (fact,))]


def _stayed(rebalance: SeenRebalance) -> list[tuple[SeenMember, SeenMember]]:
    was = {m.member.member_id: m for m in rebalance.before.members} if rebalance.before is not None else {}
    same = [(was[m.member.member_id], m) for m in rebalance.after.members if m.member.member_id in was]
    return [*same, *rebalance.restarted]
