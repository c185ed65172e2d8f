"""Journal of group events: the types of its entries, and their JSON.

The coordinator writes entries; ``kohort.insight`` derives causes and sentences. An entry states facts (member, silence
in ms, reason text of the request), no conclusions. Text from clients is unescaped.

Entries are a stored format: JSON names are field names, default values are left out, unknown fields are ignored. So a
field may be added with a default; none may be renamed, and no default may change.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, Literal, Union

import msgspec

from kohort.coordinator.journal_events import JournalEntry as JournalEntry  # noqa: PLC0414 - re-exported
from kohort.coordinator.journal_events import MemberMetrics, OffsetMove
from kohort.coordinator.journal_events import Who as Who  # noqa: PLC0414

TOPIC: Final = "__kohort_journal"
"""Kafka topic of the journal."""
SCHEMA: Final = "kohort/journal/1"

TriggerEvent = Literal[
    "member_joined",  # a new member sent JoinGroup
    "member_rejoined",  # a member with changed protocols, or the leader, sent JoinGroup again
    "member_left",  # a member sent LeaveGroup
    "session_expired",  # the member sent no request within its session timeout
    "new_member_expired",  # a new member got no generation within five minutes
    "sync_timeout",  # members sent no SyncGroup within the rebalance timeout
    "static_replaced",  # a static member joined under a new member id and changed the protocol
    "over_capacity",  # loaded with more members than group.max.size
    "append_failed",  # the generation record could not be appended
    "downgraded",  # the last consumer-protocol member left, and the group became classic
]
Removal = Literal[
    "left",
    "session_expired",
    "new_member_expired",
    "join_timeout",  # the member sent no JoinGroup within the rebalance timeout
    "sync_timeout",
    "group_full",
    "pending_left",
    "pending_expired",  # the broker assigned a member id, but its client did not join with it
]

EpochEvent = Literal[
    "member_joined",  # a new member subscribed to topics
    "subscription_changed",  # a member subscribed to other topics or another pattern
    "assignor_changed",  # most members now prefer another assignor
    "topics_changed",  # subscribed topics were created, deleted, or got more partitions
    "regex_resolved",  # a subscription pattern matches other topics than before
    "member_left",  # a member sent a heartbeat with epoch -1, or LeaveGroup
    "session_expired",  # a member sent no heartbeat within the session timeout
    "revocation_timeout",  # a member did not revoke its partitions within the rebalance timeout
    "rejoin_timeout",  # a classic member sent no JoinGroup within the rebalance timeout
    "resync_timeout",  # a classic member sent no SyncGroup after its JoinGroup
    "converted",  # the group was converted from a classic group
    "member_gone",  # inferred by ``kohort watch`` from records: the member left or was removed
    "unexplained",  # inferred by ``kohort watch``: the records show no cause
]


class Vitals(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Session facts of a member when the journal entry was written."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_seen_ms: int
    longest_gap_ms: int = 0
    """Longest time in ms between two requests of the member in this generation."""
    connection_closed_at_ms: int | None = None
    """Closing time of the connection of the member's last request; None if the connection is open or unknown."""
    commits: int = 0
    last_progress_ms: int | None = None
    """Time of the member's last commit that moved an offset forward."""
    last_commit_ms: int | None = None
    lag: int | None = None
    """Records between the member's committed offsets and the log ends when it left; None if unknown."""
    stalled_ms: int = 0
    """Time in ms in which the broker processed no events since ``last_seen_ms``."""
    stalled_at_ms: int | None = None
    """Time at which the broker's first stall since ``last_seen_ms`` began."""
    client_metrics: MemberMetrics | None = msgspec.field(default=None, name="said")
    """Last metrics that the client pushed (KIP-714); None if it pushed no metrics."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Differences between a rejoining member's previous and new JoinGroup."""

    was_leader: bool = False
    protocols_before: tuple[str, ...] = ()
    protocols_after: tuple[str, ...] = ()
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    owned_changed: bool = False
    """True if the member's owned partitions differ, as in the second rebalance of a cooperative client."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Subscribed topics with a changed partition count: count when the generation began, count now."""
    topics_made: tuple[str, ...] = ()
    """Topics of ``topics_added`` that were created after the generation began."""
    topics_gone: tuple[str, ...] = ()
    """Topics of ``topics_removed`` that were deleted."""
    racks: tuple[str | None, str | None] | None = None
    """Previous and new rack of the member (KIP-881); None if unchanged."""


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a rebalance: the event, its members, and the client's reason text."""

    event: TriggerEvent
    who: Who | None = None
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    change: Change | None = None
    others: tuple[Who, ...] = ()
    """Members besides the first one that the event concerns, such as a LeaveGroup of several members."""
    leader_lost: bool = False
    """True if the group's leader is among the removed members."""
    error: str | None = None


class RoundOpened(JournalEntry, frozen=True, kw_only=True, tag="round_opened"):
    """A classic group began to rebalance: all members must join again."""

    trigger: Trigger
    from_generation: int
    members: tuple[Who, ...]
    timeout_ms: int
    initial: bool = False
    """True if the group was empty: the rebalance waits ``timeout_ms`` for more members."""


