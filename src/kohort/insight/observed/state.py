"""State of watched groups, persisted so that the next watcher can continue."""

from __future__ import annotations

from typing import Final

import msgspec

from kohort.coordinator.journal import ClientIdentity, GenerationSeen, SignsOfLife

REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")


class CommitSeen(msgspec.Struct, gc=False, array_like=True):
    """Last commit of a partition: offset, time, and time of the last commit with progress (ms since 1970)."""

    offset: int
    at_ms: int
    progress_ms: int


class WatchedMember(msgspec.Struct):
    """Member of a consumer group, from its records; the partition dicts have topic ids in hexadecimal as keys."""

    member: ClientIdentity
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
    """Time of the last member record that a heartbeat caused: a join, or progress to the target assignment."""


class WatchedConsumerGroup(msgspec.Struct):
    """Consumer group (KIP-848), from its records."""

    is_whole: bool = False
    """True if all records of the group were read; each later record is then a change of a known state."""
    epoch: int | None = None
    metadata_hash: int = 0
    raised_ms: int | None = None
    baseline_ms: int | None = None
    """Time of the last journal entry that contains the whole state of the group."""
    target_epoch: int | None = None
    members: dict[str, WatchedMember] = {}
    targets: dict[str, dict[str, list[int]]] = {}
    planned: dict[str, dict[int, str]] = {}
    """Owners in the last target assignment, as ``{topic id: {partition number: member id}}``."""
    released: dict[str, dict[int, int]] = {}
    """Times in ms at which partitions lost their owners, as ``{topic id: {partition number: time}}``."""
    regexes: dict[str, tuple[str, ...]] = {}
    # the five lists below: events since the last new group epoch
    joined: list[ClientIdentity] = []
    departed: list[tuple[ClientIdentity, SignsOfLife]] = []
    subscribed: list[tuple[ClientIdentity, tuple[str, ...], tuple[str, ...]]] = []
    """Members that changed their subscription, each with its added topics and its removed topics."""
    preferred: list[tuple[ClientIdentity, str]] = []
    resolved: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    @property
    def is_journaled(self) -> bool:
        """True if the watcher knows the whole state of the group; each change then becomes a journal entry."""
        return self.is_whole and self.epoch is not None


class RoundSeen(msgspec.Struct):
    """Observed rebalance of a classic group; the poll from ``from_ms`` to ``until_ms`` was the first that saw it."""

    from_ms: int
    until_ms: int
    settled_ms: int | None = None
    """Start of the last poll that saw the group before its rebalance."""
    present: tuple[str, ...] | None = None
    over_ms: int | None = None
    """End of the first poll that saw the group after its rebalance."""


class WatchedGroup(msgspec.Struct):
    """State of a group, from the records read so far."""

    group: str
    seen: GenerationSeen | None = None
    round: RoundSeen | None = None
    converting: GenerationSeen | None = None
    """Last classic generation of a group during its conversion to a consumer group."""
    consumer: WatchedConsumerGroup | None = None
    commits: dict[str, dict[int, CommitSeen]] = {}
    """Last commits, as ``{topic: {partition number: commit}}``; saved separately because they change often."""
    leader_epoch: int = -1
    """Leader epoch of the group's last record; a higher one shows a new or restarted coordinator."""
    failover_ms: int | None = None
    """Time in ms of the group's first record from a new or restarted coordinator; None before any failover."""

    @property
    def is_blank(self) -> bool:
        return self.seen is None and self.consumer is None and self.converting is None and not self.commits
