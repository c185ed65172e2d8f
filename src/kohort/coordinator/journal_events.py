"""Journal entries besides rebalances: refused JoinGroup requests, commits, options, resumed partitions."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

LEAST_BYTES: Final = 200
ITEM_BYTES: Final = 100
"""Bytes of memory of a nested value in a journal entry, without its text."""


class Who(msgspec.Struct, frozen=True, omit_defaults=True):
    """Identity of a member or client."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    classic: bool = False
    """True for a member of a consumer group that uses the classic protocol."""
    principal: str = ""
    """Authenticated principal (``User:alice``), for clients that act on other members."""


class MemberMetrics(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Metrics that a member's client pushed last (KIP-714); None for a metric that its library lacks."""

    at_ms: int
    last_poll_ms_ago: int | None = None
    """Time in ms between the client's last poll and the metrics push."""
    longest_poll_gap_ms: int | None = None
    """Longest time in ms between two polls that the client reports."""
    poll_idle_ratio: float | None = None
    """Share of time that the application waited in poll."""
    commit_latency_ms: float | None = None
    rebalance_latency_ms: float | None = None
    """Longest rebalance in ms that the client reports."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Event of a group, stored in the journal."""

    CLAIMS_PERSISTED: ClassVar[bool] = False
    """True if the entry states that records are persisted: it is dropped when their append fails."""

    QUIET: ClassVar[bool] = False
    """True if the entry is written with the next urgent entry, not at once."""

    at_ms: int
    group: str
    observed: bool = False
    """True if ``kohort watch`` wrote the entry from outside of the coordinator."""


class OffsetMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """Offset of a commit; ``before``: the previously committed offset, or None."""

    topic: str
    partition: int
    after: int
    before: int | None = None


class MemberTurnedAway(JournalEntry, frozen=True, kw_only=True, tag="member_turned_away"):
    """JoinGroup refused: the group is full, or shares no assignor with the client."""

    QUIET: ClassVar[bool] = True

    who: Who
    members: int
    error: str = "GROUP_MAX_SIZE_REACHED"
    offered: tuple[str, ...] = ()
    """First assignors that the refused client offers."""
    accepted: tuple[str, ...] = ()
    """First assignors that all members support."""
    types: tuple[str, str] | None = None
    """Protocol types of the refused client and of the group; None if they are equal."""


class MemberDisconnected(JournalEntry, frozen=True, kw_only=True, tag="member_disconnected"):
    """The connection of a departed member closed, ``after_ms`` after its LeaveGroup."""

    QUIET: ClassVar[bool] = True

    who: Who
    after_ms: int


class CommitUnfenced(JournalEntry, frozen=True, kw_only=True, tag="commit_unfenced"):
    """A client that is not a member committed offsets of the group.

    Journaled once per hour for each client, and whenever an offset moves back.
    """

    CLAIMS_PERSISTED: ClassVar[bool] = True
    QUIET: ClassVar[bool] = True

    who: Who
    offsets: tuple[OffsetMove, ...]
    more: int = 0
    backwards: int = 0
    in_transaction: bool = False


class OptionsChanged(JournalEntry, frozen=True, kw_only=True, tag="options_changed"):
    """Options of the group changed: old and new value of each; None is the broker's default."""

    QUIET: ClassVar[bool] = True

    options: dict[str, tuple[int | None, int | None]]
    by: Who | None = None


class ResumedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """Partition that its new owner fetches for the first time."""

    topic: str
    partition: int
    offset: int
    lag: int | None = None
    """Records between the first fetched offset and the log end."""
    lag_before: int | None = None
    """Records from the committed offset to the log end when the rebalance began."""


class PartitionsResumed(JournalEntry, frozen=True, kw_only=True, tag="partitions_resumed"):
    """Members began to fetch newly assigned partitions; at most one entry per moved partition."""

    QUIET: ClassVar[bool] = True

    who: Who
    generation: int
    """Classic generation, or member epoch."""
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
