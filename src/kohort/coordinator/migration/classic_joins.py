"""JoinGroup to a modern group: the member is told at once which epoch it has, and fetches the rest with SyncGroup.

The rules: protocol/consumer-groups.md#both-protocols-in-one-group. Nobody leads: the coordinator assigns.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kohort.coordinator.classic.join import FIRST_WITH_REQUIRED_ID
from kohort.coordinator.classic.parked_requests import refuse_join
from kohort.coordinator.classic.protocols import protocols_of, rebalance_timeout_of
from kohort.coordinator.consumer.arrival import (
    Arrival,
    arrival_of,
    check_room,
    check_static,
    replacement_of,
    with_software,
)
from kohort.coordinator.consumer.assignment import NEW_MEMBER, Current
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.group_epoch import Said
from kohort.coordinator.consumer.member import ConsumerMember, new_member_id
from kohort.coordinator.consumer.regexes import refresh_timers
from kohort.coordinator.consumer.sessions import begin_sessions_of, renew_session
from kohort.coordinator.consumer.steps import advance, advance_without_target
from kohort.coordinator.consumer.timers import rejoin_timer, resync_timer
from kohort.coordinator.consumer.validation import SUBSCRIBED_NAMES_MAX, UNCHANGED
from kohort.coordinator.context import Context
from kohort.coordinator.migration.downgrade import downgraded_by, is_last_modern
from kohort.coordinator.migration.embedded import partitions_by_id
from kohort.coordinator.migration.policy import may_mix
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.outcome import CancelTimer, GroupRequest, Outcome, Reply, SetTimer
from kohort.errors import ApiError, ErrorCode, ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_subscription, topics_field
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from kohort.wire.messages.group_classic import JoinGroupRequest, JoinGroupResponse


def join_modern(groups: Groups, group: ModernGroup, request: GroupRequest, ctx: Context) -> Outcome:
    """Take a member of the classic protocol in, or a step further. Raises ApiError."""
    message = request.message
    assert isinstance(message, JoinGroupRequest)
    if not may_mix(ctx.config):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "groups of both protocols are switched off")
    check_room(group, message.member_id, message.group_instance_id, ctx)
    _check_protocols(group, message)
    out = Outcome(round_changed=False)
    member_id = message.member_id or new_member_id(ctx.rng)
    is_dynamic = message.group_instance_id is None
    if is_dynamic and not message.member_id and request.api_version >= FIRST_WITH_REQUIRED_ID:
        out.replies.append(refuse_join(request, ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return out
    arrival = _arrive(group, message, member_id)
    subscription = _subscription(message)
    said = _said(arrival.said, request, message, subscription)
    arrival = with_software(arrival, said, request.software)
    owned = partitions_by_id(subscription.owned_partitions, ctx.topics)
    holder = group.members.get(group.instances.get(message.group_instance_id or "", ""))
    if holder is not None and is_last_modern(group, holder, ctx):
        current = advance_without_target(group, arrival, said, owned, ctx, out)
        out.replies.append(_answer(request, message, member_id, current))
        return downgraded_by(groups, group, holder, out, ctx)
    current = advance(group, arrival, said, owned, ctx, out)
    if arrival.said is None or arrival.replaces is not None:
        out.then = partial(begin_sessions_of, groups, group.group_id, member_id, request.connection, ctx)
    else:
        group.presence[member_id].rejoin_by_ms = None
        out.timers += renew_session(group, ConsumerMember(member_id, said, current), request.connection, ctx)
    out.timers += refresh_timers(group, said, request, ctx)
    out.timers.append(CancelTimer(rejoin_timer(group.group_id, member_id)))
    sync_by_ms = ctx.now_ms + max(0, rebalance_timeout_of(request, message))
    out.timers.append(SetTimer(resync_timer(group.group_id, member_id), sync_by_ms))
    out.replies.append(_answer(request, message, member_id, current))
    return out


def _answer(request: GroupRequest, message: JoinGroupRequest, member_id: str, current: Current) -> Reply:
    answer = JoinGroupResponse(
        generation_id=current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=message.protocols[0].name,
        member_id=member_id,
    )
    return Reply(request, answer)


def _check_protocols(group: ModernGroup, message: JoinGroupRequest) -> None:
    """Raise INCONSISTENT_GROUP_PROTOCOL unless the member is a consumer that all others of its protocol understand."""
    names = {protocol.name for protocol in message.protocols}
    if message.protocol_type != PROTOCOL_TYPE or not names.intersection(_spoken_by_all(group, names)):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol that all members speak")


def _spoken_by_all(group: ModernGroup, names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if group.classic_protocols[name] == group.classic_members)


def _subscription(message: JoinGroupRequest) -> Subscription:
    """Return the subscription, which is the same in each protocol. Raises INCONSISTENT_GROUP_PROTOCOL."""
    metadata = bytes(message.protocols[0].metadata)
    count, _ = topics_field(metadata)
    if count > SUBSCRIBED_NAMES_MAX:
        problem = f"{count} topics; a member of a consumer group may have {SUBSCRIBED_NAMES_MAX}"
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, problem)
    try:
        return parse_subscription(metadata)
    except ProtocolError as error:
        raise ApiError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"malformed embedded consumer protocol: {error}"
        ) from error


def _arrive(group: ModernGroup, message: JoinGroupRequest, member_id: str) -> Arrival:
    """Return who joins. A static member takes its place back, whoever has it, if it comes without a member id."""
    instance_id = message.group_instance_id
    if instance_id is not None and message.member_id:
        return arrival_of(group, check_static(group, instance_id, member_id))
    holder = group.instances.get(instance_id or "")
    if holder is not None:
        return replacement_of(group, group.members[holder], member_id)
    member = group.members.get(member_id)
    return Arrival(member_id, None, NEW_MEMBER, None) if member is None else arrival_of(group, member)


def _said(before: Said | None, request: GroupRequest, message: JoinGroupRequest, subscription: Subscription) -> Said:
    """Return what is known of the member from now on; the very ``before`` where that is nothing new."""
    instance_id, rebalance_timeout_ms = message.group_instance_id, rebalance_timeout_of(request, message)
    if before is not None:
        instance_id = before.instance_id if instance_id is None else instance_id
        rebalance_timeout_ms = (
            before.rebalance_timeout_ms if rebalance_timeout_ms == UNCHANGED else rebalance_timeout_ms
        )
    said = Said(
        instance_id=instance_id,
        rack_id=subscription.rack_id or (None if before is None else before.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=None if before is None else before.server_assignor,
        classic_member_metadata=ClassicMemberMetadata(
            session_timeout_ms=message.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=blob) for name, blob in protocols_of(message.protocols)
            ],
        ),
    )
    return before if before is not None and said == before else said
