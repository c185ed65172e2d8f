"""Changes of subscriptions, topics, racks and assignors, and rebalances that clients request."""

from __future__ import annotations

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
        sentence="A member subscribes to other topics than before.",
        proof="the topics of its subscription, before and after",
        look_alikes=(("TOPIC_CREATED", "the topic is new, and matches the member's pattern"),),
        advice="members of one group should subscribe to the same topics; change them together",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="TOPIC_CREATED",
        sentence="A topic that the group reads was made.",
        proof="the topic came after the generation before: the broker's own list of topics, or the new target",
        look_alikes=(
            ("SUBSCRIPTION_CHANGED", "the topic had been there, and the member had not subscribed to it"),
            ("PARTITIONS_CHANGED", "the topic had been there with fewer partitions"),
        ),
        advice="members find it one after another, within metadata.max.age.ms: expect several rebalances, not one",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="TOPIC_DELETED",
        sentence="A topic that the group reads was deleted.",
        proof="the topic is not in the broker's list any more",
        look_alikes=(("SUBSCRIPTION_CHANGED", "the topic is still there"),),
        advice="stop reading what is to be deleted first",
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="PARTITIONS_CHANGED",
        sentence="Topics that the group reads have other numbers of partitions.",
        proof="the numbers of partitions when the generation began, and now; or the client's own words (KIP-800)",
        look_alikes=(("LEADER_REJOIN", "the numbers are the same"),),
        kafka_log=f"{_LEADER}; {_BUMPED}",
    ),
    CauseEntry(
        code="REGEX_RESOLVED",
        sentence="A regular expression that members of a modern group subscribe by matches other topics.",
        proof="what the coordinator found it to match, before and after",
        look_alikes=(("SUBSCRIPTION_CHANGED", "a member has another expression"),),
        kafka_log=_BUMPED,
    ),
    CauseEntry(
        code="RACK_CHANGED",
        sentence="A member runs in another rack than before.",
        proof="the rack in its subscription, before and after (KIP-881)",
        look_alikes=(("METADATA_CHANGED", "the rack is the same"),),
        advice="give each process one client.rack, for as long as it runs",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="ASSIGNOR_CHANGED",
        sentence="A member has another list of assignors, or most members prefer another one now.",
        proof="the protocols that it named, before and after; of a modern group the votes",
        advice="expected while a new list of assignors is rolled out",
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="METADATA_CHANGED",
        sentence="A member joined again with other metadata, of which the broker cannot read more.",
        proof="its subscription differs in its bytes, and in nothing that is named above; medium where it owns other "
        "partitions, as it may come late for what was done before",
        look_alikes=(("COOPERATIVE_FOLLOWUP", "it owns other partitions, and the round before took some away"),),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="COOPERATIVE_FOLLOWUP",
        sentence="The second half of a cooperative rebalance: what was given up is given out.",
        proof="a member rejoined that owns other partitions and differs in nothing else, after a round that withheld "
        "some",
        look_alikes=(("LEADER_REJOIN", "the round before withheld nothing"),),
        kafka_log=_REJOINED,
    ),
    CauseEntry(
        code="LEADER_REJOIN",
        sentence="The leader joined again, and nothing that the coordinator knows of differs.",
        proof="its JoinGroup in a stable group, with the same metadata, and topics with as many partitions as before",
        look_alikes=(
            ("PARTITIONS_CHANGED", "numbers of partitions differ"),
            ("PERIODIC", "it does so again and again, at a fixed period"),
        ),
        advice="look into the leader's log; at a fixed period it is usually a client that refreshes its metadata",
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="USER_ENFORCED",
        sentence="The application asked for it (enforceRebalance, enforce_rebalance).",
        proof="the reason that the client gave (KIP-800): its own words, or the application's",
        look_alikes=(("LEADER_REJOIN", "no reason was given"),),
        kafka_log=_LEADER,
    ),
    CauseEntry(
        code="ASSIGNMENT_MISMATCH",
        sentence="A member was given what it no longer subscribes to, and asked again.",
        proof="the reason that the client gave (KIP-800)",
        look_alikes=(("SUBSCRIPTION_CHANGED", "its topics differ from those it joined with"),),
        advice="the subscription changed while the group rebalanced; nothing to do unless it repeats itself",
        kafka_log=_REJOINED,
    ),
)


def rejoined(this: Rebalance) -> Finding:
    begin, change = round_beginning(this), change_of(this)
    said = (this.trigger.reason or "").lower()
    kind = "the leader, " if change.was_leader else ""
    evidence = (begin.fact("join_group", f"{kind}{begin.member} joined again"), *begin.said)
    for applies, cause, confidence, tell in REJOINS:
        if applies(this, change, said):
            clause, fact = tell(this, change)
            return Finding(cause, confidence, clause, (*evidence, begin.fact("change", fact)))
    why = begin.because or " and gave no reason"
    if is_users(said):
        return Finding("USER_ENFORCED", "medium", f"{begin.member} asked for it{why}", evidence)
    if change.was_leader:
        return Finding("LEADER_REJOIN", "low", f"the leader, {begin.member}, joined again{why}", evidence)
    if change.owned_changed:  # a late answer to an earlier round, or to topics that the client has discovered since
        clause = f"{begin.member} joined again, and owns other partitions{why}"
        return Finding("METADATA_CHANGED", "medium", clause, evidence)
    return Finding("METADATA_CHANGED", "proof", f"{begin.member} joined again with other metadata{why}", evidence)


