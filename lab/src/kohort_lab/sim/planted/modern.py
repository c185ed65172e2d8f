"""Bugs of consumer groups: epochs, target assignments, revocation, offsets, conversions, members."""

from __future__ import annotations

from typing import Any, Final

from kohort.client.group.consumer_heartbeat import HeartbeatFields
from kohort.client.group.membership import Rebalancing
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.group.reconciliation import Reconciliation
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer import (
    fencing,
    heartbeat,
    reconcile,
    sessions,
    subscribed_topics,
    target,
)
from kohort.coordinator.consumer.reconcile import value_of
from kohort.coordinator.migration import classic_members, downgrade, upgrade
from kohort.coordinator.offsets import committing
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.records import EpochWritten, GroupWritten
from kohort.coordinator.runtime import Coordinator
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch

AREA: Final = "modern"
WORLD: Final = "modern"


@bug(AREA, "a pending revocation counts as revoked at once", WORLD)
def revocation_not_awaited(patch: Patch) -> None:
    patch.function(reconcile._owns, lambda *_: False)


@bug(AREA, "a partition is assigned while another member owns it", WORLD)
def given_while_held(patch: Patch) -> None:
    def reconciled(real: Any, current: Any, goal: Any, owned: Any, is_free: Any) -> Any:
        del is_free
        return real(current, goal, owned, lambda *_: True)

    patch.function(reconcile.reconciled, reconciled)


@bug(AREA, "pending revocations are not persisted", WORLD)
def pending_not_written(patch: Patch) -> None:
    def written(real: Any, current: Any) -> Any:
        return real(current._replace(pending={}))

    patch.function(value_of, written)


@bug(AREA, "a heartbeat with any epoch succeeds", WORLD)
def any_epoch_taken(patch: Patch) -> None:
    patch.function(heartbeat.check_epoch, lambda *_: None)


@bug(AREA, "heartbeats do not renew the session", WORLD)
def modern_session_not_renewed(patch: Patch) -> None:
    patch.function(sessions.renew_session, lambda *_: [])


@bug(AREA, "a silent member never expires", WORLD)
def silent_member_kept(patch: Patch) -> None:
    patch.function(sessions.session_timeout_ms, lambda real, *args: 1_000 * real(*args))


@bug(AREA, "the target assignment ignores the assignment interval", WORLD)
def interval_ignored(patch: Patch) -> None:
    patch.function(target.is_target_due, lambda _real, group, epoch, _ctx: epoch > group.target_epoch)


@bug(AREA, "new partitions of a topic are not noticed", WORLD)
def growth_unnoticed(patch: Patch) -> None:
    patch.function(subscribed_topics.hash_of_found, lambda *_: 0)


@bug(AREA, "a leave succeeds, but the member stays", WORLD)
def leaver_stays(patch: Patch) -> None:
    def remove(real: Any, group: Any, member: Any, event: str, ctx: Any, out: Outcome) -> None:
        if event != "member_left":
            real(group, member, event, ctx, out)

    patch.function(fencing.remove_member, remove)


@bug(AREA, "the group epoch does not increase after a leave", WORLD)
def epoch_stays_when_one_goes(patch: Patch) -> None:
    def remove(real: Any, group: Any, removed: Any, cause: Any, ctx: Any, out: Outcome) -> None:
        real(group, removed, cause, ctx, out)
        out.records[:] = [record for record in out.records if not isinstance(record, EpochWritten)]

    patch.function(fencing.remove_members, remove)


@bug(AREA, "heartbeat responses lack changed assignments", WORLD)
def assignment_untold(patch: Patch) -> None:
    patch.function(heartbeat._same_places, lambda *_: True)


@bug(AREA, "a response without assignment has the previous epoch", WORLD)
def epoch_goes_back(patch: Patch) -> None:
    def answer(real: Any, member_id: str, epoch: int, interval_ms: int, assignment: Any) -> Any:
        return real(member_id, epoch if assignment is not None else max(1, epoch - 1), interval_ms, assignment)

    patch.function(heartbeat._answer, answer)


@bug(AREA, "a heartbeat with any earlier epoch succeeds", WORLD)
def any_earlier_epoch_taken(patch: Patch) -> None:
    def check(real: Any, member: Any, epoch: int, owned: Any) -> None:
        if epoch >= member.epoch:
            real(member, epoch, owned)

    patch.function(heartbeat.check_epoch, check)


@bug(AREA, "a static member is removed at its temporary leave", WORLD)
def place_not_kept(patch: Patch) -> None:
    def remove(_real: Any, group: Any, member: Any, ctx: Any, out: Outcome) -> None:
        fencing.remove_member(group, member, "member_left", ctx, out)

    patch.function(fencing._keep_place, remove)


@bug(AREA, "a pending revocation has no timeout", WORLD)
def revocation_without_end(patch: Patch) -> None:
    def begin(real: Any, group_id: str, member_id: str, rebalance_timeout_ms: int, ctx: Any) -> Any:
        return real(group_id, member_id, 1_000 * rebalance_timeout_ms, ctx)

    patch.function(sessions.begin_revocation, begin)


