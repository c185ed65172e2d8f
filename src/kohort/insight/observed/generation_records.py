"""Journal entries from records of classic groups; polled group states give bounds on the duration of a rebalance.

Polls and records arrive in any order. So polls are kept until the record of a generation is read. To compare both, the
usual delay of records is added to a record's timestamp: the sum is a time of the local clock.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

import msgspec

from kohort.coordinator import journal
from kohort.errors import ProtocolError
from kohort.insight.observed.state import REBALANCING, CommitSeen, RoundSeen, WatchedGroup
from kohort.model import TopicPartition, by_topic
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, parse_assignment, parse_subscription
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata

Entries = list[journal.JournalEntry]
POLLS_KEPT: Final = 15
"""Number of latest polls of group states that are kept for comparison with the next generation record."""


class StatePoll(NamedTuple):
    """One poll of the states of all groups: start, end, and the groups that were rebalancing or missing."""

    from_ms: int
    until_ms: int
    unsettled: Set[str]


class RoundBounds(NamedTuple):
    """Times around the start of a rebalance, on the coordinator's clock.

    ``settled_ms``: last poll before the rebalance; ``rebalancing_ms``: first poll during the rebalance; ``present``:
    members at that poll.
    """

    settled_ms: int | None = None
    rebalancing_ms: int | None = None
    present: tuple[str, ...] | None = None


class RecentPolls:
    """Recent polls of group states, and the groups whose rebalance was observed in a poll."""

    def __init__(self) -> None:
        self._polls: deque[StatePoll] = deque(maxlen=POLLS_KEPT)
        self._rounds: set[str] = set()

    def add(
        self, states: Mapping[str, str], from_ms: int, until_ms: int, groups: Mapping[str, WatchedGroup]
    ) -> list[str]:
        """Add a poll of group states; return the names of groups that began to rebalance since the previous poll."""
        rebalancing = {name for name, state in states.items() if state in REBALANCING}
        unsettled = rebalancing | (groups.keys() - states.keys())
        begun = []
        for name in sorted(rebalancing):
            group = groups.get(name)
            if group is None or group.seen is None or not group.seen.members or group.round is not None:
                continue
            group.round = RoundSeen(from_ms, until_ms, self._last_settled(name))
            self._rounds.add(name)
            begun.append(name)
        for name in self._rounds - unsettled:
            group = groups.get(name)
            if group is None or group.round is None:
                self._rounds.discard(name)
            elif group.round.over_ms is None:
                group.round.over_ms = until_ms
        self._polls.append(StatePoll(from_ms, until_ms, unsettled))
        return begun

    def know(self, name: str) -> None:
        """Add a group whose rebalance the previous watcher process observed."""
        self._rounds.add(name)

    def _last_settled(self, name: str) -> int | None:
        return next((poll.from_ms for poll in reversed(self._polls) if name not in poll.unsettled), None)

    def bounds(
        self, group: WatchedGroup, before: journal.GenerationSeen, after: journal.GenerationSeen, late_ms: int
    ) -> RoundBounds:
        """Return bounds on the start of the rebalance that led to generation ``after``, from polls of group states.

        ``late_ms``: time from the timestamp of the group's records to their arrival at the watcher.
        """
        done_ms = (after.at_ms if after.joined_ms is None else after.joined_ms) + late_ms
        settled_ms = next(
            (x.from_ms for x in reversed(self._polls) if x.until_ms <= done_ms and group.group not in x.unsettled), None
        )
        found, rebalancing_ms, present = group.round, None, None
        if found is not None and found.from_ms <= after.at_ms + late_ms:
            group.round = None
            self._rounds.discard(group.group)
            # a rebalance that ended before the generation's record was written led to an earlier generation
            if found.over_ms is None or found.over_ms > done_ms:
                rebalancing_ms, settled_ms = found.until_ms - late_ms, found.settled_ms
                present = found.present if found.until_ms <= after.at_ms + late_ms else None
        settled_ms = None if settled_ms is None else settled_ms - late_ms
        return RoundBounds(settled_ms if (settled_ms or 0) > before.at_ms else None, rebalancing_ms, present)


Partitions = dict[str, tuple[int, ...]]
BASELINE_MS: Final = 3_600_000
"""Interval in ms after which a journal entry repeats the group's previous state, because older entries expire."""


class GenerationRecords:
    """Converter of records of classic groups to journal entries, with bounds from recent polls of group states."""

    def __init__(self, looks: RecentPolls) -> None:
        self._polls = looks

    def take(
        self, group: WatchedGroup, value: GroupMetadataValue | None, at_ms: int, leader_epoch: int, late_ms: int | None
    ) -> Entries:
        before = group.seen
        if value is None:
            return _ended(group, before, at_ms)
        seen = _seen(group, before, value, at_ms, leader_epoch)
        if before is not None and before.generation != seen.generation and late_ms is not None:
            settled_ms, rebalancing_ms, present = self._polls.bounds(group, before, seen, late_ms)
            seen = msgspec.structs.replace(
                seen, settled_seen_ms=settled_ms, rebalancing_seen_ms=rebalancing_ms, present=present
            )
        return _taken(group, before, seen)


