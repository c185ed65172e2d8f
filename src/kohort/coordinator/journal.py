"""The journal of group events: what the coordinator saw, when, with the evidence, as values that go to JSON and back.

The coordinator writes entries and never reads them; ``kohort.insight`` makes causes and sentences of them. An entry
states facts (who, how long silent, which reason text came with the request), not conclusions. Free text from clients
is kept as it came: code that shows it has to escape it.

The entries are the declaration of what is stored, too: JSON's names are the fields' names, what has its default value
is left out, and fields that this version does not know are ignored, so that an older tool reads a newer broker's
journal. So a field may be added, with a default; none may be renamed, and no default may change.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, Literal, get_args

import msgspec

from kohort.coordinator.journal_events import (
    CommitUnfenced,
    MemberDisconnected,
    MemberMetrics,
    MemberTurnedAway,
    OffsetMove,
    OptionsChanged,
    PartitionsResumed,
)
from kohort.coordinator.journal_events import JournalEntry as JournalEntry  # noqa: PLC0414 - the door of the journal
from kohort.coordinator.journal_events import Who as Who  # noqa: PLC0414

TOPIC: Final = "__kohort_journal"
"""Where the entries are kept; what a broker keeps there is documented with its writer."""
SCHEMA: Final = "kohort/journal/1"

TriggerEvent = Literal[
    "member_joined",  # a new member
    "member_rejoined",  # a member whose protocols changed, or the leader, sent JoinGroup again
    "member_left",  # LeaveGroup
    "session_expired",  # no sign of life within the session timeout
    "new_member_expired",  # a new member whose first generation did not come within five minutes
    "sync_timeout",  # members did not send SyncGroup in time
    "static_replaced",  # a static member came back under a new id, and the group could not go on as it was
    "over_capacity",  # loaded with more members than group.max.size
    "append_failed",  # the generation could not be written
    "downgraded",  # the last member of the new protocol went, and the group is a classic one again
]
Removal = Literal[
    "left",
    "session_expired",
    "new_member_expired",
    "join_timeout",  # did not rejoin while the round was open
    "sync_timeout",
    "group_full",
    "pending_left",
    "pending_expired",  # was given an id and never came back with it
]

EpochEvent = Literal[
    "member_joined",  # a new member with a subscription
    "subscription_changed",  # a member subscribes to other topics, or by another expression
    "assignor_changed",  # most members prefer another assignor now
    "topics_changed",  # topics that members subscribe to were made, deleted, or given partitions
    "regex_resolved",  # an expression matches other topics than before
    "member_left",  # a heartbeat with epoch -1, or LeaveGroup
    "session_expired",  # no sign of life within the session timeout
    "revocation_timeout",  # a member did not give up what it was told to within its rebalance timeout
    "rejoin_timeout",  # a member of the classic protocol was told to join again, and did not
    "resync_timeout",  # a member of the classic protocol joined, and sent no SyncGroup
    "converted",  # the group came from the classic protocol
    "member_gone",  # seen from the outside: it left, or was put out
    "unexplained",  # seen from the outside: the records do not say why
]


class Vitals(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was known of a member at the time of the entry."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_seen_ms: int
    longest_gap_ms: int = 0
    """The longest silence between two of its requests since it joined the generation."""
    connection_closed_at_ms: int | None = None
    """When the connection of its last request closed; None if it is open, as far as is known."""
    commits: int = 0
    last_progress_ms: int | None = None
    """When a commit of this member last moved an offset forward."""
    last_commit_ms: int | None = None
    lag: int | None = None
    """Records that waited in what it had committed, when it left; None where that is not known."""
    stalled_ms: int = 0
    """How long the broker itself stood still since ``last_seen_ms``."""
    stalled_at_ms: int | None = None
    """When it began to, first."""
    client_metrics: MemberMetrics | None = msgspec.field(default=None, name="said")
    """What its client had pushed of itself; None if it had not."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How a rejoining member differs from what it was."""

    was_leader: bool = False
    protocols_before: tuple[str, ...] = ()
    protocols_after: tuple[str, ...] = ()
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    owned_changed: bool = False
    """The subscription differs in the partitions owned, as in the second round of a cooperative rebalance."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Subscribed topics whose number of partitions changed since the generation began: before and after."""
    topics_made: tuple[str, ...] = ()
    """Of ``topics_added``: those that did not exist when the generation began."""
    topics_gone: tuple[str, ...] = ()
    """Of ``topics_removed``: those that do not exist any more."""
    racks: tuple[str | None, str | None] | None = None
    """Where the member ran and runs (KIP-881), if that differs."""


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a round was opened: what happened, to whom, and what the client said about it."""

    event: TriggerEvent
    who: Who | None = None
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    change: Change | None = None
    others: tuple[Who, ...] = ()
    """Further members of the same event, such as a LeaveGroup of several."""
    leader_lost: bool = False
    """The leader is among those who are gone."""
    error: str | None = None


class RoundOpened(JournalEntry, frozen=True, kw_only=True, tag="round_opened"):
    """The group began to rebalance: members must join again."""

    trigger: Trigger
    from_generation: int
    members: tuple[Who, ...]
    timeout_ms: int
    initial: bool = False
    """The group was empty and waits ``timeout_ms`` for more members to come."""


class MemberArrived(JournalEntry, frozen=True, kw_only=True, tag="member_arrived"):
    """A JoinGroup was parked in the open round, ``after_ms`` after it opened."""

    who: Who
    after_ms: int
    new: bool
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    """Of one that let others wait: what was known of it just before it came."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    """What it asks for; None in entries of older versions."""
    software: str | None = None
    """What its client says it is, name and version (KIP-511); None where it did not say, or to older versions."""


class MemberRemoved(JournalEntry, frozen=True, kw_only=True, tag="member_removed"):
    """A member, or a pending one, is gone."""

    who: Who
    why: Removal
    reason: str | None = None
    api_version: int | None = None
    by: Who | None = None
    """Who asked for it, where that was not the member itself."""
    vitals: Vitals | None = None


class RoundClosed(JournalEntry, frozen=True, kw_only=True, tag="round_closed"):
    """The join phase is over: a new generation, or an empty group."""

    generation: int
    members: tuple[Who, ...]
    leader: str | None
    protocol_type: str
    protocol: str | None
    took_ms: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition that changed hands; ``None`` is nobody."""

    topic: str
    partition: int
    before: str | None
    after: str | None


