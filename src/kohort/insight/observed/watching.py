"""Watched groups: convert records of ``__consumer_offsets`` and polled group states to journal entries.

Records of one partition come in log order. Records of several partitions may be mixed, since all records of a group are
in one partition. Records have timestamps of the coordinators; the caller converts times of polls to that clock.
Unreadable records are counted and skipped. Memory is bounded: records of groups and partitions beyond the limits are
only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.records import CurrentWritten, GroupWritten, OffsetCommitted, TargetWritten, parse_record
from kohort.errors import CorruptLog
from kohort.insight.observed.consumer_group_records import ConsumerGroupRecords
from kohort.insight.observed.generation_records import GenerationRecords, RecentPolls, loaded_again
from kohort.insight.observed.state import CommitSeen, WatchedGroup

MAX_GROUPS: Final = 20_000
MAX_COMMITS: Final = 500_000


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Maximum number of groups in memory, and of partitions with a commit in all these groups together."""

    groups: int = MAX_GROUPS
    commits: int = MAX_COMMITS


class PersistedCommit(NamedTuple):
    """Last commit of a partition; ``seen`` is None if the commit was deleted."""

    group: str
    topic: str
    partition: int
    seen: CommitSeen | None


class ChangedState(NamedTuple):
    """Changes since the previous ``ChangedState``: commits, and states of groups (None for a deleted group)."""

    groups: dict[str, bytes | None]
    commits: list[PersistedCommit]


