"""Persisted state of a watched group between two of its records."""

from __future__ import annotations

from typing import Final

import msgspec

from kohort.coordinator.journal import GenerationSeen, SignsOfLife, Who

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class CommitSeen(msgspec.Struct, gc=False, array_like=True):
    """Last commit of a partition: offset, time, and time of the last progress (ms since 1970)."""

    offset: int
    at_ms: int
    progress_ms: int


class WatchedMember(msgspec.Struct):
    """Member of a consumer group, from its records; partitions by topic id in hexadecimal."""

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


class WatchedConsumerGroup(msgspec.Struct):
    """Consumer group (KIP-848), from its records."""

    is_whole: bool = False
    """True if all records were read: later changes are steps from a known state."""
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
    # Changes since the last raise of the epoch:
    joined: list[Who] = []
    gone: list[tuple[Who, SignsOfLife]] = []
    subscribed: list[tuple[Who, tuple[str, ...], tuple[str, ...]]] = []
    """Members with changed topics: member, added, removed."""
    preferred: list[tuple[Who, str]] = []
    resolved: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    @property
    def is_journaled(self) -> bool:
        """True if changes are steps from a known state."""
        return self.is_whole and self.epoch is not None


class RoundSeen(msgspec.Struct):
    """Observed round of a classic group, between two times of the watcher's clock."""

    from_ms: int
    until_ms: int
    settled_ms: int | None = None
    """Start of the last poll before the round."""
    present: tuple[str, ...] | None = None
    over_ms: int | None = None
    """First poll after the round."""


class WatchedGroup(msgspec.Struct):
    """Group, from the records read so far."""

    group: str
    seen: GenerationSeen | None = None
    round: RoundSeen | None = None
    converting: GenerationSeen | None = None
    """Last classic generation of a group in conversion."""
    consumer: WatchedConsumerGroup | None = None
    commits: dict[str, dict[int, CommitSeen]] = {}
    """Persisted separately, since most records change only commits."""
    leader_epoch: int = -1
    """Leader epoch of the last record; another epoch is another or a restarted coordinator's."""

    @property
    def is_blank(self) -> bool:
        return self.seen is None and self.consumer is None and self.converting is None and not self.commits