def differs(this: Rebalance) -> bool:
    """Tell whether the member that rejoined differs from before, or its application asked for the rebalance."""
    said, change = (this.trigger.reason or "").lower(), change_of(this)
    applies = [cause for told, cause, *_ in REJOINS if told(this, change, said)]
    return bool(applies and (applies[0] != "PARTITIONS_CHANGED" or change.partitions_changed)) or is_users(said)


def change_of(this: Rebalance) -> Change:
    """Return the changes of a member that rejoined. Of a loaded member only the chosen assignor is known: further
    names are no change."""
    change = this.trigger.change or Change()
    if this.loaded is not None and {*change.protocols_before} <= {*change.protocols_after}:
        return msgspec.structs.replace(change, protocols_before=change.protocols_after)
    return change


def _tell_topics(this: Rebalance, _change: Change) -> tuple[str, str]:
    begin = round_beginning(this)
    return f"{begin.member} changed its subscription: {begin.topics}", begin.topics


def _tell_made(this: Rebalance, change: Change) -> tuple[str, str]:
    made = [*change.topics_made, *(t for t, (was, _) in sorted(change.partitions_changed.items()) if not was)]
    fact = ", ".join(printable(topic) for topic in made)
    return (
        f"topics were made that the group reads ({fact}), and {round_beginning(this).member} joined again",
        f"made: {fact}",
    )


def _tell_gone(this: Rebalance, change: Change) -> tuple[str, str]:
    gone = [*change.topics_gone, *(t for t, (_, now) in sorted(change.partitions_changed.items()) if not now)]
    fact = ", ".join(printable(topic) for topic in dict.fromkeys(gone))
    return (
        f"topics were deleted that the group reads ({fact}), and {round_beginning(this).member} joined again",
        f"gone: {fact}",
    )


def _tell_found(this: Rebalance, change: Change) -> tuple[str, str]:
    fact = ", ".join(printable(topic) for topic in (*change.topics_added, *change.topics_removed))
    made = "made" if change.topics_added else "deleted"
    return (
        f"{round_beginning(this).member} found that topics were {made} ({fact}), as another member had before it",
        f"{made}: {fact}",
    )


def _tell_rack(this: Rebalance, change: Change) -> tuple[str, str]:
    was, now = (printable(rack or "") or "none" for rack in change.racks or (None, None))
    return f"{round_beginning(this).member} runs in rack {now}, and did in {was}", f"{was} became {now}"


def _tell_protocols(this: Rebalance, change: Change) -> tuple[str, str]:
    fact = f"{', '.join(change.protocols_before)} became {', '.join(change.protocols_after)}"
    return f"{round_beginning(this).member} changed its assignors: {printable(fact)}", printable(fact)


def _tell_partitions(this: Rebalance, change: Change) -> tuple[str, str]:
    grown = [f"{t} from {was} to {now} partitions" for t, (was, now) in sorted(change.partitions_changed.items())]
    fact = ", ".join(grown) or "the leader's metadata changed"
    return f"topics changed ({printable(fact)}) and {round_beginning(this).member} joined again", printable(fact)


def _tell_view(this: Rebalance, _change: Change) -> tuple[str, str]:
    member = round_beginning(this).member
    clause = f"{member} joined again as its view of the topics changed, and their partitions are as many as before"
    return clause, "no number of partitions differs: others are looked at since members came or went"


def _tell_followup(this: Rebalance, _change: Change) -> tuple[str, str]:
    clause = f"members gave up partitions in generation {this.from_generation} so that others could have them"
    return clause, f"{round_beginning(this).member} owns other partitions than before and nothing else changed"


def _tell_user(this: Rebalance, _change: Change) -> tuple[str, str]:
    return f"the application of {round_beginning(this).member} asked for it", printable(this.trigger.reason or "")


def _tell_mismatch(this: Rebalance, _change: Change) -> tuple[str, str]:
    return (
        f"{round_beginning(this).member} was assigned what it no longer subscribes to",
        "assignment and subscription differ",
    )


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
"""Parts of reasons that client libraries give; another reason is the application's."""


_VIEW: Final = "cached metadata has changed"
"""Reason of Java's leader after a change of topics or partition counts."""
USERS_WORDS: Final = ("enforced by user", "from forcerebalance")
"""Reasons of client libraries for the application: Java's and ours; franz-go's."""
REVOKED_WORDS: Final = ("need to revoke", "partitions were revoked", "after revoking what we lost")
"""Reasons after a revocation: Java's, ours, franz-go's."""


