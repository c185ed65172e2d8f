"""What is remembered of one group between two of its records, in a form that can be kept and read again."""

from __future__ import annotations

from typing import Final

import msgspec

from kohort.coordinator.journal import GenerationSeen, SignsOfLife, Who

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class CommitSeen(msgspec.Struct, gc=False, array_like=True):
    """The last commit of a partition: the offset, when, and when it last moved forward (ms since 1970)."""

    offset: int
    at_ms: int
    progress_ms: int


class WatchedMember(msgspec.Struct):
    """A member of a modern group, as its records have it. Partitions are by topic id in hexadecimal."""

    who: Who
    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    rebalance_timeout_ms: int = -1
    joined_ms: int = 0
    epoch: int | None = None
    state: int = 0
    assigned: dict[str, list[int]] = {}
    pending: dict[str, list[int]] = {}
    pending_since_ms: int | None = None
    heard_ms: int = 0
    """Time of the last record of a heartbeat: join, or progress to the target."""


class WatchedModernGroup(msgspec.Struct):
    """A group of KIP-848, as its records have it."""

    is_whole: bool = False
    """All records were read: later changes are steps from a known state."""
    epoch: int | None = None
    metadata_hash: int = 0
    raised_ms: int | None = None
    baseline_ms: int | None = None
    """Time of the last entry with the whole state."""
    target_epoch: int | None = None
    members: dict[str, WatchedMember] = {}
    targets: dict[str, dict[str, list[int]]] = {}
    planned: dict[str, dict[int, str]] = {}
    """Owners in the last target, by topic id and partition."""
    released: dict[str, dict[int, int]] = {}
    """Release times by topic id and partition."""
    regexes: dict[str, tuple[str, ...]] = {}
    # What was written since the epoch rose last:
    joined: list[Who] = []
    gone: list[tuple[Who, SignsOfLife]] = []
    subscribed: list[tuple[Who, tuple[str, ...], tuple[str, ...]]] = []
    """Members with changed topics: member, added, removed."""
    preferred: list[tuple[Who, str]] = []
    resolved: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    @property
    def is_told(self) -> bool:
        """Whether changes are steps from a known state."""
        return self.is_whole and self.epoch is not None


class RoundSeen(msgspec.Struct):
    """An observed round of a classic group, on the clock of the watcher."""

    asked_ms: int
    until_ms: int
    """The group rebalanced at a time between these two."""
    settled_ms: int | None = None
    """Start of the last poll that saw it settled before."""
    present: tuple[str, ...] | None = None
    over_ms: int | None = None
    """First poll that saw it settled again."""


class WatchedGroup(msgspec.Struct):
    """A group, from the records read so far."""

    group: str
    seen: GenerationSeen | None = None
    round: RoundSeen | None = None
    converting: GenerationSeen | None = None
    """Last classic generation of a group in conversion."""
    modern: WatchedModernGroup | None = None
    commits: dict[str, dict[int, CommitSeen]] = {}
    """Persisted separately: most records change only this."""
    leader_epoch: int = -1
    """Of its last record; another one is another coordinator's, or a restarted one's."""

    @property
    def is_blank(self) -> bool:
        return self.seen is None and self.modern is None and self.converting is None and not self.commits
