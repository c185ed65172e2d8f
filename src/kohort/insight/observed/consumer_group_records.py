"""Journal entries from records of consumer groups (KIP-848).

The records lack the reason of a departure, and the history before the oldest record. The coordinator writes all records
of one event together: member records before the group epoch, target assignments of members before the target epoch. So
the member records between two group epochs show the cause of the later epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from kohort.coordinator import journal
from kohort.coordinator.records import (
    ConsumerGroupRecord,
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
)
from kohort.insight.observed.generation_records import BASELINE_MS, last_commits
from kohort.insight.observed.state import WatchedConsumerGroup, WatchedGroup, WatchedMember
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)

Entries = list[journal.JournalEntry]
Ids = dict[str, list[int]]
Place = tuple[str, int]
"""Partition of a topic: topic id in hexadecimal, and partition number."""
Planned = dict[str, dict[int, str]]


def updated_member(
    before: WatchedMember | None, member: journal.ClientIdentity, value: ConsumerGroupMemberMetadataValue, at_ms: int
) -> WatchedMember:
    topics = tuple(sorted(set(value.subscribed_topic_names)))
    after = WatchedMember(member, joined_ms=at_ms, heard_ms=at_ms) if before is None else before
    return msgspec.structs.replace(
        after,
        member=member,
        topics=topics,
        regex=value.subscribed_topic_regex or None,
        assignor=value.server_assignor,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        heard_ms=at_ms,
    )


def resolve(group: WatchedConsumerGroup, record: RegexResolved) -> None:
    before = group.regexes.get(record.regex)
    if record.value is None:
        group.regexes.pop(record.regex, None)
        return
    after = group.regexes[record.regex] = tuple(sorted(set(record.value.topics)))
    if before != after:
        was = set(before or ())
        group.resolved.append((tuple(sorted({*after} - was)), tuple(sorted(was - {*after}))))


def cause_of(group: WatchedConsumerGroup, other_topics: bool) -> journal.EpochCause:
    """Infer the cause of a new group epoch from the member records since the previous epoch."""
    if group.departed:
        (member, signs), *others = group.departed
        return journal.EpochCause(
            event="member_departed", member=member, signs=signs, others=tuple(other for other, _ in others)
        )
    if group.joined:
        member, *more = group.joined
        topics = group.members[member.member_id].topics if member.member_id in group.members else ()
        return journal.EpochCause(event="member_joined", member=member, others=tuple(more), topics_added=topics)
    if group.subscribed:
        member, added, removed = group.subscribed[0]
        return journal.EpochCause(
            event="subscription_changed", member=member, topics_added=added, topics_removed=removed
        )
    if group.resolved:
        added, removed = group.resolved[0]
        return journal.EpochCause(event="regex_resolved", topics_added=added, topics_removed=removed)
    if group.preferred:
        member, assignor = group.preferred[0]
        return journal.EpochCause(event="assignor_changed", member=member, assignor=assignor or None)
    return journal.EpochCause(event="topics_changed" if other_topics else "unexplained")


def forget_changes(group: WatchedConsumerGroup) -> None:
    group.joined, group.departed, group.subscribed, group.preferred, group.resolved = [], [], [], [], []


def release(group: WatchedConsumerGroup, places: Iterable[Place], at_ms: int) -> None:
    for topic, partition in places:
        group.released.setdefault(topic, {})[partition] = at_ms


def assigned_partitions(member: WatchedMember) -> set[Place]:
    return flat(member.assigned) | flat(member.pending)


def flat(ids: Ids) -> set[Place]:
    return {(topic, partition) for topic, partitions in ids.items() for partition in partitions}


def by_topic(places: Iterable[Place]) -> Ids:
    found: Ids = {}
    for topic, partition in sorted(places):
        found.setdefault(topic, []).append(partition)
    return found


def ids_of(plans: Iterable[TargetTopicPartition] | Iterable[CurrentTopicPartitions]) -> Ids:
    found: Ids = {}
    for one in plans:
        found.setdefault(one.topic_id.hex(), []).extend(one.partitions)
    return {topic: sorted(set(partitions)) for topic, partitions in found.items() if partitions}


def planned(group: WatchedConsumerGroup) -> Planned:
    found: Planned = {}
    for member_id, target in group.targets.items():
        for topic, partitions in target.items():
            found.setdefault(topic, {}).update(dict.fromkeys(partitions, member_id))
    return found


def changes(before: Planned, after: Planned) -> list[tuple[Place, tuple[str | None, str | None]]]:
    """Return the partitions whose owner differs between two target assignments, with old and new owner."""
    places = {(topic, p) for plans in (before, after) for topic, of in plans.items() for p in of}
    ends = [((t, p), (before.get(t, {}).get(p), after.get(t, {}).get(p))) for t, p in sorted(places)]
    return [(place, (was, now)) for place, (was, now) in ends if was != now]


State = Literal["stable", "unrevoked_partitions", "unreleased_partitions"]
STATES: Final[dict[int, State]] = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
FIRST_EPOCH: Final = 2
"""Highest possible group epoch after the first join: 1 in Kafka 3.7 to 4.3, 2 since Kafka 4.4."""
AWAY_EPOCH: Final = -2
"""Member epoch of a static member that left the group temporarily."""


class ConsumerGroupRecords:
    """Converter of records of consumer groups; topic names and session timeouts come from queries."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.session_timeouts: dict[str, int | None] = {}

    def take(self, watched: WatchedGroup, record: ConsumerGroupRecord, at_ms: int) -> Entries:
        group = watched.consumer
        if group is None:
            if record.value is None:
                return []
            is_whole = isinstance(record, MemberWritten) and watched.seen is None
            group = watched.consumer = WatchedConsumerGroup(is_whole=is_whole)
        if isinstance(record, EpochWritten):
            return self._epoch(watched, group, record, at_ms)
        if isinstance(record, MemberWritten):
            return self._member(watched, group, record, at_ms)
        if isinstance(record, CurrentWritten):
            return self._current(watched, group, record, at_ms)
        if isinstance(record, TargetWritten):
            if record.value is None:
                group.targets.pop(record.member_id, None)
            else:
                group.targets[record.member_id] = ids_of(record.value.topic_partitions)
        elif isinstance(record, TargetEpochWritten):
            return self._target(watched, group, record, at_ms)
        elif isinstance(record, RegexResolved):
            resolve(group, record)
        return []

    def settle(self, watched: WatchedGroup, at_ms: int) -> Entries:
        """Return a journal entry with the whole state of a consumer group whose oldest records were compacted."""
        group = watched.consumer
        if group is None or group.is_whole:
            return []
        group.is_whole = True
        forget_changes(group)
        group.planned = planned(group)
        return [self._whole_state(watched, group, group.epoch or 0, at_ms)]

    def _whole_state(
        self, watched: WatchedGroup, group: WatchedConsumerGroup, epoch: int, at_ms: int
    ) -> journal.GroupLoaded:
        group.baseline_ms = at_ms
        return journal.GroupLoaded(
            at_ms=at_ms,
            group=watched.group,
            observed=True,
            generation=epoch,
            members=tuple(m.member for m in group.members.values()),
            partitions={member_id: self._named(m.assigned) for member_id, m in group.members.items()},
        )

    def _member(self, watched: WatchedGroup, group: WatchedConsumerGroup, record: MemberWritten, at_ms: int) -> Entries:
        before, value = group.members.get(record.member_id), record.value
        if value is None:
            if before is not None:
                del group.members[record.member_id]
                group.departed.append((before.member, self._signs(watched, before)))
                release(group, assigned_partitions(before), at_ms)
            return []
        member = journal.ClientIdentity(record.member_id, value.client_id, value.client_host, value.instance_id)
        after = updated_member(before, member, value, at_ms)
        group.members[record.member_id] = after
        if before is None:
            return self._joined(watched, group, member, at_ms)
        added = tuple(sorted({*after.topics} - {*before.topics}))
        removed = tuple(sorted({*before.topics} - {*after.topics}))
        if added or removed or before.regex != after.regex:
            group.subscribed.append((member, added, removed))
        if before.assignor != after.assignor:
            group.preferred.append((member, after.assignor or ""))
        return []

    def _joined(
        self, watched: WatchedGroup, group: WatchedConsumerGroup, member: journal.ClientIdentity, at_ms: int
    ) -> Entries:
        converting = watched.converting
        if converting is not None and any(m.member.member_id == member.member_id for m in converting.members):
            return []  # the member was in the classic group before the conversion of the group, so it did not join now
        old = next((gone for gone, _ in group.departed if gone.instance_id == member.instance_id is not None), None)
        if old is None:
            group.joined.append(member)
            return []
        group.departed = [one for one in group.departed if one[0] is not old]
        if not group.is_journaled:
            return []
        return [
            journal.StaticReplaced(
                at_ms=at_ms, group=watched.group, observed=True, member=member, old_member_id=old.member_id
            )
        ]

    def _signs(self, watched: WatchedGroup, member: WatchedMember) -> journal.SignsOfLife:
        slots = (
            slot
            for topic, partitions in self._named(member.assigned).items()
            for partition in partitions
            if (slot := watched.commits.get(topic, {}).get(partition)) is not None
        )
        last_ms, progress_ms = last_commits(slots, member.joined_ms)
        return journal.SignsOfLife(
            member_id=member.member.member_id,
            since_ms=member.heard_ms,
            last_commit_ms=last_ms,
            last_progress_ms=progress_ms,
            session_timeout_ms=self.session_timeouts.get(watched.group),
            rebalance_timeout_ms=member.rebalance_timeout_ms if member.rebalance_timeout_ms >= 0 else None,
            failover_ms=watched.failover_ms,
        )

    def _epoch(self, watched: WatchedGroup, group: WatchedConsumerGroup, record: EpochWritten, at_ms: int) -> Entries:
        value = record.value
        if value is None:
            watched.consumer = None
            if group.departed or group.members:  # a deleted group that had members was converted to a classic group
                watched.consumer = WatchedConsumerGroup(is_whole=group.is_whole, epoch=group.epoch)
                return []
            return [journal.GroupDeleted(at_ms=at_ms, group=watched.group, observed=True, why="unknown")]
        before, group.epoch = group.epoch, value.epoch
        other_topics, group.metadata_hash = group.metadata_hash != value.metadata_hash, value.metadata_hash
        converting, watched.converting = watched.converting, None
        if converting is not None:
            group.is_whole = True
            return [self._converted(watched, group, at_ms)]
        if before is None and value.epoch > FIRST_EPOCH:
            group.is_whole = False
        if not group.is_whole or before == value.epoch:
            forget_changes(group)
            return []
        raised = self._raised(watched, group, at_ms, other_topics=before is not None and other_topics)
        if group.baseline_ms is None:
            group.baseline_ms = at_ms
        elif at_ms - group.baseline_ms >= BASELINE_MS:
            return [self._whole_state(watched, group, before or 0, at_ms), raised]
        return [raised]

    def _converted(self, watched: WatchedGroup, group: WatchedConsumerGroup, at_ms: int) -> journal.GroupConverted:
        forget_changes(group)
        return journal.GroupConverted(
            at_ms=at_ms,
            group=watched.group,
            observed=True,
            to="consumer",
            epoch=group.epoch or 0,
            members=tuple(m.member for m in group.members.values()),
        )

    def _raised(
        self, watched: WatchedGroup, group: WatchedConsumerGroup, at_ms: int, *, other_topics: bool
    ) -> journal.EpochRaised:
        cause = cause_of(group, other_topics)
        forget_changes(group)
        group.raised_ms = at_ms
        return journal.EpochRaised(
            at_ms=at_ms,
            group=watched.group,
            observed=True,
            epoch=group.epoch or 0,
            cause=cause,
            members=len(group.members),
        )

    def _target(
        self, watched: WatchedGroup, group: WatchedConsumerGroup, record: TargetEpochWritten, at_ms: int
    ) -> Entries:
        if record.value is None:
            return []
        before, group.planned = group.planned, planned(group)
        group.target_epoch = record.value.assignment_epoch
        if not group.is_journaled:
            return []
        assignors = {m.assignor for m in group.members.values()}
        known = assignors.pop() if len(assignors) == 1 else None
        return [
            journal.TargetComputed(
                at_ms=at_ms,
                group=watched.group,
                observed=True,
                epoch=group.target_epoch,
                assignor=known or "",  # the records of the group do not name the broker's default assignor
                moves=tuple(
                    journal.Move(self._name(topic), partition, was, now)
                    for (topic, partition), (was, now) in changes(before, group.planned)
                ),
                members=len(group.members),
                after_ms=None if group.raised_ms is None else at_ms - group.raised_ms,
            )
        ]

    def _current(
        self, watched: WatchedGroup, group: WatchedConsumerGroup, record: CurrentWritten, at_ms: int
    ) -> Entries:
        member, value = group.members.get(record.member_id), record.value
        if member is None or value is None:
            return []
        if value.member_epoch == AWAY_EPOCH:
            member.epoch = AWAY_EPOCH
            away = journal.StaticAway(at_ms=at_ms, group=watched.group, observed=True, member=member.member)
            return [away] if group.is_journaled else []
        owned, since_ms, from_epoch = assigned_partitions(member), member.pending_since_ms, member.epoch
        member.epoch, member.state, member.heard_ms = value.member_epoch, value.state, at_ms
        member.assigned, member.pending = ids_of(value.assigned_partitions), ids_of(value.partitions_pending_revocation)
        member.pending_since_ms = None if not member.pending else since_ms if since_ms is not None else at_ms
        revoked, new = owned - assigned_partitions(member), assigned_partitions(member) - owned
        given = tuple(self._given(group, place, at_ms) for place in sorted(new))
        release(group, revoked, at_ms)
        if not group.is_journaled:
            return []
        reconciled = journal.MemberReconciled(
            at_ms=at_ms,
            group=watched.group,
            observed=True,
            member=member.member,
            epoch=value.member_epoch,
            from_epoch=max(0, from_epoch or 0),
            target_epoch=group.target_epoch or 0,
            state=STATES.get(value.state, "unreleased_partitions"),
            revoking=self._named(member.pending),
            revoked=self._named(by_topic(revoked)),
            revoked_after_ms=at_ms - since_ms if since_ms is not None and revoked else None,
            given=given,
            awaited=self._awaited(group, member),
        )
        return [reconciled]

    def _given(self, group: WatchedConsumerGroup, place: Place, at_ms: int) -> journal.GivenPartition:
        topic, partition = place
        released_ms = group.released.get(topic, {}).pop(partition, None)
        return journal.GivenPartition(
            self._name(topic), partition, None if released_ms is None else at_ms - released_ms
        )

    def _awaited(self, group: WatchedConsumerGroup, member: WatchedMember) -> tuple[journal.AwaitedPartition, ...]:
        if STATES.get(member.state) != "unreleased_partitions":
            return ()
        member_id = member.member.member_id
        missing = flat(group.targets.get(member_id, {})) - assigned_partitions(member)
        owners = {
            place: m.member.member_id for m in group.members.values() for place in assigned_partitions(m) & missing
        }
        return tuple(
            journal.AwaitedPartition(self._name(topic), partition, owners[topic, partition])
            for topic, partition in sorted(owners)
        )

    def _name(self, topic_id: str) -> str:
        return self.names.get(topic_id, topic_id)

    def _named(self, ids: Ids) -> dict[str, tuple[int, ...]]:
        return {self._name(topic_id): tuple(partitions) for topic_id, partitions in sorted(ids.items())}
