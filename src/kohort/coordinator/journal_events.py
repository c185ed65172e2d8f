"""Entries about a group that tell of no rebalance: what happened beside it, and what it came to in the end."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.coordinator.journal_base import JournalEntry, Who


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

    CLAIMS_WRITTEN: ClassVar[bool] = True
    QUIET: ClassVar[bool] = True

    who: Who
    offsets: tuple[OffsetMove, ...]
    more: int = 0
    """How many more there were."""
    backwards: int = 0
    """How many offsets went back."""
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
