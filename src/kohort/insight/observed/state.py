"""What is remembered of one group between two of its records, in a form that can be kept and read again."""

from __future__ import annotations

from typing import Final

import msgspec

from kohort.coordinator.journal import GenerationSeen, SignsOfLife, Who

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
"""States of classic groups between two generations; Kafka's names."""


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
    """When a heartbeat of it last was written: it joined, or came nearer to its target."""


class WatchedModernGroup(msgspec.Struct):
    """A group of KIP-848, as its records have it."""

    is_whole: bool = False
    """All its records since its beginning were read, or all that there are: from here on its steps can be told."""
    epoch: int | None = None
    metadata_hash: int = 0
    raised_ms: int | None = None
    baseline_ms: int | None = None
    """When an entry last told all of it."""
    target_epoch: int | None = None
    members: dict[str, WatchedMember] = {}
    targets: dict[str, dict[str, list[int]]] = {}
    planned: dict[str, dict[int, str]] = {}
    """By topic id and partition, whose it is to be by the target computed last."""
    released: dict[str, dict[int, int]] = {}
    """By topic id and partition, when it was let go of."""
    regexes: dict[str, tuple[str, ...]] = {}
    # What was written since the epoch rose last:
    joined: list[Who] = []
    gone: list[tuple[Who, SignsOfLife]] = []
    subscribed: list[tuple[Who, tuple[str, ...], tuple[str, ...]]] = []
    """Members whose topics are others: who, added, removed."""
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
    """It was seen to rebalance at some time between these two."""
    settled_ms: int | None = None
    """When the look was begun that last saw it settled before."""
    present: tuple[str, ...] | None = None
    """The member ids that it had then."""
    over_ms: int | None = None
    """When it was first seen settled again."""


class WatchedGroup(msgspec.Struct):
    """A group, from the records read so far."""

    group: str
    seen: GenerationSeen | None = None
    """The generation written last, of a classic group."""
    round: RoundSeen | None = None
    """The round that was seen since the generation written last."""
    converting: GenerationSeen | None = None
    """The classic generation whose end was just written while it had members: a modern group goes on with them."""
    modern: WatchedModernGroup | None = None
    commits: dict[str, dict[int, CommitSeen]] = {}
    """Kept apart from all else: most records change one of these and nothing besides."""
    leader_epoch: int = -1
    """Of the record of it that was read last: another one is another coordinator's, or that of one started anew."""

    @property
    def is_blank(self) -> bool:
        return self.seen is None and self.modern is None and self.converting is None and not self.commits
