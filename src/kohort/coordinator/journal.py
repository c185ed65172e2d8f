"""Journal of group events: the types of its entries, and their JSON.

The coordinator writes entries; ``kohort.insight`` derives causes and sentences from them. An entry states facts
(member, silence in ms, reason text of the request), no conclusions. Text from clients is unescaped.

Entries are a stored format. Their JSON names are the field names; default values are omitted; unknown fields are
ignored. So a new field needs a default. Never rename a field, and never change a default.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final, Literal, Union

import msgspec

from kohort.coordinator.journal_events import ClientIdentity as ClientIdentity  # noqa: PLC0414
from kohort.coordinator.journal_events import JournalEntry as JournalEntry  # noqa: PLC0414 - re-exported
from kohort.coordinator.journal_events import MemberMetrics, OffsetMove

TOPIC: Final = "__kohort_journal"
"""Kafka topic in which the coordinator stores the journal of group events."""
SCHEMA: Final = "kohort/journal/1"

TriggerEvent = Literal[
    "member_joined",  # a new member sent JoinGroup
    "member_rejoined",  # the leader, or a member with changed protocols, sent JoinGroup again
    "member_left",  # a member sent LeaveGroup
    "session_expired",  # the member sent no request within its session timeout
    "new_member_expired",  # no generation included the new member within five minutes
    "sync_timeout",  # members sent no SyncGroup within the rebalance timeout
    "static_replaced",  # a static member joined under a new member id, and the group must rebalance
    "over_capacity",  # the group had more members than group.max.size when it was loaded
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
    "pending_expired",  # no client joined with the pending member id in time
]

EpochEvent = Literal[
    "member_joined",  # a new member subscribed to topics
    "subscription_changed",  # a member changed its topic names or its pattern
    "assignor_changed",  # most members now prefer another server assignor
    "topics_changed",  # a subscribed topic was created or deleted, or got more partitions
    "regex_resolved",  # a subscription pattern matches other topics than before
    "member_left",  # a member sent a heartbeat with epoch -1, or LeaveGroup
    "session_expired",  # a member sent no heartbeat within the session timeout
    "revocation_timeout",  # a member did not revoke its partitions within the rebalance timeout
    "rejoin_timeout",  # a classic member sent no JoinGroup within the rebalance timeout
    "resync_timeout",  # a classic member sent no SyncGroup after its JoinGroup
    "converted",  # the group was converted from a classic group
    "member_departed",  # a member left or was removed; ``kohort watch`` inferred this from records
    "unexplained",  # ``kohort watch`` found no cause in the records
]


class Vitals(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Times and counts of a member's session at the time of a journal entry."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_seen_ms: int
    longest_gap_ms: int = 0
    """Longest time in ms between two successive requests of the member in the current generation."""
    connection_closed_at_ms: int | None = None
    """Time in ms at which the connection of the member's last request closed; None if it is open or unknown."""
    commits: int = 0
    last_progress_ms: int | None = None
    """Time in ms of the member's last commit that moved an offset forward."""
    last_commit_ms: int | None = None
    lag: int | None = None
    """Lag in records of the member's partitions when the member left; None if unknown."""
    stalled_ms: int = 0
    """Total duration in ms of the broker's stalls since ``last_seen_ms``. A stalled broker processes no events."""
    stalled_at_ms: int | None = None
    """Time in ms at which the first stall since ``last_seen_ms`` began; None without a stall."""
    client_metrics: MemberMetrics | None = None
    """Last metrics that the member's client pushed (KIP-714); None if it pushed none."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Differences between a rejoining member's previous JoinGroup and its new one."""

    was_leader: bool = False
    protocols_before: tuple[str, ...] = ()
    protocols_after: tuple[str, ...] = ()
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    owned_changed: bool = False
    """True if the member reports other owned partitions than before, for example after a revocation."""
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Subscribed topics with a new partition count, as a dict: topic -> (count at generation start, count now)."""
    topics_created: tuple[str, ...] = ()
    """Topics in ``topics_added`` that were created after the generation began."""
    topics_deleted: tuple[str, ...] = ()
    """Topics in ``topics_removed`` that were deleted."""
    racks: tuple[str | None, str | None] | None = None
    """Previous and new rack of the member (KIP-881); None if its rack is unchanged."""


class Trigger(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a rebalance: the event, its members, and the reason text of the client."""

    event: TriggerEvent
    member: ClientIdentity | None = None
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    change: Change | None = None
    others: tuple[ClientIdentity, ...] = ()
    """Members of the event except ``member``. For example, a LeaveGroup may remove several members."""
    leader_lost: bool = False
    """True if the event removed the leader of the group."""
    error: str | None = None


