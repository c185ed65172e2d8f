"""Journal entries about events other than rebalances: refused JoinGroups, commits, group options, first fetches."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

LEAST_BYTES: Final = 200
ITEM_BYTES: Final = 100
"""Estimated memory in bytes of one item of a collection in a journal entry, in addition to the item's text."""


class ClientIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identity of a member or of another client."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    classic: bool = False
    """True if the member uses the classic protocol in a consumer group."""
    principal: str = ""
    """Authenticated principal (``User:alice``) of a client that is not a member; empty for members."""

    @property
    def client(self) -> tuple[str, str]:
        """Client id and host. They identify a client that rejoins under a new member id."""
        return self.client_id, self.client_host


class MemberMetrics(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metrics in the last push of a member's client (KIP-714). A metric that the client does not push is None."""

    at_ms: int
    last_poll_ms_ago: int | None = None
    """Time in ms from the client's last poll to the push of the metrics."""
    longest_poll_gap_ms: int | None = None
    """Longest time in ms between two successive polls, as the client reports it."""
    poll_idle_ratio: float | None = None
    """Share (0 to 1) of the time that the client's application spent waiting in poll."""
    commit_latency_ms: float | None = None
    rebalance_latency_ms: float | None = None
    """Duration in ms of the longest rebalance, as the client reports it."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Event of a group, stored in the journal."""

    CLAIMS_PERSISTED: ClassVar[bool] = False
    """True if the entry claims that records are in the log. If their append fails, the entry is dropped."""

    QUIET: ClassVar[bool] = False
    """True if the journal may delay the entry, and write it later together with other entries."""

    at_ms: int
    group: str
    observed: bool = False
    """True if ``kohort watch``, an observer outside of the coordinator, wrote the entry."""


class OffsetMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """Commit to a partition: previous and new offset. ``before`` is None for the partition's first commit."""

    topic: str
    partition: int
    after: int
    before: int | None = None


class JoinRejected(JournalEntry, frozen=True, kw_only=True, tag="join_rejected"):
    """A JoinGroup was refused: the group is full, or the client and the members have no protocol in common."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    members: int
    error: str = "GROUP_MAX_SIZE_REACHED"
    offered: tuple[str, ...] = ()
    """Assignors that the refused client offers, at most ten."""
    accepted: tuple[str, ...] = ()
    """Assignors that all members of the group support, at most ten."""
    types: tuple[str, str] | None = None
    """Protocol types of the refused client and of the group; None if they are equal."""


class MemberDisconnected(JournalEntry, frozen=True, kw_only=True, tag="member_disconnected"):
    """The connection of a departed member closed, ``after_ms`` after the member left."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    after_ms: int


class CommitUnfenced(JournalEntry, frozen=True, kw_only=True, tag="commit_unfenced"):
    """A client that is not a member committed offsets of the group.

    For each client the journal gets at most one such entry per hour. In addition, each commit that moves an offset back
    gets an entry, unless the client's last entry is less than a second old.
    """

    CLAIMS_PERSISTED: ClassVar[bool] = True
    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    offsets: tuple[OffsetMove, ...]
    more: int = 0
    backwards: int = 0
    in_transaction: bool = False


class OptionsChanged(JournalEntry, frozen=True, kw_only=True, tag="options_changed"):
    """Options of the group changed.

    ``options`` is a dict: option -> (old value, new value). The value None stands for the broker's default.
    """

    QUIET: ClassVar[bool] = True

    options: dict[str, tuple[int | None, int | None]]
    by: ClientIdentity | None = None


class ResumedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition that its new owner has begun to fetch."""

    topic: str
    partition: int
    offset: int
    lag: int | None = None
    """Lag in records at the first fetch: from the fetched offset to the log end offset."""
    lag_before: int | None = None
    """Lag in records at the start of the rebalance: from the committed offset to the log end offset."""


class PartitionsResumed(JournalEntry, frozen=True, kw_only=True, tag="partitions_resumed"):
    """Members began to fetch newly assigned partitions. A moved partition appears in at most one of these entries."""

    QUIET: ClassVar[bool] = True

    member: ClientIdentity
    generation: int
    """Generation id of a classic group, or member epoch in a consumer group."""
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
