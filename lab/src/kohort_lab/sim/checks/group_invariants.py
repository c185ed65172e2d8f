"""Invariants of the group coordinator: ``check_decision`` runs after each decision, ``check_all`` between events.

1. Acknowledged requests are persisted: ``check_acknowledged``.
2. Every waiting request and every session has a timer: ``check_waits``.
3. A failover changes no stable group (``check_persisted``), and replaying the log restores the persisted state
   (``check_replay``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from kohort.clock import Timers
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.sessions import awaits_revocation
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import PendingOffsets
from kohort.coordinator.outcome import Outcome, Reply, TimerKey
from kohort.coordinator.records import LogItem
from kohort.coordinator.replay import Skipped, replay_one
from kohort.coordinator.runtime import Coordinator
from kohort.coordinator.shard import Shard
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from kohort.wire.messages.group_records import GroupMetadataValue, OffsetCommitValue
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse

ShardTimers = Timers[tuple[int, TimerKey]]
Pending = dict[tuple[str, int, str, int], OffsetCommitValue | None]
Written = tuple[
    dict[str, GroupMetadataValue], dict[tuple[str, str, int], OffsetCommitValue], Pending, dict[str, tuple[object, ...]]
]


class InvariantBroken(AssertionError):
    """The coordinator's state is inconsistent: a bug of kohort, never an error of a client."""


def check_decision(shard: Shard, group_id: str, outcome: Outcome, timers: ShardTimers) -> None:
    """Check the responses of a decision, and the group that it concerns. Raises InvariantBroken."""
    for reply in outcome.replies:
        check_acknowledged(shard.groups, reply)
    group = shard.groups.by_id.get(group_id)
    if group is not None:
        check_group(shard.groups, group, shard.partition, timers)
    consumer = shard.groups.consumer.get(group_id)
    if consumer is not None:
        check_consumer_group(consumer, shard.partition, timers)
        check_one_kind(shard.groups, consumer)


def check_all(coordinator: Coordinator, now_ms: int) -> None:
    """Check all groups, and that no timer is overdue. Raises InvariantBroken."""
    wake_at_ms = coordinator.wake_at_ms
    if wake_at_ms is not None and wake_at_ms < now_ms:
        raise InvariantBroken(f"a timer due at {wake_at_ms} did not fire until {now_ms}")
    for partition, groups in coordinator.all_groups():
        check_groups(groups, partition, coordinator.timers)


def check_log(coordinator: Coordinator, partition: int, log: Iterable[LogItem], unmarked: Collection[int] = ()) -> None:
    """Check that replaying the log of a ``__consumer_offsets`` partition restores its groups, if it is loaded."""
    groups = dict(coordinator.all_groups()).get(partition)
    if groups is not None:
        check_replay(groups, log, unmarked)


def check_consumer_group(group: ModernGroup, partition: int, timers: ShardTimers) -> None:
    """Check partition owners, indices, epochs and timers of a consumer group. Raises InvariantBroken."""
    check_owners(group)
    check_indices(group)
    check_epochs(group)
    if group.presence.keys() != group.members.keys():
        raise _broken("the group has sessions of other member ids than its members", group)
    pending = group.volatile.pending_target
    if pending is not None and pending.error is None and (partition, TimerKey("target", group.group_id)) not in timers:
        raise _broken("the group has no timer to compute its pending target assignment", group)
    for member_id, member in group.members.items():
        deadline_ms = timers.deadline_ms((partition, TimerKey("member_session", group.group_id, member_id)))
        if deadline_ms is None or deadline_ms > group.presence[member_id].expires_at_ms:
            raise _broken(f"session timer of {member_id} is missing or late", group)
        waits = timers.deadline_ms((partition, TimerKey("revocation", group.group_id, member_id))) is not None
        if waits != awaits_revocation(member):
            raise _broken(f"member {member_id} in state {member.current.state} has a revocation timer: {waits}", group)


