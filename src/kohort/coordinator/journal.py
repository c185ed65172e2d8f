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

from kohort.coordinator.journal_events import ClientIdentity as ClientIdentity  # noqa: PLC0414
from kohort.coordinator.journal_events import JournalEntry as JournalEntry  # noqa: PLC0414 - re-exported
from kohort.coordinator.journal_events import MemberMetrics, OffsetMove

TOPIC: Final = "__kohort_journal"
"""Kafka topic to which the coordinator writes the journal of group events."""
SCHEMA: Final = "kohort/journal/1"

TriggerEvent = Literal[
    "member_joined",  # a new member sent JoinGroup
    "member_rejoined",  # a member with changed protocols, or the leader, sent JoinGroup
    "member_left",  # a member sent LeaveGroup
    "session_expired",  # the member sent no request within its session timeout
    "new_member_expired",  # five minutes passed without a generation that includes the new member
    "sync_timeout",  # members sent no SyncGroup within the rebalance timeout
    "static_replaced",  # a static member joined under a new member id and changed the protocol
    "over_capacity",  # the group was loaded with more members than group.max.size
    "append_failed",  # the append of a generation's GroupMetadata record failed
    "downgraded",  # the last consumer-protocol member left: the group became classic
]
Removal = Literal[
    "left",
    "session_expired",
    "new_member_expired",
    "join_timeout",  # the member sent no JoinGroup within the rebalance timeout
    "sync_timeout",
    "group_full",
    "pending_left",
    "pending_expired",  # a client did not join with the member id that the broker assigned
]

EpochEvent = Literal[
    "member_joined",  # a new member subscribed to topics
    "subscription_changed",  # a member subscribed to other topics or another pattern
    "assignor_changed",  # most members of the group now prefer another server assignor
    "topics_changed",  # subscribed topics were created, deleted or extended by partitions
    "regex_resolved",  # a subscription pattern matches other topics than before
    "member_left",  # a member sent a heartbeat with epoch -1, or LeaveGroup
    "session_expired",  # a member sent no heartbeat within the session timeout
    "revocation_timeout",  # a member did not revoke its partitions within the rebalance timeout
    "rejoin_timeout",  # a classic member sent no JoinGroup within the rebalance timeout
    "resync_timeout",  # a classic member sent no SyncGroup after its JoinGroup
    "converted",  # the group was converted from a classic group
    "member_departed",  # inferred by ``kohort watch`` from records: the member left or was removed
    "unexplained",  # inferred by ``kohort watch``: the records show no cause
]


