"""Bugs of groups that their coordinator assigns: epochs, targets, revocation, offsets, conversions, members."""

from __future__ import annotations

from typing import Any, Final

from kohort.client.group.consumer_heartbeat import HeartbeatFields
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


@bug(AREA, "what a member is to revoke counts as revoked at once", WORLD)
def revocation_not_awaited(patch: Patch) -> None:
    patch.function(reconcile._owns, lambda *_: False)


@bug(AREA, "a partition is given to a member while another has it", WORLD)
def given_while_held(patch: Patch) -> None:
    def reconciled(real: Any, current: Any, goal: Any, owned: Any, is_free: Any) -> Any:
        del is_free
        return real(current, goal, owned, lambda *_: True)

    patch.function(reconcile.reconciled, reconciled)


@bug(AREA, "what a member is yet to revoke is not written", WORLD)
def pending_not_written(patch: Patch) -> None:
    def written(real: Any, current: Any) -> Any:
        return real(current._replace(pending={}))

    patch.function(value_of, written)


@bug(AREA, "a heartbeat of any epoch is taken", WORLD)
def any_epoch_taken(patch: Patch) -> None:
    patch.function(heartbeat.check_epoch, lambda *_: None)


@bug(AREA, "heartbeats do not renew the session", WORLD)
def modern_session_not_renewed(patch: Patch) -> None:
    patch.function(sessions.renew_session, lambda *_: [])


@bug(AREA, "a silent member is kept for ever", WORLD)
def silent_member_kept(patch: Patch) -> None:
    patch.function(sessions.session_timeout_ms, lambda real, *args: 1_000 * real(*args))


@bug(AREA, "the target is computed whenever the epoch has risen, whatever the interval", WORLD)
def interval_ignored(patch: Patch) -> None:
    patch.function(target.is_target_due, lambda _real, group, epoch, _ctx: epoch > group.target_epoch)


@bug(AREA, "nobody notices that a topic has grown", WORLD)
def growth_unnoticed(patch: Patch) -> None:
    patch.function(subscribed_topics.hash_of_found, lambda *_: 0)


@bug(AREA, "a leave is answered, and the member stays", WORLD)
def leaver_stays(patch: Patch) -> None:
    def remove(real: Any, group: Any, member: Any, event: str, ctx: Any, out: Outcome) -> None:
        if event != "member_left":
            real(group, member, event, ctx, out)

    patch.function(fencing.remove_member, remove)


@bug(AREA, "the epoch does not rise when a member goes", WORLD)
def epoch_stays_when_one_goes(patch: Patch) -> None:
    def remove(real: Any, group: Any, gone: Any, cause: Any, ctx: Any, out: Outcome) -> None:
        real(group, gone, cause, ctx, out)
        out.records[:] = [record for record in out.records if not isinstance(record, EpochWritten)]

    patch.function(fencing.remove_members, remove)


@bug(AREA, "members are not told what they are assigned meanwhile", WORLD)
def assignment_untold(patch: Patch) -> None:
    patch.function(heartbeat._same_places, lambda *_: True)


@bug(AREA, "an answer without an assignment has the epoch before", WORLD)
def epoch_goes_back(patch: Patch) -> None:
    def answer(real: Any, member_id: str, epoch: int, interval_ms: int, told: Any) -> Any:
        return real(member_id, epoch if told is not None else max(1, epoch - 1), interval_ms, told)

    patch.function(heartbeat._answer, answer)


@bug(AREA, "a heartbeat of any earlier epoch is taken", WORLD)
def any_earlier_epoch_taken(patch: Patch) -> None:
    def check(real: Any, member: Any, epoch: int, owned: Any) -> None:
        if epoch >= member.epoch:
            real(member, epoch, owned)

    patch.function(heartbeat.check_epoch, check)


@bug(AREA, "a static member that says that it will be back is taken out", WORLD)
def place_not_kept(patch: Patch) -> None:
    def remove(_real: Any, group: Any, member: Any, ctx: Any, out: Outcome) -> None:
        fencing.remove_member(group, member, "member_left", ctx, out)

    patch.function(fencing._keep_place, remove)


@bug(AREA, "a member that does not revoke is waited for without end", WORLD)
def revocation_without_end(patch: Patch) -> None:
    def begin(real: Any, group_id: str, member_id: str, rebalance_timeout_ms: int, ctx: Any) -> Any:
        return real(group_id, member_id, 1_000 * rebalance_timeout_ms, ctx)

    patch.function(sessions.begin_revocation, begin)


@bug(AREA, "a commit of any member is taken, whatever its epoch", WORLD)
def commit_of_any_epoch(patch: Patch) -> None:
    patch.function(committing._stale, lambda *_: ApiError(ErrorCode.NONE))
    patch.function(committing._since, lambda *_: 0)


