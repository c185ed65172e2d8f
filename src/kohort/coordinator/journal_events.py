"""Journal entries other than rebalances: refused JoinGroups, commits, group options, resumed partitions."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

LEAST_BYTES: Final = 200
ITEM_BYTES: Final = 100
"""Estimated bytes of memory that each value in a journal entry takes besides its text."""


class ClientIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identity of a member, or of a client that is not a member."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    classic: bool = False
    """True for a consumer group member that uses the classic protocol."""
    principal: str = ""
    """Authenticated principal (``User:alice``) of a client that acts on other members."""

    @property
    def client(self) -> tuple[str, str]:
        """Client id and host: they identify a client that rejoins under a new member id."""
        return self.client_id, self.client_host


class MemberMetrics(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metrics that a member's client pushed last (KIP-714); a metric that the client lacks is None."""

    at_ms: int
    last_poll_ms_ago: int | None = None
    """Time in ms from the client's last poll to its metrics push."""
    longest_poll_gap_ms: int | None = None
    """Longest time in ms between two polls, as the client reports it."""
    poll_idle_ratio: float | None = None
    """Share of the time (0 to 1) that the client's application waited in poll."""
    commit_latency_ms: float | None = None
    rebalance_latency_ms: float | None = None
    """Duration in ms of the longest rebalance that the client reports."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Event of a group, stored in the journal."""

    CLAIMS_PERSISTED: ClassVar[bool] = False
    """True if the journal entry claims that records are in the log; it is dropped if their append fails."""

    QUIET: ClassVar[bool] = False
    """True if the journal may delay the entry, and writes it together with the next entry that is not quiet."""

    at_ms: int
    group: str
    observed: bool = False
    """True if ``kohort watch`` wrote the entry: an observer outside of the coordinator."""


class OffsetMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """Committed offset of a partition before and after a commit; ``before`` is None without an earlier commit."""

    topic: str
    partition: int
    after: int
    before: int | None = None


class JoinRejected(JournalEntry, frozen=True, kw_only=True, tag="join_rejected"):
    """A JoinGroup was refused: the group is full, or no protocol of the client suits all members."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    members: int
    error: str = "GROUP_MAX_SIZE_REACHED"
    offered: tuple[str, ...] = ()
    """First ten assignors that the refused client offers."""
    accepted: tuple[str, ...] = ()
    """First ten assignors that all group members support."""
    types: tuple[str, str] | None = None
    """Protocol types of the refused client and of the group; None if both are equal."""


class MemberDisconnected(JournalEntry, frozen=True, kw_only=True, tag="member_disconnected"):
    """The connection of a departed member closed ``after_ms`` after its LeaveGroup."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    after_ms: int


class CommitUnfenced(JournalEntry, frozen=True, kw_only=True, tag="commit_unfenced"):
    """A client that is not a member committed offsets of the group.

    Journaled once per hour and client, and each time that an offset moves back.
    """

    CLAIMS_PERSISTED: ClassVar[bool] = True
    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    offsets: tuple[OffsetMove, ...]
    more: int = 0
    backwards: int = 0
    in_transaction: bool = False


class OptionsChanged(JournalEntry, frozen=True, kw_only=True, tag="options_changed"):
    """Group options changed: each option's old value and new value; None: the broker's default."""

    QUIET: ClassVar[bool] = True

    options: dict[str, tuple[int | None, int | None]]
    by: ClientIdentity | None = None


class ResumedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition that its new owner began to fetch."""

    topic: str
    partition: int
    offset: int
    lag: int | None = None
    """Lag in records when the fetch began: from the first fetched offset to the log end offset."""
    lag_before: int | None = None
    """Lag in records when the rebalance began: from the committed offset to the log end offset."""


class PartitionsResumed(JournalEntry, frozen=True, kw_only=True, tag="partitions_resumed"):
    """Members began to fetch newly assigned partitions; each moved partition appears in one entry at most."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    generation: int
    """Generation id of a classic group, or member epoch of a consumer group."""
    partitions: tuple[ResumedPartition, ...]


def held_bytes(entry: JournalEntry) -> int:
    return LEAST_BYTES + sum(_bytes_of(getattr(entry, name)) for name in entry.__struct_fields__)


def _bytes_of(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, tuple):
        first = value[0] if value else None
        return 8 * len(value) if isinstance(first, int) else sum(ITEM_BYTES + _bytes_of(one) for one in value)
    if isinstance(value, dict):
        return sum(ITEM_BYTES + len(key) + _bytes_of(one) for key, one in value.items())
    fields: tuple[str, ...] = getattr(value, "__struct_fields__", ())
    return sum(_bytes_of(getattr(value, name)) for name in fields)