class RoundOpened(JournalEntry, frozen=True, kw_only=True, tag="round_opened"):
    """A classic group began a rebalance: all members must join again."""

    trigger: Trigger
    from_generation: int
    members: tuple[ClientIdentity, ...]
    timeout_ms: int
    initial: bool = False
    """True if the group was empty: the rebalance then waits ``timeout_ms`` for more members."""


class MemberArrived(JournalEntry, frozen=True, kw_only=True, tag="member_arrived"):
    """A member sent JoinGroup, ``after_ms`` after the start of the rebalance."""

    member: ClientIdentity
    after_ms: int
    new: bool
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    """Session data of a late member before this JoinGroup; None if the member was not late."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    """Rebalance timeout in the JoinGroup. Like ``session_timeout_ms``: None in entries of older kohort versions."""
    software: str | None = None
    """Name and version of the client software (KIP-511); None if unknown."""


class MemberRemoved(JournalEntry, frozen=True, kw_only=True, tag="member_removed"):
    """A member was removed, or a pending member id expired: no client joined with this id in time."""

    member: ClientIdentity
    why: Removal
    reason: str | None = None
    api_version: int | None = None
    by: ClientIdentity | None = None
    """Other client that requested the member's removal; None without such a request."""
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
    """Partition whose owner changed: member ids of the owner before and after; None: no owner."""

    topic: str
    partition: int
    before: str | None
    after: str | None


class AssignmentWritten(JournalEntry, frozen=True, kw_only=True, tag="assignment_written"):
    """The leader's assignments were persisted, ``took_ms`` after the end of the join phase."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    took_ms: int
    partitions: dict[str, dict[str, tuple[int, ...]]] | None
    """Assigned partitions as a dict: member id -> topic -> partition numbers.

    None if assignments exceed 128 KiB, or for a protocol type other than ``consumer``.
    """
    moves: tuple[Move, ...] = ()


class RoundSettled(JournalEntry, frozen=True, kw_only=True, tag="round_settled"):
    """The last member got its SyncGroup response, ``took_ms`` after the assignments were persisted."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    generation: int
    last: ClientIdentity
    took_ms: int


class RoundDropped(JournalEntry, frozen=True, kw_only=True, tag="round_dropped"):
    """An append failed: the rebalance was dropped, and the requests that waited for it were refused."""

    error: str
    generation: int


class StaticReplaced(JournalEntry, frozen=True, kw_only=True, tag="static_replaced"):
    """A static member joined under a new member id; it kept its partitions, without a rebalance."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity
    old_member_id: str
    software: str | None = None


class RequestFenced(JournalEntry, frozen=True, kw_only=True, tag="request_fenced"):
    """A request was refused for a stale member id, generation, epoch or instance id."""

    member: ClientIdentity
    api: str
    error: str
    generation: int
    """Generation id or epoch in the refused request."""
    current: int
    """Generation id or epoch of the group at that time."""
    offsets: tuple[OffsetMove, ...] = ()
    """Offsets in a refused OffsetCommit, each with the committed offset."""
    more: int = 0
    """Number of offsets of that request that this entry omits."""


class SignsOfLife(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Activity of a departed member, observed by ``kohort watch``; a field is None if unknown."""

    member_id: str
    since_ms: int
    """Time in ms at which the member joined, or last got closer to its target assignment."""
    last_commit_ms: int | None = None
    """Time in ms of the member's last commit to a partition that it owned."""
    last_progress_ms: int | None = None
    """Time in ms of the member's last commit that moved an offset forward, in a partition that the member owned."""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    failover_ms: int | None = None
    """Time in ms of the last failover or outage of the coordinator before the departure."""


