"""Target assignment of a consumer group. A large group's target assignment is computed and persisted in steps.

The rules: protocol/consumer-groups.md#target-assignment (KIP-1263 for the interval).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.iteration import group_order, in_name_order, member_order
from kohort.assignors.server.spec import MemberSpec
from kohort.coordinator.consumer.evidence import target_computed
from kohort.coordinator.consumer.group import ComputedTarget, ModernGroup, PendingTarget
from kohort.coordinator.consumer.group_epoch import preferred_assignor, settings_of
from kohort.coordinator.consumer.reconcile import Target, target_value_of
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Move
from kohort.coordinator.outcome import Outcome, SetTimer, TimerKey, TopicsView
from kohort.coordinator.records import TargetEpochWritten, TargetWritten
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.steps import STEP_US, Pace, Steps
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)

STEP_PAUSE_MS: Final = 1
RETRY_MS: Final = 500
"""Time in ms until the next attempt to append target assignment records, after a failed append."""
WRITTEN_AT_ONCE: Final = 300
"""Maximum number of members whose target assignments one step persists."""
SNAPSHOT_US: Final = 0.7
SPEC_US: Final = 8
TOPIC_US: Final = 2
COMPARED_US: Final = 1
MOVE_US: Final = 2
RECORD_US: Final = 15
"""Estimated cost in microseconds of one target assignment record. The ``_US`` constants above are other costs."""


class ResolvedSubscription(NamedTuple):
    """Subscription of a member, with its existing topics.

    Members with equal subscriptions share the objects in all fields but ``metadata``.
    """

    metadata: ConsumerMetadata
    resolved: ConsumerGroupRegularExpressionValue | None
    version: int
    topic_ids: Mapping[str, bytes]
    """Existing subscribed topics as a dict: name -> topic id, in Kafka's order."""
    spec: MemberSpec

    @property
    def key(self) -> tuple[Collection[str], str]:
        return self.spec.names, self.spec.regex


class Subscriptions:
    """Subscriptions of all members, for one target assignment. An unchanged subscription is not resolved again."""

    def __init__(self, group: ModernGroup, topics: TopicsView) -> None:
        self._group = group
        self._topics = topics
        self._before: dict[str, ResolvedSubscription] = group.volatile.subscriptions
        self._now: dict[str, ResolvedSubscription] = {}
        self._by_key: dict[tuple[Collection[str], str], ResolvedSubscription] = {}
        self._matched: dict[tuple[str, ...], dict[str, bytes]] = {}

    def of(self, member_id: str, metadata: ConsumerMetadata) -> tuple[ResolvedSubscription, bool]:
        """Return a member's subscription, and whether no earlier member has the same subscription."""
        regex = metadata.subscribed_topic_regex or ""
        resolved = self._group.regexes.get(regex) if regex else None
        known = self._before.get(member_id)
        if known is not None and known.metadata is metadata and known.resolved is resolved:
            key = known.key
            is_current = known.version == self._topics.version
        else:
            key, is_current = (tuple(sorted(metadata.subscribed_topic_names)), regex), False
        shared = self._by_key.get(key)
        is_first = shared is None
        if shared is None:
            shared = known if known is not None and is_current else self._resolve(metadata, key, resolved)
            self._by_key[key] = shared
        self._now[member_id] = shared if shared.metadata is metadata else shared._replace(metadata=metadata)
        return shared, is_first

    def keep(self) -> None:
        self._group.volatile.subscriptions = self._now

    def _resolve(
        self,
        metadata: ConsumerMetadata,
        key: tuple[Collection[str], str],
        resolved: ConsumerGroupRegularExpressionValue | None,
    ) -> ResolvedSubscription:
        names, regex = key
        matched = () if resolved is None else tuple(resolved.topics)
        # Several patterns may match the same topics. They share one lookup of the topic ids.
        if matched not in self._matched:
            self._matched[matched] = self._topic_ids(matched)
        topic_ids = self._matched[matched]
        if names:
            topic_ids = topic_ids | self._topic_ids(names)
        spec = MemberSpec(frozenset(topic_ids.values()), names=names, regex=regex)
        return ResolvedSubscription(metadata, resolved, self._topics.version, topic_ids, spec)

    def _topic_ids(self, names: Collection[str]) -> dict[str, bytes]:
        found = {name: topic_id for name in names if (topic_id := self._topics.topic_id(name)) is not None}
        return {name: found[name] for name in in_name_order(found, len(names))}


