"""Entries about a group that tell of no rebalance: what happened beside it, and what it came to in the end."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec


class Who(msgspec.Struct, frozen=True, omit_defaults=True):
    """A member as people know it."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    classic: bool = False
    """It speaks the classic protocol, in a modern group, which may have members of both."""
    principal: str = ""
    """As whom it is logged in (``User:alice``); told of those who act on others."""


class MemberMetrics(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the client of a member pushed last; null is what its library does not measure."""

    at_ms: int
    last_poll_ms_ago: int | None = None
    """How long ago its user had polled, then."""
    longest_poll_gap_ms: int | None = None
    """The longest time between two polls, of those that it remembers."""
    poll_idle_ratio: float | None = None
    """The part of its time that its user waited for records."""
    commit_latency_ms: float | None = None
    rebalance_latency_ms: float | None = None
    """How long its rebalances take: the longest that it remembers."""


class JournalEntry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="kind"):
    """Something that happened to a group."""

    CLAIMS_PERSISTED: ClassVar[bool] = False
    """The entry says that records are on the log, so it goes when their append fails."""

    QUIET: ClassVar[bool] = False
    """It may wait to be written, with an entry that may not, or for somebody who asks for the journal."""

    at_ms: int
    group: str
    observed: bool = False
    """Whoever wrote it is not the coordinator: it has looked at the cluster from the outside (``kohort.watch``)."""


class OffsetMove(msgspec.Struct, frozen=True, omit_defaults=True):
    """An offset that somebody commits, or tries to; ``before`` is what was committed, None for nothing."""

    topic: str
    partition: int
    after: int
    before: int | None = None


class MemberTurnedAway(JournalEntry, frozen=True, kw_only=True, tag="member_turned_away"):
    """A join that the coordinator refused: the group is full, or accepts none of the assignors of the client."""

    QUIET: ClassVar[bool] = True

    who: Who
    members: int
    error: str = "GROUP_MAX_SIZE_REACHED"
    offered: tuple[str, ...] = ()
    """Assignors of the refused client, the first few."""
    accepted: tuple[str, ...] = ()
    """Assignors that all members of the group support, the first few."""
    types: tuple[str, str] | None = None
    """Protocol types of the refused client and of the group, where they differ."""


class MemberDisconnected(JournalEntry, frozen=True, kw_only=True, tag="member_disconnected"):
    """The connection of a member that had left closed, ``after_ms`` after it left."""

    QUIET: ClassVar[bool] = True

    who: Who
    after_ms: int


class CommitUnfenced(JournalEntry, frozen=True, kw_only=True, tag="commit_unfenced"):
    """Offsets were committed by somebody who is no member, for nobody could be fenced.

    Told of each client once an hour, and whenever offsets go back.
    """

    CLAIMS_PERSISTED: ClassVar[bool] = True
    QUIET: ClassVar[bool] = True

    who: Who
    offsets: tuple[OffsetMove, ...]
    more: int = 0
    backwards: int = 0
    in_transaction: bool = False


class OptionsChanged(JournalEntry, frozen=True, kw_only=True, tag="options_changed"):
    """Options of the group were altered: what each was and is; None is the broker's."""

    QUIET: ClassVar[bool] = True

    options: dict[str, tuple[int | None, int | None]]
    by: Who | None = None


class ResumedPartition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A partition that its new owner fetches for the first time."""

    topic: str
    partition: int
    offset: int
    """Where it begins."""
    lag: int | None = None
    """Records from there to the end, now."""
    lag_before: int | None = None
    """Records from what was committed to the end, when the rebalance opened."""


class PartitionsResumed(JournalEntry, frozen=True, kw_only=True, tag="partitions_resumed"):
    """Members that were given partitions began to fetch them; at most one note per partition that moved."""

    QUIET: ClassVar[bool] = True

    who: Who
    generation: int
    """Or epoch, of the member."""
    partitions: tuple[ResumedPartition, ...]


LEAST_BYTES: Final = 200
ITEM_BYTES: Final = 100
"""A value within a value, without its text."""


def held_bytes(entry: JournalEntry) -> int:
    """Return about how many bytes an entry holds; takes some microseconds, and more for large ones."""
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
