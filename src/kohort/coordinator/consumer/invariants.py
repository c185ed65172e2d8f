"""What must hold of a consumer group after every event: see ``kohort.coordinator.invariants``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kohort.clock import Timers
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.sessions import awaits_revocation
from kohort.coordinator.consumer.timers import member_session_timer, revocation_timer, target_timer
from kohort.coordinator.outcome import TimerKey


class ConsumerGroupBroken(AssertionError):
    """The coordinator contradicts itself: a bug, never a client's doing."""


def check_consumer_group(group: ModernGroup, partition: int, timers: Timers[tuple[int, TimerKey]]) -> None:
    """Raise ConsumerGroupBroken unless no partition has two owners, the indices are what is written, epochs are in
    order, and nothing is awaited without a timer."""
    _check_owners(group)
    _check_indices(group)
    _check_epochs(group)
    if group.presence.keys() != group.members.keys():
        raise _broken(group, "not every member is watched, or somebody is who is none")
    pending = group.soft.pending_target
    if pending is not None and pending.error is None and (partition, target_timer(group.group_id)) not in timers:
        raise _broken(group, "a target is pending without a timer")
    for member_id, member in group.members.items():
        deadline_ms = timers.deadline_ms((partition, member_session_timer(group.group_id, member_id)))
        if deadline_ms is None or deadline_ms > group.presence[member_id].expires_at_ms:
            raise _broken(group, f"the session timer of {member_id} is missing, or late")
        waits = timers.deadline_ms((partition, revocation_timer(group.group_id, member_id))) is not None
        if waits != awaits_revocation(member):
            raise _broken(group, f"the revocation timer of {member_id}: {waits}, its state: {member.current.state}")


def _check_owners(group: ModernGroup) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for member_id, member in group.members.items():
        for topic_id, number, _ in member.current.held():
            if (topic_id, number) in owners:
                raise _broken(group, f"{topic_id.hex()}-{number} has two owners, one of them {member_id}")
            owners[topic_id, number] = member_id
    if owners != group.owners:
        raise _broken(group, "the index of owners is not what members have")


def _check_indices(group: ModernGroup) -> None:
    said = [member.said for member in group.members.values()]
    indices: list[tuple[str, Any, Any]] = [
        ("instances", group.instances, {m.instance_id: i for i, m in group.members.items() if m.instance_id}),
        ("subscribers", group.subscribers, Counter(t for s in said for t in s.subscribed_topic_names)),
        ("regexes", group.regex_users, Counter(s.subscribed_topic_regex for s in said if s.subscribed_topic_regex)),
        ("matched", group.matched, Counter(t for value in group.regexes.values() for t in value.topics)),
        ("votes", group.assignor_votes, Counter(s.server_assignor for s in said if s.server_assignor is not None)),
        ("classic members", group.classic_members, sum(s.classic_member_metadata is not None for s in said)),
    ]
    for name, kept, counted in indices:
        if kept != counted:
            raise _broken(group, f"{name}: {kept!r} is kept, {counted!r} is written")
    topics = group.soft.topics
    if topics is not None and (
        unknown := [n for n in topics.found.keys() - topics.changed if not group.subscribes_to(n)]
    ):
        raise _broken(group, f"nobody subscribes to {unknown}, which are among its topics")


def _check_epochs(group: ModernGroup) -> None:
    if group.target_epoch > group.epoch:
        raise _broken(group, f"its target is for epoch {group.target_epoch}")
    for member_id, member in group.members.items():
        if member.epoch > group.target_epoch:
            raise _broken(group, f"{member_id} has epoch {member.epoch}, the target {group.target_epoch}")
        if any(epoch > max(member.epoch, 0) for _, _, epoch in member.current.held()):
            raise _broken(group, f"{member_id} has partitions of an epoch after its own")


def _broken(group: ModernGroup, what: str) -> ConsumerGroupBroken:
    return ConsumerGroupBroken(f"consumer group {group.group_id!r} (epoch {group.epoch}): {what}")