def _gave_up(said: str) -> bool:
    return any(words in said for words in REVOKED_WORDS)


def is_users(said: str) -> bool:
    """Tell whether a reason, in lower case, comes from the application."""
    return bool(said) and not any(words in said for words in LIBRARY_WORDS)


def _only_made(change: Change) -> bool:
    sizes = change.partitions_changed.values()
    if change.topics_removed or set(change.topics_added) - {*change.topics_made}:
        return False
    return bool(change.topics_made or sizes) and all(not was for was, _ in sizes)


def _found_late(topics: tuple[str, ...], others: tuple[str, ...], this: Rebalance) -> bool:
    """Tell whether only topics differ that were created or deleted lately: members discover them one by one."""
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
"""Causes of a rejoin; the first that applies."""


def subscription_changed(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    what = begin.topics or "another expression"
    clause = f"{begin.member} changed its subscription: {what}"
    return Finding("SUBSCRIPTION_CHANGED", "proof", clause, (begin.fact("change", what),))


def regex_resolved(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    what = begin.topics or "the topics that it matches"
    if this.was_empty and raised is this.raises[0] and raised.members:
        came = f"the group was empty and {count(raised.members, 'member')} came"
        clause = f"{came}, by a regular expression whose topics were found then: {what}"
        return Finding("GROUP_FORMING", "proof", clause, (begin.fact("change", what),))
    clause = f"a regular expression that members subscribe by matches other topics: {what}"
    return Finding("REGEX_RESOLVED", "proof", clause, (begin.fact("change", what),))


def assignor_changed(this: EpochRebalance, raised: EpochRaised) -> Finding:
    begin = raise_beginning(this, raised)
    name = printable(raised.cause.assignor or "another assignor")
    clause = f"most members prefer {name} now, since {begin.member} does"
    return Finding("ASSIGNOR_CHANGED", "proof", clause, (begin.fact("assignor", name),))


def topics_changed(this: EpochRebalance, raised: EpochRaised) -> Finding:
    """Find the changed topics: those that the coordinator named, else those of the new target's partitions."""
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
    evidence = [raise_beginning(this, raised).fact("topics", "not as they were when the epoch before was written")]
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


def seen_assignor(this: SeenRebalance) -> list[Finding]:
    before = this.before.protocol if this.before is not None else None
    if before == this.after.protocol or before is None or this.after.protocol is None:
        return []
    fact = f"{printable(before)} became {printable(this.after.protocol)}"
    return [Finding("ASSIGNOR_CHANGED", "high", f"the assignor changed: {fact}", (this.fact("protocol", fact),))]


def seen_subscriptions(this: SeenRebalance) -> list[Finding]:
    for before, after in _stayed(this):
        added = [topic for topic in after.topics if topic not in before.topics]
        removed = [topic for topic in before.topics if topic not in after.topics]
        if added or removed:
            what = topics_text(added, removed)
            clause = f"member {name_and_place(after.who)} changed its subscription: {what}"
            unseen = Evidence("unknown", "whether it subscribes by an expression, and topics were made or deleted")
            return [Finding("SUBSCRIPTION_CHANGED", "medium", clause, (this.fact("change", what), unseen))]
    return []


def seen_partitions(this: SeenRebalance) -> list[Finding]:
    """Find topics with assigned partition numbers above all earlier ones."""
    was, now = _tops(this)
    grown = [f"{printable(t)} from {was[t]} to {now[t]} partitions" for t in sorted(was) if now.get(t, 0) > was[t]]
    if not grown or this.new or this.gone or this.parent is not None:
        return []  # other members, or the end of a rebalance, may assign partitions that were unowned
    what = ", ".join(grown)
    fact = this.fact("assigned", f"{what}, by the highest that is assigned")
    return [Finding("PARTITIONS_CHANGED", "high", f"topics were given partitions ({what})", (fact,))]


def _tops(this: SeenRebalance) -> tuple[dict[str, int], dict[str, int]]:
    found: list[dict[str, int]] = []
    for generation in (this.before, this.after):
        tops: dict[str, int] = {}
        for topic, partition in (owners(generation) or {}) if generation is not None else {}:
            tops[topic] = max(tops.get(topic, 0), partition + 1)
        found.append(tops)
    return found[0], found[1]


def seen_followup(this: SeenRebalance) -> list[Finding]:
    if this.parent is None:
        return []
    given = sum(move.before is None for move in this.moves)
    clause = f"members gave up partitions in generation {this.parent} so that others could have them"
    fact = this.fact("given", f"{count(given, 'partition')} that nobody had in generation {this.parent}")
    return [Finding("COOPERATIVE_FOLLOWUP", "high", clause, (fact,))]


def _stayed(this: SeenRebalance) -> list[tuple[SeenMember, SeenMember]]:
    was = {m.who.member_id: m for m in this.before.members} if this.before is not None else {}
    same = [(was[m.who.member_id], m) for m in this.after.members if m.who.member_id in was]
    return [*same, *this.restarted]