class MemberArrived(JournalEntry, frozen=True, kw_only=True, tag="member_arrived"):
    """The group received a member's JoinGroup ``after_ms`` after the rebalance began."""

    who: Who
    after_ms: int
    new: bool
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    """Session facts of a late member just before its JoinGroup."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    """Session and rebalance timeout in the JoinGroup; None in entries of older kohort versions."""
    software: str | None = None
    """Name and version of the client (KIP-511); None if unknown."""


class MemberRemoved(JournalEntry, frozen=True, kw_only=True, tag="member_removed"):
    """A member was removed, or a member id that the broker assigned and no client used."""

    who: Who
    why: Removal
    reason: str | None = None
    api_version: int | None = None
    by: Who | None = None
    """Client that requested the removal, if not the member itself."""
    vitals: Vitals | None = None


class RoundClosed(JournalEntry, frozen=True, kw_only=True, tag="round_closed"):
    """The join phase ended: a new generation, or an empty group."""

    generation: int
    members: tuple[Who, ...]
    leader: str | None
    protocol_type: str
    protocol: str | None
    took_ms: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition that changed its owner; an owner is None if the partition is unowned."""

    topic: str
    partition: int
    before: str | None
    after: str | None


class AssignmentWritten(JournalEntry, frozen=True, kw_only=True, tag="assignment_written"):
    """The leader's assignment is persisted, ``took_ms`` after the join phase ended."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    took_ms: int
    partitions: dict[str, dict[str, tuple[int, ...]]] | None
    """Assigned partitions by member id and topic; None for other protocol types, and for assignments over 128 KiB."""
    moves: tuple[Move, ...] = ()


class RoundSettled(JournalEntry, frozen=True, kw_only=True, tag="round_settled"):
    """The last member received its assignment, ``took_ms`` after the assignment was persisted."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    last: Who
    took_ms: int


class RoundDropped(JournalEntry, frozen=True, kw_only=True, tag="round_dropped"):
    """The group's rebalance was dropped after a failed append, and its waiting requests were refused."""

    error: str
    generation: int


class StaticReplaced(JournalEntry, frozen=True, kw_only=True, tag="static_replaced"):
    """A static member joined under a new member id and kept its partitions, without a rebalance."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who
    old_member_id: str
    software: str | None = None


class RequestFenced(JournalEntry, frozen=True, kw_only=True, tag="request_fenced"):
    """A request was refused for a stale member id, generation, epoch or instance id."""

    who: Who
    api: str
    error: str
    generation: int
    """Generation in the refused request; ``current`` is the group's generation."""
    current: int
    offsets: tuple[OffsetMove, ...] = ()
    """First offsets of a refused commit, with the previously committed ones."""
    more: int = 0