def check_owners(group: ModernGroup) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        for topic_id, number, _ in member.current.partitions():
            if (topic_id, number) in owners:
                raise _broken(f"{topic_id.hex()}-{number} has two owners, one of them {member_id}", group)
            owners[topic_id, number] = member_id
    if owners != group.owners:
        raise _broken("the index of owners differs from the assignments", group)


def check_indices(group: ModernGroup) -> None:
    metadata = [member.metadata for member in group.members.values()]
    indices: list[tuple[str, Any, Any]] = [
        ("instances", group.instances, {m.instance_id: i for i, m in group.members.items() if m.instance_id}),
        ("subscribers", group.subscribers, Counter(t for s in metadata for t in s.subscribed_topic_names)),
        ("regexes", group.regex_users, Counter(s.subscribed_topic_regex for s in metadata if s.subscribed_topic_regex)),
        ("matched", group.matched, Counter(t for value in group.regexes.values() for t in value.topics)),
        ("votes", group.assignor_votes, Counter(s.server_assignor for s in metadata if s.server_assignor is not None)),
        ("classic members", group.classic_members, sum(s.classic_member_metadata is not None for s in metadata)),
    ]
    for name, kept, counted in indices:
        if kept != counted:
            raise _broken(f"{name}: the index has {kept!r}, the records of the members give {counted!r}", group)
    topics = group.volatile.topics
    if topics is not None and (
        unknown := [n for n in topics.found.keys() - topics.changed if not group.subscribes_to(n)]
    ):
        raise _broken(f"the group caches topics {unknown}, to which no member subscribes", group)


def check_epochs(group: ModernGroup) -> None:
    if group.target_epoch > group.epoch:
        raise _broken(f"the target assignment has epoch {group.target_epoch}, above the group epoch", group)
    for member_id, member in group.members.items():
        if member.epoch > group.target_epoch:
            raise _broken(f"{member_id} has epoch {member.epoch}, above target epoch {group.target_epoch}", group)
        if any(epoch > max(member.epoch, 0) for _, _, epoch in member.current.partitions()):
            raise _broken(f"member {member_id} has partitions with an epoch above its member epoch", group)


def _broken(what: str, group: ClassicGroup | ModernGroup) -> InvariantBroken:
    if isinstance(group, ModernGroup):
        return InvariantBroken(f"consumer group {group.group_id!r} (epoch {group.epoch}): {what}")
    return InvariantBroken(f"group {group.group_id!r} ({group.state.value}): {what}")


def require(condition: bool, what: str, group: ClassicGroup) -> None:
    if not condition:
        raise _broken(what, group)


def check_groups(groups: Groups, partition: int, timers: ShardTimers) -> None:
    for group in groups.by_id.values():
        check_group(groups, group, partition, timers)
    for consumer in groups.consumer.values():
        check_consumer_group(consumer, partition, timers)
        check_one_kind(groups, consumer)
    for group_id in groups.offsets:
        if group_id not in groups:
            raise InvariantBroken(f"group {group_id!r} has offsets, but does not exist")


def check_one_kind(groups: Groups, consumer: ModernGroup) -> None:
    if consumer.group_id in groups.by_id:
        raise InvariantBroken(f"group {consumer.group_id!r} is both classic and consumer group")


def check_group(groups: Groups, group: ClassicGroup, partition: int, timers: ShardTimers) -> None:
    require(not group.is_blank or group.group_id in groups.offsets, "the group has no state", group)
    check_counts(group)
    check_state(group)
    check_waits(group, partition, timers)
    check_persisted(group)


def check_counts(group: ClassicGroup) -> None:
    rebalance = group.round
    members = rebalance.members
    awaiting_join = 0
    names: dict[str, int] = {}
    instances: dict[str, str] = {}
    for key, m in members.items():
        awaiting_join += m.join is not None
        for name, _ in m.protocols:
            names[name] = names.get(name, 0) + 1
        if m.instance_id is not None:
            instances[m.instance_id] = m.member_id
        if m.member_id != key:
            raise _broken("a member is stored under another key than its member id", group)
    require(rebalance.awaiting_join == awaiting_join, "the counter of waiting JoinGroups is wrong", group)
    require(dict(rebalance.supporters) == names, "the number of supporters per protocol is wrong", group)
    require(rebalance.instances == instances, "instance ids of the group differ from those of its members", group)
    require(rebalance.pending_join.keys().isdisjoint(members), "a pending member id is a member", group)
    require(rebalance.pending_sync.keys() <= members.keys(), "the group awaits a SyncGroup of a non-member", group)