@bug(AREA, "a commit of nobody is taken while the group has members", WORLD)
def modern_commit_of_nobody(patch: Patch) -> None:
    def check(real: Any, group: Any, commit: Any) -> Any:
        return real(group, commit) if commit.member_id in group.members else None

    patch.function(committing.check_commit_to_consumer, check)


@bug(AREA, "a group of classic members alone stays a modern one", WORLD)
def downgrade_missed(patch: Patch) -> None:
    patch.function(downgrade.downgraded, lambda _real, _groups, _group_id, out, _ctx: out)


@bug(AREA, "a group that is converted in the middle of a rebalance gets no target", WORLD)
def no_target_after_conversion(patch: Patch) -> None:
    def upgraded(real: Any, *args: Any) -> Any:
        modern = real(*args)
        modern.volatile.converted_amid_rebalance = False
        return modern

    patch.function(upgrade.upgrade, upgraded)


@bug(AREA, "a classic group that could not be written stands beside the modern one", WORLD)
def two_groups_of_one_name(patch: Patch) -> None:
    def refused(real: Any, coordinator: Any, shard: Any, group_id: str, *rest: Any) -> Any:
        classic = shard.groups.by_id.get(group_id)
        instead = real(coordinator, shard, group_id, *rest)
        if classic is not None and group_id in shard.groups.consumer:
            shard.groups.by_id[group_id] = classic
        return instead

    def checked(real: Any, coordinator: Any, shard: Any, outcome: Outcome, *rest: Any) -> None:
        """Refuse every conversion to the classic protocol: few seeds refuse one."""
        real(coordinator, shard, outcome, *rest)
        groups = [record.group_id for record in outcome.records if isinstance(record, GroupWritten) and record.value]
        if any(group_id in shard.groups.consumer for group_id in groups):
            raise StorageError("planted: a conversion that cannot be written")

    patch.method(Coordinator, "_refused", refused)
    patch.method(Coordinator, "_check_records", checked)


@bug(AREA, "classic members are not told to join again in a modern group", WORLD)
def rejoin_untold(patch: Patch) -> None:
    patch.function(classic_members._must_rejoin, lambda *_: False)


@bug(AREA, "a member that was fenced goes on", WORLD)
def fenced_member_goes_on(patch: Patch) -> None:
    def on_error(real: Any, membership: ConsumerMembership, code: ErrorCode, said: Any, now_ms: int) -> None:
        fenced = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
        real(membership, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code in fenced else code, said, now_ms)

    patch.method(ConsumerMembership, "_on_error", on_error)


@bug(AREA, "a member says that it has revoked before its user has", WORLD)
def revoked_before_told(patch: Patch) -> None:
    def beat(real: Any, membership: ConsumerMembership, node_id: int, now_ms: int) -> Any:
        owned, membership.owned = membership.owned, membership.target
        unsent = real(membership, node_id, now_ms)
        membership.owned = owned
        return unsent

    patch.method(ConsumerMembership, "_send_heartbeat", beat)


@bug(AREA, "the user is not told what is revoked, and keeps it", WORLD)
def revocation_untold(patch: Patch) -> None:
    def tell(real: Any, this: Reconciliation, kind: str, partitions: Any, *, then: Any) -> None:
        real(this, kind, () if kind == "revoked" else partitions, then=then)

    patch.method(Reconciliation, "_request_callback", tell)


@bug(AREA, "the user is not told what is lost before the member joins again", WORLD)
def loss_untold(patch: Patch) -> None:
    def tell(real: Any, this: Reconciliation, kind: str, partitions: Any, *, then: Any) -> None:
        real(this, kind, () if kind == "lost" else partitions, then=then)

    patch.method(Reconciliation, "_request_callback", tell)


@bug(AREA, "a member never says what it owns", WORLD)
def modern_owned_not_said(patch: Patch) -> None:
    def build(real: Any, fields: HeartbeatFields, *args: Any) -> Any:
        request = real(fields, *args)
        if request.member_epoch > 0:
            request.topic_partitions = None
        return request

    patch.method(HeartbeatFields, "build", build)


@bug(AREA, "a member does not take its new epoch", WORLD)
def new_epoch_not_taken(patch: Patch) -> None:
    def on_heartbeat(real: Any, membership: ConsumerMembership, response: Any) -> None:
        before = membership.generation
        real(membership, response)
        if before.generation_id > 0:
            membership.generation = before

    patch.method(ConsumerMembership, "_on_heartbeat", on_heartbeat)


@bug(AREA, "a member stays in the group though its user does not poll", WORLD)
def modern_zombie(patch: Patch) -> None:
    patch.method(ConsumerMembership, "_leave_for_not_polling", lambda *_: None)


@bug(AREA, "a group that has just become classic is loaded as one that has shared", WORLD)
def loaded_as_shared(patch: Patch) -> None:
    patch.method(ClassicGroup, "has_no_leader", lambda *_: False)
