"""A consumer group that this broker begins to coordinate, and one that it leaves to another.

The rules: protocol/consumer-groups.md#timers. Nothing has to be found again but who is there.
"""

from __future__ import annotations

from kohort.coordinator.consumer.evidence import by_name, places
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.sessions import begin_all
from kohort.coordinator.consumer.timers import timers_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import GroupLoaded, GroupUnloaded
from kohort.coordinator.outcome import CancelTimer, Outcome


def begin_consumer_group(group: ModernGroup, ctx: Context) -> Outcome:
    """Have a group live on from what is written, after the log is read."""
    members = group.members.values()
    loaded = GroupLoaded(
        at_ms=ctx.now_ms,
        group=group.group_id,
        generation=group.epoch,
        members=tuple(member.who for member in members),
        partitions={member.member_id: by_name(places(member.current), ctx.topics) for member in members},
    )
    return Outcome(timers=[*begin_all(group, ctx)], journal=[loaded], round_changed=False)


def resign_consumer_group(group: ModernGroup, ctx: Context) -> Outcome:
    """Wait for nobody of the group any more. Nobody's request is left without an answer: none ever waits."""
    out = Outcome(timers=[CancelTimer(key) for key in timers_of(group)], round_changed=False)
    out.journal.append(GroupUnloaded(at_ms=ctx.now_ms, group=group.group_id, generation=group.epoch))
    return out