class HeartbeatSender(NamedTuple):
    """Member that sent the current heartbeat, with its metadata after this heartbeat."""

    member_id: str
    metadata: ConsumerMetadata
    owned: Target
    """Previous target assignment of the sender, or of the static member that it replaces."""
    replaces: str | None


def is_target_due(group: ModernGroup, epoch: int, ctx: Context) -> bool:
    """Return True if the heartbeat must compute the target assignment of the group epoch ``epoch``."""
    if epoch <= group.target_epoch:
        return False
    interval_ms = settings_of(group.group_id, ctx).assignment_interval_ms
    return not group.target_at_ms or not interval_ms or ctx.now_ms >= group.target_at_ms + interval_ms


def compute_target(group: ModernGroup, epoch: int, sender: HeartbeatSender, ctx: Context) -> ComputedTarget | None:
    """Compute the group's target assignment, with ``sender`` as a member.

    Return None if the computation takes several steps (ADR 11).
    """
    try:
        next(_computed(group, epoch, sender, ctx, Pace()))
    except StopIteration as end:
        computed: ComputedTarget = end.value
        return computed
    return None


def begin_in_steps(group: ModernGroup, ctx: Context, out: Outcome) -> None:
    """Start a timer that computes a large group's target assignment in steps.

    Later heartbeats use the result (KIP-1263).
    """
    group.volatile.pending_target = PendingTarget()
    begin = SetTimer(TimerKey("target", group.group_id), ctx.now_ms)
    out.timers.append(begin)
    out.otherwise.append(begin)


def on_target_timer(group: ModernGroup, ctx: Context) -> Outcome:
    """Continue a large group's target assignment: compute the next part, or persist the targets of some members."""
    out, pending = Outcome(round_changed=False, worked_us=STEP_US), group.volatile.pending_target
    if pending is None or group.target_epoch >= pending.epoch:  # the group's last member left during the computation
        group.volatile.pending_target = None
        return out
    if pending.steps is None:
        if not is_target_due(group, group.epoch, ctx):
            group.volatile.pending_target = None
            return out
        pending.epoch = group.epoch
        pending.steps = _computed(group, group.epoch, None, ctx, Pace(goes_on=True))
    if pending.computed is not None:
        _write_some(group, pending, pending.computed, ctx, out)
        return out
    try:
        next(pending.steps)
    except StopIteration as end:
        pending.computed = end.value
    except ApiError as error:
        pending.error = error
        return out
    out.timers.append(SetTimer(TimerKey("target", group.group_id), ctx.now_ms + STEP_PAUSE_MS))
    return out


def _write_some(
    group: ModernGroup, pending: PendingTarget, computed: ComputedTarget, ctx: Context, out: Outcome
) -> None:
    """Persist the target assignments of the next members. After the last member, also persist the target epoch."""
    end = pending.written + WRITTEN_AT_ONCE
    for member_id in computed.changed[pending.written : end]:
        now_id = _id_now(group, member_id, computed.specs[member_id])
        if now_id is not None:
            out.records.append(TargetWritten(group.group_id, now_id, target_value_of(computed.targets[member_id])))
    is_last = end >= len(computed.changed)
    if is_last:
        out.records.append(target_epoch_record(group, computed, ctx))
        out.journal.append(target_computed(group, computed, ctx))
    else:
        out.timers.append(SetTimer(TimerKey("target", group.group_id), ctx.now_ms + STEP_PAUSE_MS))
    out.otherwise.append(SetTimer(TimerKey("target", group.group_id), ctx.now_ms + RETRY_MS))

    def mark_written() -> Outcome:
        pending.written = end
        if is_last:
            group.volatile.pending_target = None
        return Outcome(round_changed=False)

    out.then = mark_written


def _id_now(group: ModernGroup, member_id: str, spec: MemberSpec) -> str | None:
    """Return a member's current id: the new id of a static member that rejoined, or None for a member that left."""
    if member_id in group.members:
        return member_id
    return None if spec.instance_id is None else group.instances.get(spec.instance_id)