class Vitals(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Timestamps and counts of a member's session at the time of a journal entry."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_seen_ms: int
    longest_gap_ms: int = 0
    """Longest time in ms between two consecutive requests of the member in the current generation."""
    connection_closed_at_ms: int | None = None
    """Time in ms at which the connection of the member's last request closed; None if open or unknown."""
    commits: int = 0
    last_progress_ms: int | None = None
    """Time in ms of the member's last commit that moved an offset forward."""
    last_commit_ms: int | None = None
    lag: int | None = None
    """Lag of the member's partitions in records, when it left; None if unknown."""
    stalled_ms: int = 0
    """Time in ms, since ``last_seen_ms``, in which the broker stalled: it processed no events."""
    stalled_at_ms: int | None = None
    """Time in ms at which the first stall of the broker since ``last_seen_ms`` began."""
    client_metrics: MemberMetrics | None = None
    """Metrics that the member's client pushed last (KIP-714); None if it pushed no metrics."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Differences between the previous and the new JoinGroup of a rejoining member."""

    was_leader: bool = False
    protocols_before: tuple[str, ...] = ()
    protocols_after: tuple[str, ...] = ()
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    owned_changed: bool = False
    """True if the member's owned partitions changed, as in the second rebalance of a cooperative client."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Subscribed topics with a new partition count: topic to count when the generation began, and current count."""
    topics_created: tuple[str, ...] = ()
    """Topics of ``topics_added`` that were created after the generation began."""
    topics_deleted: tuple[str, ...] = ()
    """Topics of ``topics_removed`` that were deleted."""
    racks: tuple[str | None, str | None] | None = None
    """Previous rack and new rack of the member (KIP-881); None if the rack is unchanged."""


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a rebalance: the event, the members concerned, and the reason text of the client."""

    event: TriggerEvent
    member: ClientIdentity | None = None
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    change: Change | None = None
    others: tuple[ClientIdentity, ...] = ()
    """Members besides ``who`` that the event concerns, as in a LeaveGroup of several members."""
    leader_lost: bool = False
    """True if the event removed the group's leader."""
    error: str | None = None


class RoundOpened(JournalEntry, frozen=True, kw_only=True, tag="round_opened"):
    """A classic group began to rebalance: all members must join again."""

    trigger: Trigger
    from_generation: int
    members: tuple[ClientIdentity, ...]
    timeout_ms: int
    initial: bool = False
    """True if the group was empty: the rebalance waits for ``timeout_ms`` so that more members can join."""


class MemberArrived(JournalEntry, frozen=True, kw_only=True, tag="member_arrived"):
    """A member sent JoinGroup, ``after_ms`` after the rebalance began."""

    member: ClientIdentity
    after_ms: int
    new: bool
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    """Session of the member before this JoinGroup, if the member rejoined late."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    """Session timeout and rebalance timeout in the JoinGroup; None in entries of older kohort versions."""
    software: str | None = None
    """Name and version of the client software (KIP-511); None if unknown."""


class MemberRemoved(JournalEntry, frozen=True, kw_only=True, tag="member_removed"):
    """A member was removed; or a member id expired that the broker had assigned and no client joined with."""

    member: ClientIdentity
    why: Removal
    reason: str | None = None
    api_version: int | None = None
    by: ClientIdentity | None = None
    """Client that requested the member's removal, unless the member left by itself."""
    vitals: Vitals | None = None


class RoundClosed(JournalEntry, frozen=True, kw_only=True, tag="round_closed"):
    """The join phase of a classic group ended: a new generation begins, or the group is empty."""

    generation: int
    members: tuple[ClientIdentity, ...]
    leader: str | None
    protocol_type: str
    protocol: str | None
    took_ms: int


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition with a new owner: member ids before and after, None without an owner."""

    topic: str
    partition: int
    before: str | None
    after: str | None


class AssignmentWritten(JournalEntry, frozen=True, kw_only=True, tag="assignment_written"):
    """The leader's assignments were persisted, ``took_ms`` after the join phase ended."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    took_ms: int
    partitions: dict[str, dict[str, tuple[int, ...]]] | None
    """Assigned partitions as a dict: member id to topic to numbers. None: over 128 KiB, or another protocol type."""
    moves: tuple[Move, ...] = ()


class RoundSettled(JournalEntry, frozen=True, kw_only=True, tag="round_settled"):
    """The last member received its SyncGroup response, ``took_ms`` after the assignments were persisted."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    last: ClientIdentity
    took_ms: int


class RoundDropped(JournalEntry, frozen=True, kw_only=True, tag="round_dropped"):
    """An append failed: the rebalance was dropped, and the requests that waited for it were refused."""

    error: str
    generation: int


class StaticReplaced(JournalEntry, frozen=True, kw_only=True, tag="static_replaced"):
    """A static member joined under a new member id and kept its partitions without a rebalance."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity
    old_member_id: str
    software: str | None = None


class RequestFenced(JournalEntry, frozen=True, kw_only=True, tag="request_fenced"):
    """A request with a stale member id, generation, epoch or instance id was refused."""

    member: ClientIdentity
    api: str
    error: str
    generation: int
    """Generation id in the refused request; ``current`` is the group's generation id."""
    current: int
    offsets: tuple[OffsetMove, ...] = ()
    """First offsets of a refused OffsetCommit, with the committed offsets of the same partitions."""
    more: int = 0


class SignsOfLife(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Activity of a departed member, observed by ``kohort watch``; None for unknown fields."""

    member_id: str
    since_ms: int
    """Time in ms at which the member joined, or last came closer to its target assignment."""
    last_commit_ms: int | None = None
    """Time in ms of the member's last commit to a partition that it owns."""
    last_progress_ms: int | None = None
    """Time in ms of the member's last commit that moved the offset of an owned partition forward."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


class EpochCause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a new group epoch (KIP-848): the event, the members concerned, and details."""

    event: EpochEvent
    member: ClientIdentity | None = None
    others: tuple[ClientIdentity, ...] = ()
    vitals: Vitals | None = None
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    """Topics that the member's subscription lost; ``topics_added``: topics that it gained."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Partition counts before and after, for created (from 0), deleted (to 0), recreated or extended topics."""
    assignor: str | None = None
    """Server assignor that the group newly prefers; None if unchanged."""
    reason: str | None = None
    """Reason text in the client's LeaveGroup."""
    signs: SignsOfLife | None = None
    """Activity of a departed member; only in entries by ``kohort watch``."""
    by: ClientIdentity | None = None
    """Client that requested the member's removal, unless the member left by itself."""
    software: str | None = None
    """Name and version of the client software of ``who``, if its own request is the cause."""


class EpochRaised(JournalEntry, frozen=True, kw_only=True, tag="epoch_raised"):
    """The epoch of a consumer group rose; its next target assignment follows within the assignment interval."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    cause: EpochCause
    members: int
    """Number of group members in the new epoch."""


class TargetComputed(JournalEntry, frozen=True, kw_only=True, tag="target_computed"):
    """The assignor computed the target assignment of a group epoch, ``after_ms`` after the epoch rose."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    assignor: str
    """Name of the server assignor; empty in entries by ``kohort watch`` if the broker chose it."""
    moves: tuple[Move, ...]
    """Partitions whose owner in this target assignment differs from their owner in the previous one."""
    members: int
    after_ms: int | None = None
    """Time in ms since the epoch rose; None if it rose before this broker loaded the group."""


class GivenPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition that was newly assigned to a member, and the time in ms for which it had no owner before."""

    topic: str
    partition: int
    unowned_ms: int | None = None


class AwaitedPartition(msgspec.Struct, frozen=True):
    """Partition of a member's target assignment that it cannot get yet, as another member still owns it."""

    topic: str
    partition: int
    owner: str
    """Member id of the partition's present owner."""


class MemberReconciled(JournalEntry, frozen=True, kw_only=True, tag="member_reconciled"):
    """A heartbeat changed a consumer group member's assignment towards its target assignment."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity
    epoch: int
    from_epoch: int
    target_epoch: int
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions"]
    """Reconciliation state: stable, before the member's own revocations, or before revocations by other members."""
    revoking: dict[str, tuple[int, ...]] = {}
    """Partitions that the member must revoke, as a dict: topic to partition numbers."""
    revoked: dict[str, tuple[int, ...]] = {}
    """Partitions that the member revoked ``revoked_after_ms`` after the broker's request: topic to numbers."""
    revoked_after_ms: int | None = None
    given: tuple[GivenPartition, ...] = ()
    awaited: tuple[AwaitedPartition, ...] = ()


class StaticAway(JournalEntry, frozen=True, kw_only=True, tag="static_away"):
    """A static member left temporarily (epoch -2): its partitions stay assigned until its session ends."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity


class SeenMember(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Member of a classic group's generation, as the GroupMetadata record describes it."""

    member: ClientIdentity
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    owned: dict[str, tuple[int, ...]] | None = None
    """Owned partitions in the member's JoinGroup metadata; None if the metadata is unreadable."""
    partitions: dict[str, tuple[int, ...]] | None = None
    """Partitions that the leader assigned to the member; None for protocol types other than consumer."""


class GenerationSeen(JournalEntry, frozen=True, kw_only=True, tag="generation_seen"):
    """Generation of a classic group that ``kohort watch`` read from ``__consumer_offsets``.

    ``at_ms`` is the coordinator's time. ``kohort watch`` samples group states, so the times of states are bounds.
    """

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[SeenMember, ...]
    joined_ms: int | None = None
    """Time in ms at which the join phase ended, according to the GroupMetadata record."""
    leader_epoch: int = -1
    """Leader epoch of the group's ``__consumer_offsets`` partition: a new one means a new coordinator."""
    signs: tuple[SignsOfLife, ...] = ()
    """Activity of each member of the previous generation, observed by ``kohort watch``."""
    settled_seen_ms: int | None = None
    """Time in ms of the last sample since the previous generation that showed no rebalance."""
    rebalancing_seen_ms: int | None = None
    """Time in ms of the first sample since the previous generation that showed a rebalance."""
    present: tuple[str, ...] | None = None
    """Ids of the members in the first sample that showed the rebalance; None without such a sample."""
    before: GenerationSeen | None = None
    """Copy of the previous generation, without ``signs``: the journal entry of that generation may be deleted."""


class GroupLoaded(JournalEntry, frozen=True, kw_only=True, tag="group_loaded"):
    """A coordinator loaded the group from ``__consumer_offsets``."""

    generation: int
    members: tuple[ClientIdentity, ...]
    partitions: dict[str, dict[str, tuple[int, ...]]] | None = None


class GroupUnloaded(JournalEntry, frozen=True, kw_only=True, tag="group_unloaded"):
    """The broker stopped coordinating the group: another broker coordinates it."""

    generation: int


class GroupConverted(JournalEntry, frozen=True, kw_only=True, tag="group_converted"):
    """The group changed its protocol (classic or consumer) and kept its members."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    to: Literal["consumer", "classic"]
    epoch: int
    """Group epoch of the new consumer group, or generation id of the new classic group; the number stays equal."""
    members: tuple[ClientIdentity, ...]
    by: ClientIdentity | None = None
    """Member whose join or departure caused the conversion."""


class GroupDeleted(JournalEntry, frozen=True, kw_only=True, tag="group_deleted"):
    """The group was deleted, by DeleteGroups or because its last offset expired."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    why: Literal["deleted", "expired", "unknown"]
    by: ClientIdentity | None = None


KINDS: Final = tuple(sorted(JournalEntry.__subclasses__(), key=lambda kind: kind.__module__ != __name__))
AnyEntry: Any = Union[KINDS]  # noqa: UP007 - msgspec finds the type by its tag
_BY_TAG: Final[dict[Any, type[JournalEntry]]] = {str(kind.__struct_config__.tag): kind for kind in KINDS}


def build_entry(entry: JournalEntry) -> bytes:
    """Encode a journal entry as JSON; lone surrogates are kept."""
    named: dict[str, Any] = {"schema": SCHEMA} | msgspec.to_builtins(entry)
    return json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def parse_entry(value: bytes) -> JournalEntry:
    """Parse a journal record's value. Raises ValueError for an unknown kind, an invalid field or invalid JSON."""
    try:
        tree = json.loads(value)
        tag = tree.get("kind") if isinstance(tree, dict) else None
        known = _BY_TAG.get(tag) if isinstance(tag, str) else None
        # msgspec converts a journal entry to its own type thirty times faster than to the union of all types
        entry: JournalEntry = msgspec.convert(tree, AnyEntry if known is None else known)
    except RecursionError as error:
        raise ValueError("journal entry: JSON is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise ValueError(f"not a journal entry of {SCHEMA}: {error}") from error
    return entry
