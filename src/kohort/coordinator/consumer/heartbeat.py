"""ConsumerGroupHeartbeat (68) v0-1: who is there, what it says, the group's epoch, the target, the member's next step.

The rules: protocol/consumer-groups.md#heartbeats. Each step is computed on values, from what the one before has made;
the group changes when the records are replayed, and not before.
"""

from __future__ import annotations

from functools import partial

from kohort.coordinator.consumer.arrival import arrive, with_software
from kohort.coordinator.consumer.assignment import (
    Held,
)
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.groups import ConsumerGroups
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.reconcile import Owned
from kohort.coordinator.consumer.regexes import refresh_timers
from kohort.coordinator.consumer.sessions import (
    begin_sessions_of,
    renew_session,
)
from kohort.coordinator.consumer.settings import settings_of
from kohort.coordinator.consumer.steps import advance
from kohort.coordinator.consumer.subscription import check_regex, is_full, said_after
from kohort.coordinator.context import Context
from kohort.coordinator.outcome import GroupRequest, Outcome, Reply
from kohort.errors import ErrorCode
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def decide_consumer_heartbeat(
    groups: ConsumerGroups, group: ModernGroup, request: GroupRequest, ctx: Context
) -> Outcome:
    """Take a member in, or a step further. ``group`` may be one that is there only once the records are replayed.

    Raises ApiError with Kafka's words.
    """
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    out = Outcome(round_changed=False)
    owned = _owned(message)
    arrival = arrive(group, message, owned, ctx)
    said = said_after(arrival.said, request)
    check_regex(group, arrival.said, said)
    current = advance(group, with_software(arrival, said, request.software), said, owned, ctx, out)
    if arrival.said is None or arrival.replaces is not None:
        out.then = partial(_settle_in, groups, arrival.member_id, request, ctx)
    else:
        now = ConsumerMember(arrival.member_id, said, current)
        out.timers += renew_session(group, now, request.connection, ctx)
        out.timers += refresh_timers(group, said, request, ctx)
    tells_all = message.member_epoch == JOINING_EPOCH or is_full(message)
    told = current.assigned if tells_all or not _same_places(arrival.current.assigned, current.assigned) else None
    interval_ms = settings_of(group.group_id, ctx).heartbeat_interval_ms
    out.replies.append(Reply(request, _answer(arrival.member_id, current.epoch, interval_ms, told)))
    return out


def _settle_in(groups: ConsumerGroups, member_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    """Begin the session of a member that is written by now, and the search for what its expression matches."""
    message = request.message
    assert isinstance(message, ConsumerGroupHeartbeatRequest)
    out = begin_sessions_of(groups, message.group_id, member_id, request.connection, ctx)
    group = groups.consumer[message.group_id]
    out.timers += refresh_timers(group, group.members[member_id].said, request, ctx)
    return out


def refuse_consumer_heartbeat(asked: GroupRequest, code: ErrorCode) -> Reply:
    """Answer a ConsumerGroupHeartbeat with ``code``: with no member id, epoch or interval."""
    return Reply(asked, ConsumerGroupHeartbeatResponse(error_code=code))


def explain_refusal(reply: Reply, words: str) -> Reply:
    """Put Kafka's words into a refusal."""
    message = reply.message
    assert isinstance(message, ConsumerGroupHeartbeatResponse)
    return Reply(reply.asked, ConsumerGroupHeartbeatResponse(error_code=message.error_code, error_message=words))


def _owned(message: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if message.topic_partitions is None:
        return None
    owned = {topic.topic_id: topic.partitions for topic in message.topic_partitions}
    if len(owned) == len(message.topic_partitions):
        return owned
    merged: dict[bytes, list[int]] = {}
    for topic in message.topic_partitions:
        merged.setdefault(topic.topic_id, []).extend(topic.partitions)
    return merged


def _same_places(one: Held, other: Held) -> bool:
    """Tells whether both hold the same partitions, be it since when it may."""
    return one is other or (
        one.keys() == other.keys() and all(one[topic].keys() == other[topic].keys() for topic in one)
    )


def _answer(member_id: str, epoch: int, interval_ms: int, told: Held | None) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if told is not None:
        assignment = ConsumerGroupHeartbeatResponseAssignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in told.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=interval_ms, assignment=assignment
    )