def check_state(group: ClassicGroup) -> None:
    rebalance = group.round
    members = rebalance.members.values()
    if rebalance.state is GroupState.EMPTY:
        require(not rebalance.members, "an empty group has members", group)
    elif rebalance.state is not GroupState.PREPARING_REBALANCE:
        require(bool(rebalance.members), "the group has no members", group)
    if rebalance.members:
        require(rebalance.leader in rebalance.members, "the leader is not a member", group)
        require(len(rebalance.members) in rebalance.supporters.values(), "no protocol that all members support", group)
    if rebalance.state is not GroupState.PREPARING_REBALANCE:
        require(not rebalance.awaiting_join, "a JoinGroup waits outside of PreparingRebalance", group)
        require(not [m for m in members if m.is_new], "a group that is not rebalancing has a new member", group)
    if rebalance.state is not GroupState.COMPLETING_REBALANCE:
        require(
            not [m for m in members if m.sync is not None], "a SyncGroup waits outside of CompletingRebalance", group
        )
    else:
        require(rebalance.leader in rebalance.pending_sync, "the leader has synced, but the group is not stable", group)
    require(group.last_generation_id >= rebalance.generation_id, "the generation is above the highest sent one", group)


def check_waits(group: ClassicGroup, partition: int, timers: ShardTimers) -> None:
    """Check that each held request and each member session of a classic group has a timer."""
    rebalance, group_id = group.round, group.group_id

    def is_set(key: TimerKey) -> bool:
        return (partition, key) in timers

    if rebalance.state is GroupState.PREPARING_REBALANCE:
        require(is_set(TimerKey("round", group_id)), "the rebalance has no timer", group)
    if rebalance.pending_sync:
        require(is_set(TimerKey("sync", group_id)), "the group awaits SyncGroups without a timer", group)
    for member_id in rebalance.pending_join:
        if not is_set(TimerKey("pending", group_id, member_id)):
            raise _broken(f"pending member id {member_id} has no timer", group)
    for member in rebalance.members.values():
        deadline_ms = timers.deadline_ms((partition, TimerKey("session", group_id, member.member_id)))
        if member.is_excused:
            continue
        if deadline_ms is None:
            raise _broken(f"member {member.member_id} has no session timer", group)
        if deadline_ms > member.expires_at_ms:
            raise _broken(f"the session timer of member {member.member_id} fires after the end of the session", group)


def check_persisted(group: ClassicGroup) -> None:
    """Check that the state of a stable or empty classic group equals its record, so that a failover keeps it."""
    rebalance, persisted = group.round, group.persisted
    if rebalance.state is GroupState.STABLE:
        require(persisted is not None, "the group is stable, but its generation is not persisted", group)
    if persisted is None or rebalance.state not in (GroupState.STABLE, GroupState.EMPTY):
        return
    if persisted.generation != rebalance.generation_id:
        raise _broken(f"the group's record has generation {persisted.generation}", group)
    require(
        (persisted.protocol, persisted.leader) == (rebalance.protocol_name, rebalance.leader),
        "protocol or leader differ from the group's record",
        group,
    )
    members = {m.member_id: (m.instance_id, m.assignment) for m in rebalance.members.values()}
    recorded = {m.member_id: (m.group_instance_id, m.assignment) for m in persisted.members}
    require(members == recorded, "members or assignments differ from the record", group)


