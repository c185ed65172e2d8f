"""Group events that are no rebalances: rejected joins, commits by non-members, changed options, static takeovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.coordinator import journal
from kohort.coordinator.journal_events import CommitUnfenced, JoinRejected, OffsetMove, OptionsChanged
from kohort.insight.evidence import Confidence, EventEntry, Evidence
from kohort.insight.names import UNKNOWN, actor, count, limit, name_and_place, name_of, printable, seconds, short_id

EVENTS: Final = (
    EventEntry(
        code="GROUP_FULL",
        sentence="The coordinator rejected a new member: the group has group.max.size members.",
        proof="GROUP_MAX_SIZE_REACHED in the coordinator's response",
        look_alikes=(
            ("OVER_CAPACITY", "the group had too many members when it was loaded"),
            ("INCOMPATIBLE_ASSIGNORS", "the group is not full, and accepts none of the client's assignors"),
        ),
        advice="raise group.max.size, or run fewer members",
    ),
    EventEntry(
        code="INCOMPATIBLE_ASSIGNORS",
        sentence="A client could not join: the group accepts none of its assignors.",
        proof="INCONSISTENT_GROUP_PROTOCOL in the response to JoinGroup, and the assignors of client and group",
        look_alikes=(
            ("GROUP_FULL", "the group has group.max.size members"),
            ("ASSIGNOR_CHANGED", "a member changed its assignors, and all members still share one"),
        ),
        advice="give every member a common entry in partition.assignment.strategy; to change the assignor, add the new "
        "one to all members first, and remove the old one in a second deploy; if another program uses this group.id, "
        "give it its own group",
    ),
    EventEntry(
        code="STATIC_RESTART",
        sentence="A static member returned under a new member id and kept its partitions, without a rebalance.",
        proof="a JoinGroup or heartbeat with the member's instance id and no member id, in a stable group",
        look_alikes=(("STATIC_DUPLICATE", "the earlier process still runs"),),
        kafka_log="Updating metadata for static member ...",
    ),
    EventEntry(
        code="STATIC_DUPLICATE",
        sentence="Two processes have the same group.instance.id: the coordinator rejects the earlier one.",
        proof="FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID in response to a request of the replaced member; in a consumer "
        "group, UNRELEASED_INSTANCE_ID in response to the join of a second process",
        look_alikes=(
            (
                "STATIC_RESTART",
                "the earlier process sent no more requests; a watcher cannot distinguish restart and duplicate",
            ),
            ("STATIC_EXPIRED", "the earlier process was dead, and its session expired after the rejected join"),
        ),
        advice="give every process its own group.instance.id, and stop the replaced one",
    ),
    EventEntry(
        code="CONFIG_CHANGED",
        sentence="Options of the group were changed.",
        proof="the request that changed the options, its sender, and each value before and after",
        look_alikes=(("ASSIGNOR_CHANGED", "a client changed its list of assignors"),),
        advice="each member uses new timeouts from its next heartbeat on",
    ),
    EventEntry(
        code="OFFSETS_RESET",
        sentence="A client outside of the group reset committed offsets of the group.",
        proof="a commit that has no member id, and moved offsets back or to unread records",
        look_alikes=(("UNFENCED_COMMIT", "offsets moved forward, as with a consumer"),),
        advice="records between the old and the new offset are read again, or skipped",
    ),
    EventEntry(
        code="UNFENCED_COMMIT",
        sentence="A client outside of the group commits offsets of the group.",
        proof="accepted commits without a member id and a generation",
        look_alikes=(("OFFSETS_RESET", "offsets moved back"),),
        advice="give a consumer with assign() its own group.id; the coordinator does not fence its commits",
    ),
    EventEntry(
        code="ZOMBIE_COMMIT",
        sentence="A removed or outdated member continued to work: the coordinator rejected its commits.",
        proof="UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or a fencing error in response to the member's commits",
        look_alikes=(("UNFENCED_COMMIT", "the commit had no member id, and was accepted"),),
        advice="records handled after the removal are handled twice: make handling idempotent; find the removal cause",
    ),
    EventEntry(
        code="GROUP_DELETED",
        sentence="The group was deleted, or its last offset expired.",
        proof="the request, or the cleanup of expired offsets",
    ),
)
COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit")
SHOWN: Final = 5
GROUP_FULL: Final = "GROUP_MAX_SIZE_REACHED"
FENCED: Final = "FENCED_INSTANCE_ID"
UNRELEASED: Final = "UNRELEASED_INSTANCE_ID"
STILL_RUNS: Final = (FENCED, "UNKNOWN_MEMBER_ID")
"""Errors of requests from a replaced process. Heartbeats of some clients (aiokafka) contain no instance id."""
RETRY_MS: Final = 3_000
"""Longest time in ms from the rejected request of a client to its next join, if both processes have one client id."""
REJOIN_MS: Final = 60_000
"""Time in ms after a proven duplicate in which either of its processes may join again."""


@dataclass(slots=True)
class GroupEvent:
    group: str
    at_ms: int
    cause: str
    confidence: Confidence
    sentence: str
    evidence: list[Evidence]
    member: journal.ClientIdentity | None = None
    observed: bool = False
    refused: tuple[journal.RequestFenced, ...] = ()
    is_void: bool = False
    """True if a later journal entry disproves the event."""


@dataclass(slots=True)
class _Group:
    unloaded: journal.GroupUnloaded | None = None
    in_flight: bool = False
    zombies: dict[str, GroupEvent] = field(default_factory=dict)
    refused: dict[str, GroupEvent] = field(default_factory=dict)
    static: dict[str, journal.ClientIdentity] = field(default_factory=dict)
    """Last member that joined with each ``group.instance.id`` of a consumer group."""
    replaced: set[str] = field(default_factory=set)
    """Ids of static members that were replaced without a rebalance: ``takeovers`` reports their rejected requests."""
    duplicates: dict[str, GroupEvent] = field(default_factory=dict)
    """Rejected joins of second processes. Key: ``group.instance.id``."""


def events(entries: Iterable[journal.JournalEntry]) -> list[GroupEvent]:
    """Return the group events that are no rebalances, oldest first; equal events of one generation are merged."""
    groups: dict[str, _Group] = {}
    found: list[GroupEvent] = []
    for entry in entries:
        if entry.observed:
            continue  # a watcher sees no client requests, so its entries show neither rejected joins nor zombie commits
        group = groups.setdefault(entry.group, _Group())
        _track(group, entry)
        handle = HANDLERS.get(type(entry))
        event = None if handle is None else handle(group, entry)
        if event is not None:
            found.append(event)
    return [event for event in found if not event.is_void]


def _track(group: _Group, entry: journal.JournalEntry) -> None:
    if isinstance(entry, journal.GroupUnloaded):
        group.unloaded = entry
    elif isinstance(entry, journal.RoundOpened):
        group.in_flight = True
    elif isinstance(entry, journal.AssignmentWritten | journal.RoundDropped):
        group.in_flight = False
    if isinstance(entry, journal.EpochRaised):
        _track_static(group, entry.cause)
    elif isinstance(entry, journal.StaticReplaced):
        group.replaced.add(entry.old_member_id)
    if isinstance(entry, journal.RoundClosed | journal.EpochRaised):
        group.in_flight = group.in_flight and isinstance(entry, journal.RoundClosed) and bool(entry.members)
        group.zombies, group.refused = {}, {}


def _track_static(group: _Group, cause: journal.EpochCause) -> None:
    member = cause.member
    if member is None or member.instance_id is None:
        return
    if cause.event == "member_joined":
        group.static[member.instance_id] = member
    elif cause.event == "session_expired" and (duplicate := group.duplicates.pop(member.instance_id, None)) is not None:
        duplicate.is_void = True  # the earlier process was dead: its session expired


def _loaded(group: _Group, entry: journal.GroupLoaded) -> GroupEvent | None:
    unloaded, group.unloaded = group.unloaded, None
    interrupted, group.in_flight = group.in_flight, False
    if not entry.members or interrupted:
        return None  # no event: either the group is empty, or the interrupted rebalance already reports the failover
    evidence = [Evidence("group_loaded", f"at generation {entry.generation}", entry.at_ms)]
    size = count(len(entry.members), "member")
    if unloaded is None:
        sentence = (
            f"A restarted broker loaded the group of {size} from its log; the group continued without a rebalance."
        )
    else:
        away = seconds(entry.at_ms - unloaded.at_ms)
        evidence.append(Evidence("group_unloaded", f"at generation {unloaded.generation}", unloaded.at_ms))
        sentence = f"The group of {size} moved to another coordinator within {away}, without a rebalance."
    return GroupEvent(entry.group, entry.at_ms, "COORDINATOR_FAILOVER", "proof", sentence, evidence)


def _rejected_join(group: _Group, entry: JoinRejected) -> GroupEvent | None:
    fact = Evidence("join_rejected", name_and_place(entry.member), entry.at_ms)
    known = group.refused.get(entry.error)
    if known is not None:
        known.evidence.append(fact)
        return None
    if entry.error == GROUP_FULL:
        cause, facts = "GROUP_FULL", [fact]
        why = f"was rejected: the group is full with {count(entry.members, 'member')}"
    else:
        cause = "INCOMPATIBLE_ASSIGNORS"
        why = f"was rejected ({printable(entry.error)}): {assignors_text(entry)}"
        facts = [fact, Evidence("assignors", assignors_text(entry), entry.at_ms)]
    event = GroupEvent(entry.group, entry.at_ms, cause, "proof", f"{_client(entry.member)} {why}.", facts, entry.member)
    group.refused[entry.error] = event
    return event


def assignors_text(entry: JoinRejected) -> str:
    if entry.types is not None:
        offered, accepted = (printable(name) or "none" for name in entry.types)
        return f"its protocol type is {offered}, the group's is {accepted}"
    offered = ", ".join(printable(name) for name in entry.offered) or "no assignor"
    accepted = ", ".join(printable(name) for name in entry.accepted) or "no assignor in common"
    return f"it supports {offered}, and all members of the group support {accepted}"


def _unfenced(_group: _Group, entry: CommitUnfenced) -> GroupEvent:
    total = len(entry.offsets) + entry.more
    moves = [_offset_text(move) for move in entry.offsets[:SHOWN]]
    rest = total - len(moves)
    evidence = [Evidence("offsets", ", ".join(moves) + (f" and {rest} more" if rest else ""), entry.at_ms)]
    evidence.append(Evidence("committed_by", actor(entry.member), entry.at_ms))
    by_admin = "admin" in entry.member.client_id.lower()
    if entry.backwards or by_admin:
        back = f", {entry.backwards} of them back" if entry.backwards else ""
        sentence = f"{_client(entry.member)}, which is no member, set {count(total, 'committed offset')}{back}."
        confidence: Confidence = "proof" if entry.backwards else "high"
        return GroupEvent(entry.group, entry.at_ms, "OFFSETS_RESET", confidence, sentence, evidence, entry.member)
    how = "in a transaction, without a member id" if entry.in_transaction else "without being a member"
    sentence = (
        f"{_client(entry.member)} commits offsets of this group {how}; the coordinator does not fence such commits."
    )
    return GroupEvent(entry.group, entry.at_ms, "UNFENCED_COMMIT", "proof", sentence, evidence, entry.member)


def _offset_text(move: OffsetMove) -> str:
    before = "nothing" if move.before is None else move.before
    return f"{printable(move.topic)}-{move.partition} from {before} to {move.after}"


def _fenced(group: _Group, entry: journal.RequestFenced) -> GroupEvent | None:
    if entry.error == UNRELEASED:
        return _second_process(group, entry)
    if entry.error == FENCED and entry.member.member_id not in group.replaced:
        return _first_process(group, entry)
    if entry.api not in COMMITS or entry.error == "STALE_MEMBER_EPOCH":
        return None  # no event: a member whose epoch just changed repeats its commit with the new epoch
    fact = Evidence("refused", f"{entry.api} of generation {entry.generation}: {entry.error}", entry.at_ms)
    tried = [_tried_text(move) for move in entry.offsets[:SHOWN]]
    facts = [fact, *([Evidence("tried", ", ".join(tried), entry.at_ms)] if tried else [])]
    known = group.zombies.get(entry.member.member_id)
    if known is not None:
        known.evidence += facts
        return None
    still = "an outdated member" if entry.error == "ILLEGAL_GENERATION" else "no longer a member"
    name = name_and_place(entry.member)
    sentence = f"Member {name} is {still} but continued to work: its commit was rejected ({entry.error})."
    event = GroupEvent(entry.group, entry.at_ms, "ZOMBIE_COMMIT", "proof", sentence, facts, entry.member)
    group.zombies[entry.member.member_id] = event
    return event


def _first_process(group: _Group, entry: journal.RequestFenced) -> GroupEvent | None:
    """Return the event of a member whose ``group.instance.id`` another process took during a rebalance."""
    instance = entry.member.instance_id or ""
    fact = Evidence("stale_request", f"{name_of(entry.member)} sent {entry.api}: {entry.error}", entry.at_ms)
    known = group.duplicates.get(instance)
    if known is not None:
        known.evidence.append(fact)
        return None
    sentence = (
        f"The coordinator rejected {printable(entry.api)} of {name_and_place(entry.member)} ({FENCED}): another "
        f"process has the group.instance.id {printable(instance)}. Two processes have the same group.instance.id."
    )
    event = GroupEvent(entry.group, entry.at_ms, "STATIC_DUPLICATE", "proof", sentence, [fact], entry.member)
    group.duplicates[instance] = event
    return event


def _second_process(group: _Group, entry: journal.RequestFenced) -> GroupEvent | None:
    """Return the event of a join that was rejected because another member has its ``group.instance.id``."""
    instance, second = entry.member.instance_id or "", entry.member
    fact = Evidence("join_rejected", f"{name_and_place(second)}: {UNRELEASED}", entry.at_ms)
    known = group.duplicates.get(instance)
    if known is not None:
        known.evidence.append(fact)
        return None
    first = group.static.get(instance)
    owner = "another member" if first is None else f"member {name_and_place(first)}"
    is_other = first is not None and first.client != second.client
    unsure = "" if is_other else ", or the earlier process was killed and its session has not expired"
    sentence = (
        f"Member {name_and_place(second)} could not join ({UNRELEASED}): {owner} has the group.instance.id "
        f"{printable(instance)}. Two processes have the same group.instance.id{unsure}."
    )
    confidence: Confidence = "high" if is_other else "medium"
    event = GroupEvent(entry.group, entry.at_ms, "STATIC_DUPLICATE", confidence, sentence, [fact], second)
    group.duplicates[instance] = event
    return event


def _tried_text(move: OffsetMove) -> str:
    held = "" if move.before is None else f" ({move.before} is committed)"
    return f"{printable(move.topic)}-{move.partition} to {move.after}{held}"


def _options(_group: _Group, entry: OptionsChanged) -> GroupEvent:
    changes = [
        f"{printable(name)} from {_option_text(was)} to {_option_text(now)}"
        for name, (was, now) in sorted(entry.options.items())
    ]
    by = f" by {actor(entry.by)}" if entry.by is not None else ""
    sentence = f"Options of the group were changed{by}: {', '.join(changes)}."
    evidence = [Evidence("option", change, entry.at_ms) for change in changes]
    return GroupEvent(entry.group, entry.at_ms, "CONFIG_CHANGED", "proof", sentence, evidence, entry.by)


def _option_text(value: int | None) -> str:
    return "the broker's value" if value is None else str(value) if value < 1000 else limit(value)


def _deleted(_group: _Group, entry: journal.GroupDeleted) -> GroupEvent:
    by = f" by {actor(entry.by)}" if entry.by is not None else ""
    sentence = f"The group was deleted{by}." if entry.why == "deleted" else "The group expired with its last offset."
    evidence = [Evidence("group_deleted", entry.why, entry.at_ms)]
    return GroupEvent(entry.group, entry.at_ms, "GROUP_DELETED", "proof", sentence, evidence, entry.by)


def _client(member: journal.ClientIdentity) -> str:
    return (
        f"Client {actor(member)}"
        if member.client_id or member.member_id
        else f"A client{actor(member).removeprefix(UNKNOWN)}"
    )


HANDLERS: Final[dict[type[journal.JournalEntry], Callable[[_Group, Any], GroupEvent | None]]] = {
    journal.GroupLoaded: _loaded,
    JoinRejected: _rejected_join,
    CommitUnfenced: _unfenced,
    journal.RequestFenced: _fenced,
    OptionsChanged: _options,
    journal.GroupDeleted: _deleted,
}


@dataclass(slots=True)
class Takeover:
    """Replacement of a static member by a new process; ``refused``: later requests of the old process, all rejected."""

    group: str
    at_ms: int
    member: journal.ClientIdentity
    old_member_id: str
    observed: bool = False
    refused: list[journal.RequestFenced] = field(default_factory=list)
    previous: journal.ClientIdentity | None = None
    """Member of the previous replacement."""
    follows_duplicate: bool = False
    """True within a minute of a replacement whose old process still ran: either process may have joined again."""
    repeats: bool = False
    """True if the process of the previous replacement joined again right after its rejected request."""

    @property
    def is_duplicate(self) -> bool:
        return bool(self.refused) or self.repeats

    def is_reversed_by(self, later: journal.StaticReplaced) -> bool:
        """Return whether the old process joins again: the client of its rejected request, soon after that request.

        The journal keeps a limited number of rejected requests. Beyond it, two clients that take turns are enough.
        """
        client, is_other = later.member.client, later.member.client != self.member.client
        if not self.refused:
            takes_turns = is_other and self.previous is not None and client == self.previous.client
            return takes_turns and self.follows_duplicate and later.at_ms - self.at_ms <= REJOIN_MS
        if client != self.refused[-1].member.client:
            return False
        return later.at_ms - self.refused[-1].at_ms <= (REJOIN_MS if is_other else RETRY_MS)

    @property
    def cause(self) -> str:
        return "STATIC_DUPLICATE" if self.is_duplicate else "STATIC_RESTART"

    @property
    def confidence(self) -> Confidence:
        is_unsure = self.observed or self.repeats or self.follows_duplicate
        return "proof" if self.refused else "medium" if is_unsure else "high"

    @property
    def sentence(self) -> str:
        instance = printable(self.member.instance_id or "")
        head = f"Instance {instance} is now {name_and_place(self.member)}, and kept its partitions without a rebalance"
        if self.observed:
            return f"{head} (from the group's record)."
        if not self.refused and self.is_duplicate:
            return (
                f"{head}, right after that client was replaced or its request rejected. Either two processes with "
                "this group.instance.id replace each other, or the client restarted."
            )
        if not self.refused:
            known = " Two processes had the same group.instance.id shortly before." if self.follows_duplicate else ""
            return f"{head}; {short_id(self.old_member_id)} sent no more requests.{known}"
        first = self.refused[0]
        after = seconds(first.at_ms - self.at_ms)
        return (
            f"{head}, while {short_id(self.old_member_id)} still ran: its request was rejected {after} later "
            f"({printable(first.api)}: {first.error}). Two processes have the same group.instance.id."
        )

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        came = Evidence("static_replaced", f"{short_id(self.old_member_id)} became {name_of(self.member)}", self.at_ms)
        stale = [
            Evidence("stale_request", f"{name_of(f.member)} sent {f.api}: {f.error}", f.at_ms) for f in self.refused
        ]
        return (came, *stale)


def takeovers(entries: Iterable[journal.JournalEntry]) -> list[Takeover]:
    found: list[Takeover] = []
    by_old_id: dict[str, Takeover] = {}
    by_instance: dict[tuple[str, str | None], Takeover] = {}
    for entry in entries:
        if isinstance(entry, journal.StaticReplaced):
            found.append(Takeover(entry.group, entry.at_ms, entry.member, entry.old_member_id, entry.observed))
            by_old_id[entry.old_member_id] = found[-1]
            place = entry.group, entry.member.instance_id
            before = by_instance.get(place)
            if before is not None:
                found[-1].repeats = before.is_reversed_by(entry)
                found[-1].previous = before.member
                is_soon = entry.at_ms - before.at_ms <= REJOIN_MS
                found[-1].follows_duplicate = is_soon and (before.is_duplicate or before.follows_duplicate)
            by_instance[place] = found[-1]
        elif (
            isinstance(entry, journal.RequestFenced)
            and entry.error in STILL_RUNS
            and entry.member.member_id in by_old_id
        ):
            by_old_id[entry.member.member_id].refused.append(entry)
    return found
