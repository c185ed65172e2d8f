"""Events of a group without a rebalance: refused joins, commits by non-members, changed options, static takeovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kohort.coordinator.journal import (
    AssignmentWritten,
    EpochRaised,
    GroupDeleted,
    GroupLoaded,
    GroupUnloaded,
    JournalEntry,
    RequestFenced,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    StaticReplaced,
    Who,
)
from kohort.coordinator.journal_events import CommitUnfenced, MemberTurnedAway, OffsetMove, OptionsChanged
from kohort.insight.evidence import CauseEntry, Confidence, Evidence
from kohort.insight.names import UNKNOWN, actor, count, limit, name_and_place, name_of, printable, seconds, short_id

EVENTS: Final = (
    CauseEntry(
        code="GROUP_FULL",
        sentence="Somebody was not let in: the group has as many members as group.max.size allows.",
        proof="GROUP_MAX_SIZE_REACHED in the broker's answer",
        look_alikes=(
            ("OVER_CAPACITY", "the group had more members than allowed when it was loaded"),
            ("INCOMPATIBLE_ASSIGNORS", "the group has room, and accepts none of the client's assignors"),
        ),
        advice="raise group.max.size, or run fewer members",
        kind="event",
    ),
    CauseEntry(
        code="INCOMPATIBLE_ASSIGNORS",
        sentence="A client could not join: the group accepts none of its assignors.",
        proof="INCONSISTENT_GROUP_PROTOCOL in the coordinator's answer to JoinGroup, and the assignors of both sides",
        look_alikes=(
            ("GROUP_FULL", "the group has as many members as it may have"),
            ("ASSIGNOR_CHANGED", "a member changed its assignors, and all members still share one"),
        ),
        advice="give every member a common entry in partition.assignment.strategy; to change the assignor, add the new "
        "one to all members first, and remove the old one in a second deploy; if another program uses this group.id, "
        "give it a group of its own",
        kind="event",
    ),
    CauseEntry(
        code="STATIC_RESTART",
        sentence="A static member came back under a new member id, and kept its partitions: no rebalance.",
        proof="a JoinGroup or heartbeat with its instance id and no member id, in a stable group",
        look_alikes=(("STATIC_DUPLICATE", "the process before still runs"),),
        kafka_log="Updating metadata for static member ...",
        kind="event",
    ),
    CauseEntry(
        code="STATIC_DUPLICATE",
        sentence="Two processes have the same group.instance.id: the earlier one is refused.",
        proof="FENCED_INSTANCE_ID to a request of the replaced member: it still ran",
        look_alikes=(
            ("STATIC_RESTART", "the process before was not heard of again; watched from outside the two are the same"),
        ),
        advice="give every process a group.instance.id of its own, and stop the one that was taken over",
        kind="event",
    ),
    CauseEntry(
        code="CONFIG_CHANGED",
        sentence="Options of the group were altered while it was there.",
        proof="the request that altered them: who sent it, and what each option was and is",
        look_alikes=(("ASSIGNOR_CHANGED", "a client has another list of assignors"),),
        advice="new timeouts hold for members from their next heartbeat on",
        kind="event",
    ),
    CauseEntry(
        code="OFFSETS_RESET",
        sentence="Committed offsets of the group were set by somebody who is no member.",
        proof="a commit without a member that moved offsets back, or to where nobody had read to",
        look_alikes=(("UNFENCED_COMMIT", "offsets moved on, as those of a reader do"),),
        advice="records between the old and the new position are read again, or never",
        kind="event",
    ),
    CauseEntry(
        code="UNFENCED_COMMIT",
        sentence="Somebody who is no member commits offsets of this group.",
        proof="commits that were accepted without a member id and a generation",
        look_alikes=(("OFFSETS_RESET", "offsets were moved back"),),
        advice="a consumer with assign() should have a group.id of its own; nothing fences it from the group's members",
        kind="event",
    ),
    CauseEntry(
        code="ZOMBIE_COMMIT",
        sentence="A member that was put out, or is behind, went on working: its commits were refused.",
        proof="UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH or a fencing error, in answer to its commits",
        look_alikes=(("UNFENCED_COMMIT", "the commit named no member, and was accepted"),),
        advice="what it handled since it was out is handled twice: make handling idempotent, and look why it was out",
        kind="event",
    ),
    CauseEntry(
        code="GROUP_DELETED",
        sentence="The group was deleted, or its last offset expired.",
        proof="the request, or the sweep of expired offsets",
        kind="event",
    ),
)
COMMITS: Final = ("OffsetCommit", "TxnOffsetCommit")
SHOWN: Final = 5
GROUP_FULL: Final = "GROUP_MAX_SIZE_REACHED"


@dataclass(slots=True)
class GroupEvent:
    """An event of a group without a rebalance."""

    group: str
    at_ms: int
    cause: str
    confidence: Confidence
    sentence: str
    evidence: list[Evidence]
    who: Who | None = None
    observed: bool = False
    refused: tuple[RequestFenced, ...] = ()


@dataclass(slots=True)
class _Group:
    """What is known of one group while its entries are read in order."""

    unloaded: GroupUnloaded | None = None
    under_way: bool = False
    zombies: dict[str, GroupEvent] = field(default_factory=dict)
    refused: dict[str, GroupEvent] = field(default_factory=dict)


def events(entries: Iterable[JournalEntry]) -> list[GroupEvent]:
    """Return the events of a journal, oldest first; repetitions within a generation are one event."""
    groups: dict[str, _Group] = {}
    found: list[GroupEvent] = []
    for entry in entries:
        if entry.observed:
            continue  # a watcher saw no more of it than it tells in its own entries
        group = groups.setdefault(entry.group, _Group())
        _follow(group, entry)
        take = TAKEN.get(type(entry))
        event = None if take is None else take(group, entry)
        if event is not None:
            found.append(event)
    return found


def _follow(group: _Group, entry: JournalEntry) -> None:
    if isinstance(entry, RoundOpened):
        group.under_way = True
    elif isinstance(entry, AssignmentWritten | RoundDropped):
        group.under_way = False
    if isinstance(entry, RoundClosed | EpochRaised):
        group.under_way = group.under_way and isinstance(entry, RoundClosed) and bool(entry.members)
        group.zombies, group.refused = {}, {}


def _loaded(group: _Group, entry: JournalEntry) -> GroupEvent | None:
    assert isinstance(entry, GroupLoaded)
    unloaded, group.unloaded = group.unloaded, None
    interrupted, group.under_way = group.under_way, False
    if not entry.members or interrupted:
        return None  # nobody noticed; or the rebalance tells of it
    evidence = [Evidence("group_loaded", f"at generation {entry.generation}", entry.at_ms)]
    size = count(len(entry.members), "member")
    if unloaded is None:
        sentence = (
            f"The group of {size} was read from its log by a broker that started, and went on without a rebalance."
        )
    else:
        away = seconds(entry.at_ms - unloaded.at_ms)
        evidence.append(Evidence("group_unloaded", f"at generation {unloaded.generation}", unloaded.at_ms))
        sentence = f"The group of {size} moved to another coordinator within {away}, without a rebalance."
    return GroupEvent(entry.group, entry.at_ms, "COORDINATOR_FAILOVER", "proof", sentence, evidence)


def _unloaded(group: _Group, entry: JournalEntry) -> None:
    assert isinstance(entry, GroupUnloaded)
    group.unloaded = entry


def _turned_away(group: _Group, entry: JournalEntry) -> GroupEvent | None:
    assert isinstance(entry, MemberTurnedAway)
    fact = Evidence("turned_away", name_and_place(entry.who), entry.at_ms)
    known = group.refused.get(entry.error)
    if known is not None:
        known.evidence.append(fact)
        return None
    if entry.error == GROUP_FULL:
        cause, facts = "GROUP_FULL", [fact]
        why = f"was not let in: the group has {count(entry.members, 'member')}, as many as it may"
    else:
        cause = "INCOMPATIBLE_ASSIGNORS"
        why = f"was refused ({printable(entry.error)}): {assignors_text(entry)}"
        facts = [fact, Evidence("assignors", assignors_text(entry), entry.at_ms)]
    event = GroupEvent(entry.group, entry.at_ms, cause, "proof", f"{_client(entry.who)} {why}.", facts, entry.who)
    group.refused[entry.error] = event
    return event


def assignors_text(entry: MemberTurnedAway) -> str:
    """Return the assignors, or protocol types, of a refused client and of its group."""
    if entry.types is not None:
        offered, accepted = (printable(name) or "none" for name in entry.types)
        return f"its protocol type is {offered}, and that of the group is {accepted}"
    offered = ", ".join(printable(name) for name in entry.offered) or "no assignor"
    accepted = ", ".join(printable(name) for name in entry.accepted) or "no assignor in common"
    return f"it supports {offered}, and all members of the group support {accepted}"


def _unfenced(_group: _Group, entry: JournalEntry) -> GroupEvent:
    assert isinstance(entry, CommitUnfenced)
    total = len(entry.offsets) + entry.more
    moves = [_offset_text(move) for move in entry.offsets[:SHOWN]]
    rest = total - len(moves)
    evidence = [Evidence("offsets", ", ".join(moves) + (f" and {rest} more" if rest else ""), entry.at_ms)]
    evidence.append(Evidence("committed_by", actor(entry.who), entry.at_ms))
    by_admin = "admin" in entry.who.client_id.lower()
    if entry.backwards or by_admin:
        back = f", {entry.backwards} of them back" if entry.backwards else ""
        sentence = f"{_client(entry.who)}, which is no member, set {count(total, 'committed offset')}{back}."
        confidence: Confidence = "proof" if entry.backwards else "high"
        return GroupEvent(entry.group, entry.at_ms, "OFFSETS_RESET", confidence, sentence, evidence, entry.who)
    how = "in a transaction, without a member id" if entry.in_transaction else "without being a member"
    sentence = f"{_client(entry.who)} commits offsets of this group {how}; nothing fences it."
    return GroupEvent(entry.group, entry.at_ms, "UNFENCED_COMMIT", "proof", sentence, evidence, entry.who)


def _offset_text(move: OffsetMove) -> str:
    before = "nothing" if move.before is None else move.before
    return f"{printable(move.topic)}-{move.partition} from {before} to {move.after}"


def _fenced(group: _Group, entry: JournalEntry) -> GroupEvent | None:
    assert isinstance(entry, RequestFenced)
    if entry.api not in COMMITS:
        return None
    fact = Evidence("refused", f"{entry.api} of generation {entry.generation}: {entry.error}", entry.at_ms)
    tried = [_tried_text(move) for move in entry.offsets[:SHOWN]]
    facts = [fact, *([Evidence("tried", ", ".join(tried), entry.at_ms)] if tried else [])]
    known = group.zombies.get(entry.who.member_id)
    if known is not None:
        known.evidence += facts
        return None
    still = "still a member, and behind" if entry.error in BEHIND else "no member any more"
    sentence = f"Member {name_and_place(entry.who)} is {still}, and worked on: its commit was refused ({entry.error})."
    event = GroupEvent(entry.group, entry.at_ms, "ZOMBIE_COMMIT", "proof", sentence, facts, entry.who)
    group.zombies[entry.who.member_id] = event
    return event


BEHIND: Final = ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH")


def _tried_text(move: OffsetMove) -> str:
    held = "" if move.before is None else f" ({move.before} is committed)"
    return f"{printable(move.topic)}-{move.partition} to {move.after}{held}"


def _options(_group: _Group, entry: JournalEntry) -> GroupEvent:
    assert isinstance(entry, OptionsChanged)
    changes = [
        f"{printable(name)} from {_option_text(was)} to {_option_text(now)}"
        for name, (was, now) in sorted(entry.options.items())
    ]
    by = f" by {actor(entry.by)}" if entry.by is not None else ""
    sentence = f"Options of the group were altered{by}: {', '.join(changes)}."
    evidence = [Evidence("option", change, entry.at_ms) for change in changes]
    return GroupEvent(entry.group, entry.at_ms, "CONFIG_CHANGED", "proof", sentence, evidence, entry.by)


def _option_text(value: int | None) -> str:
    return "the broker's" if value is None else str(value) if value < 1000 else limit(value)


def _deleted(_group: _Group, entry: JournalEntry) -> GroupEvent:
    assert isinstance(entry, GroupDeleted)
    by = f" by {actor(entry.by)}" if entry.by is not None else ""
    sentence = f"The group was deleted{by}." if entry.why == "deleted" else "The group went with its last offset."
    evidence = [Evidence("group_deleted", entry.why, entry.at_ms)]
    return GroupEvent(entry.group, entry.at_ms, "GROUP_DELETED", "proof", sentence, evidence, entry.by)


def _client(who: Who) -> str:
    return f"Client {actor(who)}" if who.client_id or who.member_id else f"A client{actor(who).removeprefix(UNKNOWN)}"


TAKEN: Final[dict[type[JournalEntry], Callable[[_Group, JournalEntry], GroupEvent | None]]] = {
    GroupLoaded: _loaded,
    GroupUnloaded: _unloaded,
    MemberTurnedAway: _turned_away,
    CommitUnfenced: _unfenced,
    RequestFenced: _fenced,
    OptionsChanged: _options,
    GroupDeleted: _deleted,
}


FENCED: Final = "FENCED_INSTANCE_ID"


@dataclass(slots=True)
class Takeover:
    """A replacement of a static member; ``refused``: requests of the earlier process, which still ran."""

    group: str
    at_ms: int
    who: Who
    old_member_id: str
    observed: bool = False
    """Seen by a watcher only."""
    refused: list[RequestFenced] = field(default_factory=list)

    @property
    def cause(self) -> str:
        """STATIC_DUPLICATE if two processes had the instance id at a time."""
        return "STATIC_DUPLICATE" if self.refused else "STATIC_RESTART"

    @property
    def confidence(self) -> Confidence:
        """Silence of the earlier process does not prove its end; a watcher cannot hear it at all."""
        return "proof" if self.refused else "medium" if self.observed else "high"

    @property
    def sentence(self) -> str:
        instance = printable(self.who.instance_id or "")
        head = f"Instance {instance} is {name_and_place(self.who)} now, and kept its partitions without a rebalance"
        if self.observed:
            return f"{head}, as the group's record says."
        if not self.refused:
            return f"{head}; {short_id(self.old_member_id)} was not heard of again."
        first = self.refused[0]
        after = seconds(first.at_ms - self.at_ms)
        return (
            f"{head}, while {short_id(self.old_member_id)} still ran: it was refused {after} later "
            f"({printable(first.api)}: {FENCED}). Two processes have the same group.instance.id."
        )

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        came = Evidence("static_replaced", f"{short_id(self.old_member_id)} became {name_of(self.who)}", self.at_ms)
        stale = [Evidence("stale_request", f"{name_of(f.who)} sent {f.api}: {f.error}", f.at_ms) for f in self.refused]
        return (came, *stale)


def takeovers(entries: Iterable[JournalEntry]) -> list[Takeover]:
    found: list[Takeover] = []
    by_old_id: dict[str, Takeover] = {}
    for entry in entries:
        if isinstance(entry, StaticReplaced):
            found.append(Takeover(entry.group, entry.at_ms, entry.who, entry.old_member_id, entry.observed))
            by_old_id[entry.old_member_id] = found[-1]
        elif isinstance(entry, RequestFenced) and entry.error == FENCED and entry.who.member_id in by_old_id:
            by_old_id[entry.who.member_id].refused.append(entry)
    return found