class EpochCause(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Cause of a new group epoch (KIP-848): the event, its members, and details."""

    event: EpochEvent
    member: ClientIdentity | None = None
    others: tuple[ClientIdentity, ...] = ()
    vitals: Vitals | None = None
    topics_added: tuple[str, ...] = ()
    """Topics added to the subscription; for ``regex_resolved``, topics that a pattern newly matches."""
    topics_removed: tuple[str, ...] = ()
    """Topics removed from the subscription; for ``regex_resolved``, topics that a pattern no longer matches.

    Topics in ``topics_added`` are left out.
    """
    partitions_changed: dict[str, tuple[int, int]] = {}
    """Changed topics as a dict: topic -> partition counts before and after.

    A topic was created (before: 0), deleted (after: 0) or recreated, or it got more partitions.
    """
    assignor: str | None = None
    """Server assignor that the group now prefers; None if unchanged."""
    reason: str | None = None
    """Reason text in the client's LeaveGroup."""
    signs: SignsOfLife | None = None
    """Activity of the departed member; only in entries that ``kohort watch`` writes."""
    by: ClientIdentity | None = None
    """Other client that requested the member's removal; None without such a request."""
    software: str | None = None
    """Name and version of the client software of ``member``, if its own request is the cause."""


class EpochRaised(JournalEntry, frozen=True, kw_only=True, tag="epoch_raised"):
    """The epoch of a consumer group rose. Its target assignment follows within the assignment interval."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    cause: EpochCause
    members: int
    """Number of group members from the new epoch on."""


class TargetComputed(JournalEntry, frozen=True, kw_only=True, tag="target_computed"):
    """The assignor computed the target assignment of a group epoch, ``after_ms`` after the rise of the epoch."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    epoch: int
    assignor: str
    """Name of the server assignor.

    Empty in an entry of ``kohort watch`` if the group uses the broker's default assignor.
    """
    moves: tuple[Move, ...]
    """Partitions with another owner than in the previous target assignment."""
    members: int
    after_ms: int | None = None
    """Time in ms since the epoch rose; None if it rose before this broker loaded the group."""


class GivenPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition newly assigned to a member. ``unowned_ms``: time in ms without an owner before this assignment."""

    topic: str
    partition: int
    unowned_ms: int | None = None


class AwaitedPartition(msgspec.Struct, frozen=True):
    """Partition of a member's target assignment that the member cannot get yet, because another member owns it."""

    topic: str
    partition: int
    owner: str
    """Member id of the current owner."""


class MemberReconciled(JournalEntry, frozen=True, kw_only=True, tag="member_reconciled"):
    """A heartbeat brought a consumer group member's assignment closer to its target assignment."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity
    epoch: int
    from_epoch: int
    target_epoch: int
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions"]
    """State of the member's reconciliation after the heartbeat.

    ``unrevoked_partitions``: this member must revoke partitions. ``unreleased_partitions``: this member waits until
    other members revoke partitions.
    """
    revoking: dict[str, tuple[int, ...]] = {}
    """Partitions that the member must revoke, as a dict: topic -> partition numbers."""
    revoked: dict[str, tuple[int, ...]] = {}
    """Partitions that the member has revoked, as a dict: topic -> partition numbers.

    ``revoked_after_ms``: time in ms from the broker's request to the revocation.
    """
    revoked_after_ms: int | None = None
    given: tuple[GivenPartition, ...] = ()
    awaited: tuple[AwaitedPartition, ...] = ()


class StaticAway(JournalEntry, frozen=True, kw_only=True, tag="static_away"):
    """A static member left temporarily (epoch -2). Its partitions stay assigned until its session ends."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    member: ClientIdentity


class SeenMember(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Member in a classic group's generation, as described by the GroupMetadata record."""

    member: ClientIdentity
    session_timeout_ms: int
    rebalance_timeout_ms: int
    topics: tuple[str, ...] = ()
    owned: dict[str, tuple[int, ...]] | None = None
    """Owned partitions in the metadata of the member's JoinGroup; None if the metadata is unreadable."""
    partitions: dict[str, tuple[int, ...]] | None = None
    """Partitions that the leader assigned to the member; None for a protocol type other than ``consumer``."""


class GenerationSeen(JournalEntry, frozen=True, kw_only=True, tag="generation_seen"):
    """Generation of a classic group that ``kohort watch`` read from ``__consumer_offsets``.

    ``at_ms`` is the coordinator's time. ``kohort watch`` samples the group's state, so it knows only between which two
    samples a state began.
    """

    generation: int
    protocol_type: str
    protocol: str | None
    leader: str | None
    members: tuple[SeenMember, ...]
    joined_ms: int | None = None
    """Time in ms at which the join phase ended, according to the GroupMetadata record."""
    leader_epoch: int = -1
    """Leader epoch of the group's ``__consumer_offsets`` partition. A new leader epoch means a new coordinator."""
    signs: tuple[SignsOfLife, ...] = ()
    """Activity of the previous generation's members, observed by ``kohort watch``."""
    settled_seen_ms: int | None = None
    """Time in ms of the watcher's last sample of the group before the rebalance."""
    rebalancing_seen_ms: int | None = None
    """Time in ms of the watcher's first sample of the group during the rebalance."""
    present: tuple[str, ...] | None = None
    """Ids of the members in the sample at ``rebalancing_seen_ms``; None if there is no such sample."""
    before: GenerationSeen | None = None
    """Copy of the previous generation's entry, but without its ``signs``. The journal may have deleted the original."""


class GroupLoaded(JournalEntry, frozen=True, kw_only=True, tag="group_loaded"):
    """A coordinator loaded the group from ``__consumer_offsets``."""

    generation: int
    members: tuple[ClientIdentity, ...]
    partitions: dict[str, dict[str, tuple[int, ...]]] | None = None


class GroupUnloaded(JournalEntry, frozen=True, kw_only=True, tag="group_unloaded"):
    """The broker stopped coordinating the group: now another broker coordinates it."""

    generation: int


class GroupConverted(JournalEntry, frozen=True, kw_only=True, tag="group_converted"):
    """The group was converted to the other protocol (classic or consumer), and kept its members."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    to: Literal["consumer", "classic"]
    epoch: int
    """Group epoch or generation id of the group. The conversion does not change the number."""
    members: tuple[ClientIdentity, ...]
    by: ClientIdentity | None = None
    """Member whose join or departure converted the group."""


class GroupDeleted(JournalEntry, frozen=True, kw_only=True, tag="group_deleted"):
    """The group was deleted by DeleteGroups, or because its last offset had expired."""

    CLAIMS_PERSISTED: ClassVar[bool] = True

    why: Literal["deleted", "expired", "unknown"]
    by: ClientIdentity | None = None


KINDS: Final = tuple(sorted(JournalEntry.__subclasses__(), key=lambda kind: kind.__module__ != __name__))
AnyEntry: Any = Union[KINDS]  # noqa: UP007 - msgspec finds the type by its tag
_BY_TAG: Final[dict[Any, type[JournalEntry]]] = {str(kind.__struct_config__.tag): kind for kind in KINDS}


def build_entry(entry: JournalEntry) -> bytes:
    """Encode a journal entry as JSON. Strings may contain lone surrogates."""
    named: dict[str, Any] = {"schema": SCHEMA} | msgspec.to_builtins(entry)
    return json.dumps(named, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def parse_entry(value: bytes) -> JournalEntry:
    """Parse the value of a journal record. Raises ValueError for an unknown kind, an invalid field or invalid JSON."""
    try:
        tree = json.loads(value)
        tag = tree.get("kind") if isinstance(tree, dict) else None
        known = _BY_TAG.get(tag) if isinstance(tag, str) else None
        # msgspec converts JSON to one known type thirty times faster than to the union of all types.
        entry: JournalEntry = msgspec.convert(tree, AnyEntry if known is None else known)
    except RecursionError as error:
        raise ValueError("journal entry: its JSON is nested too deeply") from error
    except msgspec.ValidationError as error:
        raise ValueError(f"invalid journal entry (schema {SCHEMA}): {error}") from error
    return entry