class ObservedGroups:
    """All groups of a cluster, from the records read so far."""

    def __init__(self, limits: WatchLimits | None = None) -> None:
        self._limits = limits or WatchLimits()
        self._groups: dict[str, WatchedGroup] = {}
        self._dirty: set[str] = set()
        self._committed: set[tuple[str, str, int]] = set()
        self._commits = 0
        self._polls = RecentPolls()
        self._classic = GenerationRecords(self._polls)
        self._consumer = ConsumerGroupRecords()
        self._outage_ms: int | None = None
        self.unread = 0
        self.left_out = 0
        """Number of records ignored because the maximum number of groups or partitions was reached."""

    def learn_topics(self, names: Mapping[bytes, str]) -> None:
        """Add names of topic ids. Journal entries contain the topic id in hexadecimal if the name is unknown."""
        self._consumer.names.update((topic_id.hex(), name) for topic_id, name in names.items())

    def knows(self, group: str) -> bool:
        return group in self._groups

    def unknown_topics(self, key: bytes, value: bytes) -> set[bytes]:
        """Return the topic ids without a known name in the record of an assignment or target assignment."""
        try:
            record = parse_record(key, value)
        except CorruptLog:
            return set()
        if isinstance(record, TargetWritten) and record.value is not None:
            found = {one.topic_id for one in record.value.topic_partitions}
        elif isinstance(record, CurrentWritten) and record.value is not None:
            fields = (record.value.assigned_partitions, record.value.partitions_pending_revocation)
            found = {one.topic_id for part in fields for one in part}
        else:
            return set()
        return {topic_id for topic_id in found if topic_id.hex() not in self._consumer.names}

    def learn_session_timeout(self, group: str, timeout_ms: int | None) -> None:
        """Set the session timeout of a consumer group's members; the records of the group do not contain it."""
        if group in self._consumer.session_timeouts or len(self._consumer.session_timeouts) < self._limits.groups:
            self._consumer.session_timeouts[group] = timeout_ms

    def note_outage(self, until_ms: int) -> None:
        """Note that the watcher reached no broker until ``until_ms``: members could not send heartbeats, either."""
        self._outage_ms = until_ms

    def take(
        self, key: bytes | None, value: bytes | None, at_ms: int, leader_epoch: int = -1, late_ms: int | None = None
    ) -> list[JournalEntry]:
        """Process the next record of ``__consumer_offsets``; return its journal entries (none for most commits).

        ``at_ms``: timestamp of the record. ``late_ms``: usual time from the timestamp of a record in this partition to
        its arrival; if None (unknown), polled group states are not compared with the records.
        """
        try:
            record = None if key is None else parse_record(key, value)
        except CorruptLog:
            record = None
        if record is None:
            self.unread += 1
            return []
        group = self._groups.get(record.group_id)
        if group is None:
            if record.value is None:
                return []  # a tombstone of an unknown group has no effect
            if len(self._groups) >= self._limits.groups:
                self.left_out += 1
                return []
            group = self._groups[record.group_id] = WatchedGroup(record.group_id)
            self._dirty.add(record.group_id)
        moved = self._follow_coordinator(group, leader_epoch, at_ms)
        if isinstance(record, OffsetCommitted):
            self._commit(group, record, at_ms)
            if group.is_blank:
                self._forget(group)
            return loaded_again(group, at_ms) if moved else []
        self._dirty.add(record.group_id)
        if isinstance(record, GroupWritten):
            entries = self._classic.take(group, record.value, at_ms, leader_epoch, late_ms)
        else:
            entries = self._consumer.take(group, record, at_ms)
        if group.is_blank:
            self._forget(group)
        return entries

    def _follow_coordinator(self, group: WatchedGroup, leader_epoch: int, at_ms: int) -> bool:
        """Note leader epoch and last failover of a group; return True if a new coordinator wrote the record."""
        moved = -1 < group.leader_epoch < leader_epoch
        if moved:
            group.failover_ms = at_ms
        elif self._outage_ms is not None and (group.failover_ms or 0) < self._outage_ms <= at_ms:
            group.failover_ms = self._outage_ms
            self._dirty.add(group.group)
        if group.leader_epoch < leader_epoch:
            group.leader_epoch = leader_epoch
            self._dirty.add(group.group)
        return moved

    def _forget(self, group: WatchedGroup) -> None:
        del self._groups[group.group]
        self._dirty.add(group.group)

    def _commit(self, group: WatchedGroup, record: OffsetCommitted, at_ms: int) -> None:
        topic, value = group.commits.get(record.topic), record.value
        before = None if topic is None else topic.get(record.partition)
        if value is None:
            if topic is not None and before is not None:
                del topic[record.partition]
                self._commits -= 1
                self._committed.add((record.group_id, record.topic, record.partition))
                if not topic:
                    del group.commits[record.topic]
            return
        if before is not None:
            if value.offset > before.offset:
                before.progress_ms = at_ms
            before.offset, before.at_ms = value.offset, at_ms
        elif self._commits >= self._limits.commits:
            self.left_out += 1
            return
        else:
            group.commits.setdefault(record.topic, {})[record.partition] = CommitSeen(value.offset, at_ms, at_ms)
            self._commits += 1
        self._committed.add((record.group_id, record.topic, record.partition))

    def take_states(self, states: Mapping[str, str], from_ms: int, until_ms: int) -> list[str]:
        """Process the polled states of all groups; the poll ran from ``from_ms`` to ``until_ms`` on the local clock.

        Returns the groups that began to rebalance. The caller then requests DescribeGroups for these groups, and passes
        the members to ``take_members``.
        """
        begun = self._polls.add(states, from_ms, until_ms, self._groups)
        self._dirty.update(begun)
        return begun

    def take_members(self, name: str, state: str, member_ids: Iterable[str], until_ms: int) -> None:
        """Process the members of a classic group in a rebalance, as DescribeGroups returned them at ``until_ms``."""
        group = self._groups.get(name)
        found = None if group is None else group.round
        if found is not None and found.present is None and state == "PreparingRebalance":
            found.present, found.until_ms = tuple(member_ids), max(found.until_ms, until_ms)
            self._dirty.add(name)

    def caught_up(self, at_ms: int) -> list[JournalEntry]:
        """Return entries with the states of groups whose oldest records were compacted; call this at the log end."""
        entries: list[JournalEntry] = []
        for group in self._groups.values():
            found = self._consumer.settle(group, at_ms)
            if found:
                self._dirty.add(group.group)
                entries += found
        return entries

    def take_changed(self) -> ChangedState:
        groups = {name: self._kept(name) for name in self._dirty}
        commits = [PersistedCommit(*place, self._last_commit(*place)) for place in self._committed]
        self._dirty.clear()
        self._committed.clear()
        return ChangedState(groups, commits)

    def _kept(self, name: str) -> bytes | None:
        group = self._groups.get(name)
        return None if group is None else msgspec.msgpack.encode(msgspec.structs.replace(group, commits={}))

    def _last_commit(self, name: str, topic: str, partition: int) -> CommitSeen | None:
        group = self._groups.get(name)
        return None if group is None else group.commits.get(topic, {}).get(partition)

    def restore(self, groups: Iterable[bytes], commits: Iterable[PersistedCommit] = ()) -> None:
        """Restore persisted groups and commits. Raises ValueError for the persisted format of another version."""
        for one in groups:
            try:
                group = msgspec.msgpack.decode(one, type=WatchedGroup)
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
                raise ValueError(f"invalid state of a watched group in the journal file: {error}") from error
            self._groups[group.group] = group
            if group.round is not None:
                self._polls.know(group.group)
        for name, topic, partition, seen in commits:
            known = self._groups.get(name)
            if known is not None and seen is not None:
                known.commits.setdefault(topic, {})[partition] = seen
                self._commits += 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of groups in memory, and number of partitions with a commit in memory."""
        return len(self._groups), self._commits