class SignsOfLife(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Activity of a departed member, as ``kohort watch`` observed it; None for unknown values."""

    member_id: str
    since_ms: int
    """Time at which the member joined, or its assignment last came closer to its target assignment."""
    last_commit_ms: int | None = None
    """Time of the member's last commit for a partition that it owns."""
    last_progress_ms: int | None = None
    """Time of the member's last commit that moved the offset of an owned partition forward."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


class EpochCause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a higher epoch of a consumer group (KIP-848): the event, its members, and evidence."""

    event: EpochEvent
    who: Who | None = None
    others: tuple[Who, ...] = ()
    vitals: Vitals | None = None
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    """Topics that the member's subscription gained and lost."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Topics that were created (from 0), deleted (to 0), recreated or extended: partitions before and now."""
    assignor: str | None = None
    """New preferred assignor of the group; None if unchanged."""
    reason: str | None = None
    """Reason text of the client's request."""
    signs: SignsOfLife | None = None
    """Activity of a departed member, in entries that ``kohort watch`` wrote."""
    by: Who | None = None
    """Client that requested the removal, if not the member itself."""
    software: str | None = None
    """Client name and version of ``who``, as ``MemberArrived.software``, if its own request is the cause."""


class EpochRaised(JournalEntry, frozen=True, kw_only=True, tag="epoch_raised"):
    """The epoch of a consumer group rose; a new target assignment follows within the assignment interval."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    cause: EpochCause
    members: int
    """Number of group members after the change."""


class TargetComputed(JournalEntry, frozen=True, kw_only=True, tag="target_computed"):
    """The target assignment of a group epoch was computed, ``after_ms`` after the epoch rose."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    assignor: str
    """Name of the assignor; empty in entries of ``kohort watch`` if the broker chose the assignor."""
    moves: tuple[Move, ...]
    """Partitions that the new target assignment moves to another member."""
    members: int
    after_ms: int | None = None
    """Time in ms since the epoch rose; None if it rose before this broker loaded the group."""


class GivenPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition newly assigned to a member, and the time in ms for which it had no owner."""

    topic: str
    partition: int
    unowned_ms: int | None = None


class AwaitedPartition(msgspec.Struct, frozen=True):
    """Partition of a member's target assignment that another member still owns."""

    topic: str
    partition: int
    owner: str
    """Id of the member that still owns the partition."""


class MemberReconciled(JournalEntry, frozen=True, kw_only=True, tag="member_reconciled"):
    """The assignment of a consumer group's member came closer to its target assignment."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who
    epoch: int
    from_epoch: int
    target_epoch: int
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions"]
    """Stable, waiting for the member's own revocation, or for other members' revocations."""
    revoking: dict[str, tuple[int, ...]] = {}
    """Partitions that the member must revoke, by topic."""
    revoked: dict[str, tuple[int, ...]] = {}
    """Partitions revoked ``revoked_after_ms`` after the broker requested the revocation."""
    revoked_after_ms: int | None = None
    given: tuple[GivenPartition, ...] = ()
    awaited: tuple[AwaitedPartition, ...] = ()


class StaticAway(JournalEntry, frozen=True, kw_only=True, tag="static_away"):
    """A static member left temporarily (epoch -2): its partitions stay assigned until its session ends."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    who: Who


class SeenMember(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Member of a classic group's generation, read from the GroupMetadata record."""

    who: Who
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    owned: dict[str, tuple[int, ...]] | None = None
    """Owned partitions in the member's JoinGroup; None if unreadable."""
    partitions: dict[str, tuple[int, ...]] | None = None
    """Partitions that the leader assigned to the member; None for other protocol types."""


class GenerationSeen(JournalEntry, frozen=True, kw_only=True, tag="generation_seen"):
    """Generation of a classic group, which ``kohort watch`` read from ``__consumer_offsets``.

    ``at_ms`` is the coordinator's clock. States were sampled, so their times are bounds.
    """

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[SeenMember, ...]
    joined_ms: int | None = None
    """End of the join phase, by the GroupMetadata record."""
    leader_epoch: int = -1
    """Leader epoch of the group's ``__consumer_offsets`` partition; it changes with the coordinator."""
    signs: tuple[SignsOfLife, ...] = ()
    """Activity of each member of the previous generation."""
    settled_seen_ms: int | None = None
    """Time of the last sample after the previous generation in which the group was not rebalancing."""
    rebalancing_seen_ms: int | None = None
    """Time of the first sample after the previous generation in which the group was rebalancing."""
    present: tuple[str, ...] | None = None
    """Ids of the members in the first sample of the rebalance; None without a sample."""
    before: GenerationSeen | None = None
    """Previous generation, if its own entry may be deleted or outside of the read range; without ``signs``."""


class GroupLoaded(JournalEntry, frozen=True, kw_only=True, tag="group_loaded"):
    """The coordinator loaded the group from the log."""

    generation: int
    members: tuple[Who, ...]
    partitions: dict[str, dict[str, tuple[int, ...]]] | None = None


class GroupUnloaded(JournalEntry, frozen=True, kw_only=True, tag="group_unloaded"):
    """The broker is no longer the group's coordinator."""

    generation: int


class GroupConverted(JournalEntry, frozen=True, kw_only=True, tag="group_converted"):
    """The group continues under the other protocol (classic or consumer), with its members."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    to: Literal["consumer", "classic"]
    epoch: int
    """Group epoch after the conversion, equal to the classic generation, or the reverse."""
    members: tuple[Who, ...]
    by: Who | None = None
    """Member that caused the conversion by joining or leaving."""


class GroupDeleted(JournalEntry, frozen=True, kw_only=True, tag="group_deleted"):
    """The group was deleted: by DeleteGroups, or after its last offset expired."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    why: Literal["deleted", "expired", "unknown"]
    by: Who | None = None


KINDS: Final = tuple(sorted(JournalEntry.__subclasses__(), key=lambda kind: kind.__module__ != __name__))
AnyEntry: Any = Union[KINDS]  # noqa: UP007 - msgspec finds the type by its tag
_BY_TAG: Final[dict[Any, type[JournalEntry]]] = {str(kind.__struct_config__.tag): kind for kind in KINDS}


def build_entry(entry: JournalEntry) -> bytes:
    """Encode a journal entry as JSON; lone surrogates are kept."""
    named: dict[str, Any] = {"schema": SCHEMA} | msgspec.to_builtins(entry)
    return json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def parse_entry(value: bytes) -> JournalEntry:
    """Parse a journal record. Raises ValueError for unknown kinds, invalid fields and invalid JSON."""
    try:
        tree = json.loads(value)
        tag = tree.get("kind") if isinstance(tree, dict) else None
        known = _BY_TAG.get(tag) if isinstance(tag, str) else None
        # msgspec converts a journal entry to one known type thirty times faster than to the union of all types
        entry: JournalEntry = msgspec.convert(tree, AnyEntry if known is None else known)
    except RecursionError as error:
        raise ValueError("journal entry: JSON is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise ValueError(f"not a journal entry of {SCHEMA}: {error}") from error
    return entry