@bug(AREA, "a member's commit succeeds with any epoch", WORLD)
def commit_of_any_epoch(patch: Patch) -> None:
    patch.function(committing._stale, lambda *_: ApiError(ErrorCode.NONE))
    patch.function(committing._since, lambda *_: 0)


@bug(AREA, "a commit without member id succeeds while the group has members", WORLD)
def modern_commit_of_nobody(patch: Patch) -> None:
    def check(real: Any, group: Any, commit: Any) -> Any:
        return real(group, commit) if commit.member_id in group.members else None

    patch.function(committing.check_commit_to_consumer, check)


@bug(AREA, "a group of classic members only is not converted", WORLD)
def downgrade_missed(patch: Patch) -> None:
    patch.function(downgrade.downgraded, lambda _real, _groups, _group_id, out, _ctx: out)


@bug(AREA, "a group converted during a rebalance gets no target assignment", WORLD)
def no_target_after_conversion(patch: Patch) -> None:
    def upgraded(real: Any, *args: Any) -> Any:
        modern = real(*args)
        modern.volatile.converted_amid_rebalance = False
        return modern

    patch.function(upgrade.upgrade, upgraded)


@bug(AREA, "after a failed conversion both a classic group and a consumer group exist", WORLD)
def two_groups_of_one_name(patch: Patch) -> None:
    def refused(real: Any, coordinator: Any, shard: Any, group_id: str, *rest: Any) -> Any:
        classic = shard.groups.by_id.get(group_id)
        instead = real(coordinator, shard, group_id, *rest)
        if classic is not None and group_id in shard.groups.consumer:
            shard.groups.by_id[group_id] = classic
        return instead

    def checked(real: Any, coordinator: Any, shard: Any, outcome: Outcome, *rest: Any) -> None:
        """Reject every conversion to the classic protocol, which few seeds do by themselves."""
        real(coordinator, shard, outcome, *rest)
        groups = [record.group_id for record in outcome.records if isinstance(record, GroupWritten) and record.value]
        if any(group_id in shard.groups.consumer for group_id in groups):
            raise StorageError("planted: the conversion cannot be written")

    patch.method(Coordinator, "_refused", refused)
    patch.method(Coordinator, "_check_records", checked)


@bug(AREA, "classic members of a consumer group get no REBALANCE_IN_PROGRESS", WORLD)
def rejoin_untold(patch: Patch) -> None:
    patch.function(classic_members._must_rejoin, lambda *_: False)


@bug(AREA, "a fenced member continues", WORLD)
def fenced_member_goes_on(patch: Patch) -> None:
    def on_error(real: Any, membership: ConsumerMembership, code: ErrorCode, message: Any, now_ms: int) -> None:
        fenced = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
        real(membership, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in fenced else code, message, now_ms)

    patch.method(ConsumerMembership, "_on_error", on_error)


@bug(AREA, "a member reports a revocation before its callback is done", WORLD)
def revoked_before_told(patch: Patch) -> None:
    def beat(real: Any, membership: ConsumerMembership, node_id: int, now_ms: int) -> Any:
        owned, membership.owned = membership.owned, membership.target
        unsent = real(membership, node_id, now_ms)
        membership.owned = owned
        return unsent

    patch.method(ConsumerMembership, "_send_heartbeat", beat)


@bug(AREA, "the user gets no revocation callback and keeps the partitions", WORLD)
def revocation_untold(patch: Patch) -> None:
    def request_callback(real: Any, this: Rebalancing, kind: str, partitions: Any, **then: Any) -> None:
        untold = kind == "revoked" and isinstance(this, Reconciliation)
        real(this, kind, () if untold else partitions, **then)

    patch.method(Rebalancing, "_request_callback", request_callback)


@bug(AREA, "the user gets no callback for lost partitions before the rejoin", WORLD)
def loss_untold(patch: Patch) -> None:
    def request_callback(real: Any, this: Rebalancing, kind: str, partitions: Any, **then: Any) -> None:
        untold = kind == "lost" and isinstance(this, Reconciliation)
        real(this, kind, () if untold else partitions, **then)

    patch.method(Rebalancing, "_request_callback", request_callback)


@bug(AREA, "a member never sends its owned partitions", WORLD)
def modern_owned_not_said(patch: Patch) -> None:
    def build(real: Any, fields: HeartbeatFields, *args: Any) -> Any:
        request = real(fields, *args)
        if request.member_epoch > 0:
            request.topic_partitions = None
        return request

    patch.method(HeartbeatFields, "build", build)


@bug(AREA, "a member ignores its new epoch", WORLD)
def new_epoch_not_taken(patch: Patch) -> None:
    def on_heartbeat(real: Any, membership: ConsumerMembership, response: Any) -> None:
        before = membership.generation
        real(membership, response)
        if before.generation_id > 0:
            membership.generation = before

    patch.method(ConsumerMembership, "_on_heartbeat", on_heartbeat)


@bug(AREA, "a consumer group member whose user does not poll stays in the group", WORLD)
def modern_zombie(patch: Patch) -> None:
    patch.method(ConsumerMembership, "_leave_for_not_polling", lambda *_: None)


@bug(AREA, "a group just converted to classic is loaded as stable", WORLD)
def loaded_as_shared(patch: Patch) -> None:
    patch.method(ClassicGroup, "has_no_leader", lambda *_: False)