class AssignmentWritten(JournalEntry, frozen=True, kw_only=True, tag="assignment_written"):
    """The leader's assignment is on the log; ``took_ms`` after the join phase ended."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    took_ms: int
    partitions: dict[str, dict[str, tuple[int, ...]]] | None
    """Member id to topic to partitions; None for other protocols, and for assignments of more than 128 KiB."""
    moves: tuple[Move, ...] = ()


class RoundSettled(JournalEntry, frozen=True, kw_only=True, tag="round_settled"):
    """The last member has its assignment, ``took_ms`` after it was written."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    last: Who
    took_ms: int


class RoundDropped(JournalEntry, frozen=True, kw_only=True, tag="round_dropped"):
    """Records could not be appended: the round under way was given up and its requests were refused."""

    error: str
    generation: int


class StaticReplaced(JournalEntry, frozen=True, kw_only=True, tag="static_replaced"):
    """A static member came back under a new id and kept its partitions, without a rebalance."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who
    old_member_id: str
    software: str | None = None
    """As ``MemberArrived.software``."""


class RequestFenced(JournalEntry, frozen=True, kw_only=True, tag="request_fenced"):
    """A request was refused because its sender is not, or no longer, what it believes to be."""

    who: Who
    api: str
    error: str
    generation: int
    """What the request named; the group is at ``current``."""
    current: int
    offsets: tuple[OffsetMove, ...] = ()
    """Of a commit: the first few that it tried, with what is committed."""
    more: int = 0


class SignsOfLife(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What could be seen of a member from the outside, until it was gone. Unknown is None."""

    member_id: str
    since_ms: int
    """When the coordinator last had a request of it for certain: it joined, or came nearer to its target."""
    last_commit_ms: int | None = None
    """When an offset of a partition that it has was last committed, since it has it."""
    last_progress_ms: int | None = None
    """When such a commit last moved an offset forward."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


class EpochCause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why the epoch of a consumer group rose (KIP-848): what happened, to whom, with the evidence."""

    event: EpochEvent
    who: Who | None = None
    others: tuple[Who, ...] = ()
    """Further members of the same event, such as a LeaveGroup of several."""
    vitals: Vitals | None = None
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    """What the member subscribes to now and did not before, and the other way round."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Topics that were made (from 0), deleted (to 0), made anew, or given partitions: how many they had and have."""
    assignor: str | None = None
    """The one that most members prefer now, where that changed."""
    reason: str | None = None
    """What the client said about it."""
    signs: SignsOfLife | None = None
    """Of a member that is gone, where nobody but a watcher saw it."""
    by: Who | None = None
    """Who asked for it, where that was not the member itself."""
    software: str | None = None
    """What the client of ``who`` says it is, as ``MemberArrived.software``, where a request of its own is the cause."""


class EpochRaised(JournalEntry, frozen=True, kw_only=True, tag="epoch_raised"):
    """A consumer group has another epoch: a new target is due, within the assignment interval."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    cause: EpochCause
    members: int
    """How many the group has now."""


class TargetComputed(JournalEntry, frozen=True, kw_only=True, tag="target_computed"):
    """The target of a consumer group was computed for an epoch of it, ``after_ms`` after the epoch rose."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    assignor: str
    """Empty where nobody but a watcher saw it, and it is the broker's choice."""
    moves: tuple[Move, ...]
    """Partitions that are to be somebody else's now, or somebody's."""
    members: int
    after_ms: int | None = None
    """None where the epoch is older than what this broker remembers."""


class GivenPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition that a member was given, and how long nobody had had it, as far as is known."""

    topic: str
    partition: int
    unowned_ms: int | None = None


class AwaitedPartition(msgspec.Struct, frozen=True):
    """A partition that a member is to have once another lets go of it."""

    topic: str
    partition: int
    owner: str
    """A member id."""


class MemberReconciled(JournalEntry, frozen=True, kw_only=True, tag="member_reconciled"):
    """A member of a consumer group came a step nearer to its target."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who
    epoch: int
    from_epoch: int
    target_epoch: int
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions"]
    """What is awaited: nothing, the member, or others."""
    revoking: dict[str, tuple[int, ...]] = {}
    """What it is told to give up, by topic."""
    revoked: dict[str, tuple[int, ...]] = {}
    """What it has given up, ``revoked_after_ms`` after it was told to."""
    revoked_after_ms: int | None = None
    given: tuple[GivenPartition, ...] = ()
    awaited: tuple[AwaitedPartition, ...] = ()


class StaticAway(JournalEntry, frozen=True, kw_only=True, tag="static_away"):
    """A static member left, and said that it will be back: it keeps its place until its session ends."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who


class SeenMember(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A member of a generation as the record of the generation has it."""

    who: Who
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    owned: dict[str, tuple[int, ...]] | None = None
    """What it said that it still had when it joined; None where that cannot be read."""
    partitions: dict[str, tuple[int, ...]] | None = None
    """What the leader gave it; None where the protocol is not the consumers'."""


class GenerationSeen(JournalEntry, frozen=True, kw_only=True, tag="generation_seen"):
    """A classic group's generation, seen in ``__consumer_offsets``: all that is written of a rebalance there.

    Written at ``at_ms`` by the coordinator's clock. The states were seen by asking now and then: bounds, no times.
    """

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[SeenMember, ...]
    joined_ms: int | None = None
    """When the join phase was over, as the record says."""
    leader_epoch: int = -1
    """Of the partition of ``__consumer_offsets``; another one is another term of its coordinator, or another one."""
    signs: tuple[SignsOfLife, ...] = ()
    """Of each member of the generation before, until this one."""
    settled_seen_ms: int | None = None
    """When the group was last seen not to rebalance, since the generation before."""
    rebalancing_seen_ms: int | None = None
    """When it was first seen to rebalance since then."""
    present: tuple[str, ...] | None = None
    """The member ids that it had then; None where nobody asked in time."""
    before: GenerationSeen | None = None
    """The generation before, where that was so long ago that its own entry may be gone, or lies before what is read;
    its signs are left out."""


class GroupLoaded(JournalEntry, frozen=True, kw_only=True, tag="group_loaded"):
    """The group was read from the log, at a start or when this broker became its coordinator."""

    generation: int
    members: tuple[Who, ...]
    partitions: dict[str, dict[str, tuple[int, ...]]] | None = None


class GroupUnloaded(JournalEntry, frozen=True, kw_only=True, tag="group_unloaded"):
    """This broker is no longer the group's coordinator."""

    generation: int


class GroupConverted(JournalEntry, frozen=True, kw_only=True, tag="group_converted"):
    """The group goes on under the other protocol, with the members that it has."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    to: Literal["consumer", "classic"]
    epoch: int
    """The generation that became the group's epoch, or the other way around."""
    members: tuple[Who, ...]
    by: Who | None = None
    """Whose coming, or going, brought it about."""


class GroupDeleted(JournalEntry, frozen=True, kw_only=True, tag="group_deleted"):
    """The group is gone: by DeleteGroups, or because its last offset expired."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    why: Literal["deleted", "expired", "unknown"]
    by: Who | None = None


AnyEntry = (
    RoundOpened
    | MemberArrived
    | MemberRemoved
    | RoundClosed
    | AssignmentWritten
    | RoundSettled
    | RoundDropped
    | StaticReplaced
    | RequestFenced
    | EpochRaised
    | TargetComputed
    | MemberReconciled
    | StaticAway
    | GenerationSeen
    | GroupLoaded
    | GroupUnloaded
    | GroupConverted
    | GroupDeleted
    | MemberTurnedAway
    | MemberDisconnected
    | CommitUnfenced
    | OptionsChanged
    | PartitionsResumed
)
KINDS: Final[tuple[type[JournalEntry], ...]] = get_args(AnyEntry)
_BY_TAG: Final[dict[Any, type[JournalEntry]]] = {str(kind.__struct_config__.tag): kind for kind in KINDS}


def build_entry(entry: JournalEntry) -> bytes:
    """Return ``entry`` as JSON; text that is no Unicode (a lone surrogate) is kept as it came."""
    named: dict[str, Any] = {"schema": SCHEMA} | msgspec.to_builtins(entry)
    return json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def parse_entry(value: bytes) -> JournalEntry:
    """Return the entry that a record of the journal holds.

    Raises ValueError for a kind yet unknown, for fields that do not fit, and for bytes that are no JSON.
    """
    try:
        tree = json.loads(value)
        tag = tree.get("kind") if isinstance(tree, dict) else None
        known = _BY_TAG.get(tag) if isinstance(tag, str) else None
        # msgspec looks through a union anew at each call, which takes thirty times as long as the entry itself.
        entry: JournalEntry = msgspec.convert(tree, AnyEntry if known is None else known)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise ValueError(f"not a journal entry of {SCHEMA}: {error}") from error
    return entry