def _taken(group: WatchedGroup, before: journal.GenerationSeen | None, seen: journal.GenerationSeen) -> Entries:
    entries: list[journal.JournalEntry] = []
    if group.consumer is not None:  # the last member of the consumer protocol left: the group is classic again
        members = tuple(m.member for m in seen.members)
        entries.append(
            journal.GroupConverted(
                at_ms=seen.at_ms, group=group.group, observed=True, to="classic", epoch=seen.generation, members=members
            )
        )
        group.consumer = None
    if before is not None and before.generation == seen.generation:
        # a coordinator may write a generation twice: the first record has the time of the rebalance
        group.seen = msgspec.structs.replace(seen, at_ms=before.at_ms, joined_ms=before.joined_ms)
        return entries + _rewritten(before, seen)
    group.seen, group.converting = seen, None
    if before is not None and seen.at_ms - before.at_ms >= BASELINE_MS:
        seen = msgspec.structs.replace(seen, before=msgspec.structs.replace(before, signs=(), present=None))
    return [*entries, seen]


def loaded_again(group: WatchedGroup, at_ms: int) -> Entries:
    """Return the journal entry for the load of a classic group by a new coordinator; no entry without members."""
    seen = group.seen
    return [_loaded(seen, at_ms)] if seen is not None and seen.members else []


def _loaded(seen: journal.GenerationSeen, at_ms: int) -> journal.GroupLoaded:
    members = tuple(m.member for m in seen.members)
    return journal.GroupLoaded(
        at_ms=at_ms, group=seen.group, observed=True, generation=seen.generation, members=members
    )


def _ended(group: WatchedGroup, before: journal.GenerationSeen | None, at_ms: int) -> Entries:
    group.seen = None
    if before is None:
        return []
    if before.members:
        group.converting = before
        return []
    return [journal.GroupDeleted(at_ms=at_ms, group=group.group, observed=True, why="unknown")]


def _rewritten(before: journal.GenerationSeen, seen: journal.GenerationSeen) -> Entries:
    """Return the journal entries for a second record of the same generation.

    A coordinator writes a second record when a static member is replaced (KIP-345), or after a failover.
    """
    known = {m.member.instance_id: m.member.member_id for m in before.members if m.member.instance_id is not None}
    replaced = [
        (m.member, known[m.member.instance_id])
        for m in seen.members
        if m.member.instance_id in known and known[m.member.instance_id] != m.member.member_id
    ]
    entries: list[journal.JournalEntry] = [
        journal.StaticReplaced(at_ms=seen.at_ms, group=seen.group, observed=True, member=member, old_member_id=old)
        for member, old in replaced
    ]
    if entries:
        return [*entries, seen]
    if before.leader_epoch != seen.leader_epoch:
        return [_loaded(seen, seen.at_ms)]
    return []


def _seen(
    group: WatchedGroup, before: journal.GenerationSeen | None, value: GroupMetadataValue, at_ms: int, leader_epoch: int
) -> journal.GenerationSeen:
    has_consumers = value.protocol_type == PROTOCOL_TYPE
    is_new = before is None or before.generation != value.generation
    joined_ms = value.current_state_timestamp
    return journal.GenerationSeen(
        at_ms=at_ms,
        group=group.group,
        observed=True,
        generation=value.generation,
        protocol_type=value.protocol_type,
        protocol=value.protocol,
        leader=value.leader,
        members=tuple(_member(m, has_consumers) for m in value.members),
        joined_ms=joined_ms if 0 <= joined_ms <= at_ms and is_new else None,
        leader_epoch=leader_epoch,
        signs=tuple(_signs(group, before, m) for m in before.members) if before is not None and is_new else (),
    )


def _member(record: MemberMetadata, has_consumers: bool) -> journal.SeenMember:
    member = journal.ClientIdentity(record.member_id, record.client_id, record.client_host, record.group_instance_id)
    rebalance_ms = record.rebalance_timeout if record.rebalance_timeout >= 0 else record.session_timeout
    topics: tuple[str, ...] = ()
    owned = given = None
    if has_consumers:
        # only consumers have a readable subscription, not Kafka Connect workers
        with contextlib.suppress(ProtocolError):
            subscription = parse_subscription(record.subscription)
            topics, owned = tuple(sorted(set(subscription.topics))), _partitions(subscription.owned_partitions)
        with contextlib.suppress(ProtocolError):
            given = _partitions(parse_assignment(record.assignment).partitions)
    return journal.SeenMember(
        member=member,
        session_timeout_ms=record.session_timeout,
        rebalance_timeout_ms=rebalance_ms,
        topics=topics,
        owned=owned,
        partitions=given,
    )


def _partitions(found: list[TopicPartition]) -> Partitions:
    return {topic: tuple(sorted(set(of))) for topic, of in sorted(by_topic(found).items())}


def _signs(group: WatchedGroup, before: journal.GenerationSeen, member: journal.SeenMember) -> journal.SignsOfLife:
    """Return the times of a member's last commits in generation ``before``, for the partitions that it owned."""
    slots = (
        slot
        for topic, partitions in (member.partitions or {}).items()
        for partition in partitions
        if (slot := group.commits.get(topic, {}).get(partition)) is not None
    )
    last_commit_ms, last_progress_ms = last_commits(slots, before.at_ms)
    return journal.SignsOfLife(
        member_id=member.member.member_id,
        since_ms=before.at_ms if before.joined_ms is None else before.joined_ms,
        last_commit_ms=last_commit_ms,
        last_progress_ms=last_progress_ms,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        failover_ms=group.failover_ms,
    )


def last_commits(slots: Iterable[CommitSeen], since_ms: int) -> tuple[int | None, int | None]:
    """Return the times of the last commit and of the last commit with progress, both at or after ``since_ms``."""
    last_ms = progress_ms = None
    for slot in slots:
        if slot.at_ms >= since_ms and (last_ms is None or slot.at_ms > last_ms):
            last_ms = slot.at_ms
        if slot.progress_ms >= since_ms and (progress_ms is None or slot.progress_ms > progress_ms):
            progress_ms = slot.progress_ms
    return last_ms, progress_ms