def target_epoch_record(group: ModernGroup, computed: ComputedTarget, ctx: Context) -> TargetEpochWritten:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=computed.epoch, assignment_timestamp=ctx.now_ms)
    return TargetEpochWritten(group.group_id, value)


def _computed(
    group: ModernGroup, epoch: int, sender: HeartbeatSender | None, ctx: Context, pace: Pace
) -> Steps[ComputedTarget]:
    assignor, previous_ids = preferred_assignor(group, ctx), {}
    if sender is not None:
        previous_id = previous_ids[sender.member_id] = sender.replaces or sender.member_id
        before = group.members.get(previous_id)
        assignor = preferred_assignor(group, ctx, None if before is None else before.metadata, sender.metadata)
    specs, counts = yield from _specs(group, sender, ctx, pace)
    try:
        targets = yield from SERVER_ASSIGNORS[assignor].steps(specs, counts, pace)
    except KohortError as error:
        problem = f"Failed to compute a new target assignment for epoch {epoch}: {error}"
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, problem) from error
    changed = []
    for member_id in (yield from member_order(specs, pace)):
        had = group.targets.get(previous_ids.get(member_id, member_id))
        if had is None or had != targets[member_id]:
            changed.append(member_id)
        if pace.is_due(COMPARED_US):
            yield
    moves = yield from _moves(changed, specs, targets, ctx.topics, pace)
    if pace.is_due(RECORD_US * len(changed)):
        yield
    return ComputedTarget(epoch, specs, targets, changed, assignor, moves)


def _specs(
    group: ModernGroup, sender: HeartbeatSender | None, ctx: Context, pace: Pace
) -> Steps[tuple[dict[str, MemberSpec], dict[bytes, int]]]:
    if pace.is_due(SNAPSHOT_US * len(group.members)):
        yield
    members = {m.member_id: (m.metadata, group.target(m.member_id)) for m in group.members.values()}
    order = yield from group_order(members, group.most_members, pace)
    first: list[str] = []
    if sender is not None:
        first.append(sender.member_id)  # as in Kafka, the sender's topics come before the topics of other members
        if sender.replaces is not None and sender.replaces != sender.member_id:
            order.remove(sender.replaces)
        if sender.member_id not in members:
            order.append(sender.member_id)
        members[sender.member_id] = (sender.metadata, sender.owned)
    specs: dict[str, MemberSpec] = {}
    counts: dict[bytes, int] = {}
    subscriptions = Subscriptions(group, ctx.topics)
    for member_id in (*first, *order):
        metadata, owned = members[member_id]
        subscription, is_first = subscriptions.of(member_id, metadata)
        if is_first:
            counts.update({id_: ctx.topics.partition_count(n) or 0 for n, id_ in subscription.topic_ids.items()})
        specs[member_id] = subscription.spec._replace(
            owned=owned, rack_id=metadata.rack_id, instance_id=metadata.instance_id
        )
        if pace.is_due(SPEC_US + is_first * TOPIC_US * len(subscription.topic_ids)):
            yield
    subscriptions.keep()
    return {member_id: specs[member_id] for member_id in order} if first else specs, counts


def _moves(
    changed: Sequence[str],
    specs: Mapping[str, MemberSpec],
    targets: Mapping[str, Target],
    topics: TopicsView,
    pace: Pace,
) -> Steps[tuple[Move, ...]]:
    losers: dict[bytes, dict[int, str]] = {}
    takers: dict[bytes, dict[int, str]] = {}
    for member_id in changed:
        had, has, moved = specs[member_id].owned, targets[member_id], 0
        for topic in {*had, *has}:
            was, now = had.get(topic, frozenset()), has.get(topic, frozenset())
            if was is not now:
                losers.setdefault(topic, {}).update(dict.fromkeys(was - now, member_id))
                takers.setdefault(topic, {}).update(dict.fromkeys(now - was, member_id))
                moved += len(was ^ now)
        if pace.is_due(COMPARED_US + MOVE_US * moved):
            yield
    moves = []
    for name, topic in sorted((topics.topic_name(topic) or topic.hex(), topic) for topic in losers):
        lost, taken = losers[topic], takers[topic]
        for partition in sorted({*lost, *taken}):
            moves.append(Move(name, partition, lost.get(partition), taken.get(partition)))
            if pace.is_due(MOVE_US):
                yield
    return tuple(moves)