def check_acknowledged(groups: Groups, reply: Reply) -> None:
    """Check before a successful response is sent that the records of its request are persisted."""
    message, request = reply.message, reply.request.message
    if isinstance(message, SyncGroupResponse) and message.error_code == ErrorCode.NONE:
        assert isinstance(request, SyncGroupRequest)
        if request.group_id in groups.consumer:
            return  # the response of a consumer group contains persisted state only
        group = groups.by_id[request.group_id]
        assigned = {m.member_id: m.assignment for m in group.persisted.members} if group.persisted else {}
        require(assigned.get(request.member_id) == message.assignment, "the assignment is not persisted", group)
    elif isinstance(message, OffsetCommitResponse):
        assert isinstance(request, OffsetCommitRequest)
        _check_commit_acknowledged(groups, request, message)
    elif isinstance(message, TxnOffsetCommitResponse):
        assert isinstance(request, TxnOffsetCommitRequest)
        _check_pending_acknowledged(groups, request, message)
    elif isinstance(message, JoinGroupResponse) and message.skip_assignment:
        group = groups.by_id[getattr(request, "group_id", "")]
        ids = [m.member_id for m in group.persisted.members] if group.persisted else []
        require(message.member_id in ids, "a static member's new id is not persisted", group)


def _check_commit_acknowledged(groups: Groups, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
    offsets = groups.offsets.get(request.group_id)
    with_partitions = [topic for topic in request.topics if topic.partitions]
    for topic, answered in zip(with_partitions, response.topics, strict=True):
        if not topic.name:
            continue  # the commit names the topic by id: there is no name to look up
        for p, result in zip(topic.partitions, answered.partitions, strict=True):
            value = offsets.get(topic.name, p.partition_index) if offsets is not None else None
            if result.error_code == ErrorCode.NONE and (value is None or value.offset != p.committed_offset):
                raise InvariantBroken(f"acknowledged commit of {request.group_id!r} is not persisted: {p!r}")


def _check_pending_acknowledged(
    groups: Groups, request: TxnOffsetCommitRequest, response: TxnOffsetCommitResponse
) -> None:
    offsets = groups.offsets.get(request.group_id)
    pending = PendingOffsets() if offsets is None or offsets.pending is None else offsets.pending
    names = {value.topic_id: topic for _, topic, _, value in pending if value is not None}
    for topic, answered in zip([t for t in request.topics if t.partitions], response.topics, strict=True):
        name = topic.name or names.get(topic.topic_id, "")
        for p, result in zip(topic.partitions, answered.partitions, strict=True):
            value = pending.get(request.producer_id, name, p.partition_index)
            if result.error_code == ErrorCode.NONE and (value is None or value.offset != p.committed_offset):
                raise InvariantBroken(f"commit of {request.group_id!r} in a transaction is not persisted: {p!r}")


def persisted_state(groups: Groups, unmarked: Collection[int] = ()) -> Written:
    generations = {g.group_id: g.persisted for g in groups.by_id.values() if g.persisted is not None}
    offsets = {
        (group_id, topic, partition): value
        for group_id, committed in groups.offsets.items()
        for topic, partition, value in committed
    }
    pending = {
        (group_id, producer_id, topic, partition): value
        for group_id, offsets_of_group in groups.offsets.items()
        for producer_id, topic, partition, value in offsets_of_group.pending or ()
        if producer_id not in unmarked
    }
    consumers = {group_id: _persisted_consumer_group(group) for group_id, group in groups.consumer.items()}
    return generations, offsets, pending, consumers


def _persisted_consumer_group(group: ModernGroup) -> tuple[object, ...]:
    members = {member_id: (member.metadata, member.current) for member_id, member in group.members.items()}
    epochs = (group.epoch, group.metadata_hash, group.target_epoch, group.target_at_ms)
    return epochs, members, group.targets, group.regexes, group.owners


def check_replay(groups: Groups, log: Iterable[LogItem], unmarked: Collection[int] = ()) -> None:
    """Check that replaying a ``__consumer_offsets`` partition restores the coordinator's persisted state.

    ``unmarked``: ids of producers whose transaction marker may be on the log although its append failed.
    """
    again = Groups()
    for item in log:
        replay_one(again, item, 0, Skipped())
    found, expected = persisted_state(again, unmarked), persisted_state(groups, unmarked)
    if found != expected:
        raise InvariantBroken(f"replaying the log gives {found!r}, but the coordinator has {expected!r}")
