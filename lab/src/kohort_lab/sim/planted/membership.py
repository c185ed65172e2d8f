"""Bugs of classic membership in the client: join, revocation, heartbeat, leave, assignment."""

from __future__ import annotations

from typing import Any

from kohort.client.group.commits import CommitOrder, Commits
from kohort.client.group.member_messages import GroupLeader, MemberMessages
from kohort.client.group.membership import HeartbeatClocks, PollDeadline, Rebalancing
from kohort.client.group.membership_classic import ClassicMembership
from kohort.client.group.rebalance_classic import ClassicRebalance
from kohort.client.reading.subscription import SubscriptionState
from kohort.errors import ErrorCode
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch


@bug("membership", "a member ignores UNKNOWN_MEMBER_ID")
def zombie_does_not_notice(patch: Patch) -> None:
    def on_heartbeat(real: Any, membership: ClassicMembership, request: Any, response: Any, now_ms: int) -> None:
        if response.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
            real(membership, request, response, now_ms)

    patch.method(ClassicMembership, "_on_heartbeat", on_heartbeat)


@bug("membership", "a cooperative member joins without its owned partitions")
def owned_not_said(patch: Patch) -> None:
    def without_owned(real: Any, *args: Any) -> Any:
        subscription = real(*args)
        subscription.owned_partitions.clear()
        subscription.user_data = None
        return subscription

    patch.method(MemberMessages, "_subscription_metadata", without_owned)


@bug("membership", "an eager member keeps its partitions while it joins")
def eager_keeps_partitions(patch: Patch) -> None:
    def join(real: Any, rebalance: ClassicRebalance, keep: Any) -> None:
        del keep
        real(rebalance, keep=list(rebalance._subscription.assigned))

    patch.method(ClassicRebalance, "_join", join)


@bug("membership", "a cooperative member does not rejoin after a revocation")
def no_second_round(patch: Patch) -> None:
    def revoke(real: Any, rebalance: ClassicRebalance, revoked: Any, added: Any, assigned: Any) -> None:
        real(rebalance, revoked, added, assigned)
        if revoked:
            rebalance._membership.rejoin_reason = None

    patch.method(ClassicRebalance, "_revoke", revoke)


@bug("membership", "a cooperative member still reads revoked partitions")
def revoked_partitions_kept(patch: Patch) -> None:
    def assign(real: Any, subscription: SubscriptionState, partitions: Any) -> None:
        real(subscription, [*partitions, *subscription.assigned])

    patch.method(SubscriptionState, "assign_from_group", assign)


@bug("membership", "a member whose user does not poll stays in the group")
def poll_interval_ignored(patch: Patch) -> None:
    patch.method(PollDeadline, "poll_expired", lambda *_: False)


@bug("membership", "heartbeats stop after a failed heartbeat")
def heartbeats_stop(patch: Patch) -> None:
    def failed(_real: Any, clocks: HeartbeatClocks, now_ms: int) -> None:
        clocks.heartbeat_at_ms = now_ms + 3_600_000

    patch.method(HeartbeatClocks, "failed", failed)


@bug("membership", "the leader assigns all partitions to itself")
def greedy_leader(patch: Patch) -> None:
    def assignments(real: Any, leader: GroupLeader, now_ms: int) -> Any:
        leader._members = leader._members[:1]
        return real(leader, now_ms)

    patch.method(GroupLeader, "assignments", assignments)


@bug("membership", "the leader assigns a partition to two members")
def partition_given_twice(patch: Patch) -> None:
    from kohort.wire.consumer_protocol import build_assignment, parse_assignment

    def assignments(real: Any, leader: GroupLeader, now_ms: int) -> Any:
        assignments_of_members = real(leader, now_ms)
        if assignments_of_members and len(assignments_of_members) > 1:
            first, last = (parse_assignment(bytes(assignments_of_members[i].assignment)) for i in (0, -1))
            if first.partitions and first.partitions[0] not in last.partitions:
                last.partitions.append(first.partitions[0])
                assignments_of_members[-1].assignment = build_assignment(last)
        return assignments_of_members

    patch.method(GroupLeader, "assignments", assignments)


@bug("membership", "the last partition is assigned to no member")
def partition_forgotten(patch: Patch) -> None:
    from kohort.assignors.previous_ownership import PartitionNumbers
    from kohort.assignors.spec import SubscribedTopics

    patch.method(SubscribedTopics, "partitions", lambda real, topics, topic: real(topics, topic)[:-1])
    patch.method(PartitionNumbers, "of_topic", lambda real, numbers, rank: real(numbers, rank)[:-1])


@bug("membership", "a rejected commit is reported as successful")
def refused_commit_is_done(patch: Patch) -> None:
    def on_response(real: Any, commits: Commits, sent: Any, response: Any, now_ms: int) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                partition.error_code = 0
        real(commits, sent, response, now_ms)

    patch.method(Commits, "on_response", on_response)


@bug("membership", "partitions are revoked without a commit")
def revoked_without_commit(patch: Patch) -> None:
    def start(real: Any, rebalance: Rebalancing, leaving: Any, commit: Any, now_ms: int) -> None:
        del commit
        real(rebalance, leaving, [], now_ms)

    patch.method(Rebalancing, "_start_commit", start)


@bug("membership", "a retried commit overwrites a later commit")
def older_commit_comes_last(patch: Patch) -> None:
    patch.method(CommitOrder, "still_pending", lambda _real, _order, _number, remaining: remaining)
    patch.method(Commits, "_overlaps_later_commit", lambda *_: False)


@bug("membership", "a partition that is resubscribed during its revocation is not read again")
def wanted_again_stays_silent(patch: Patch) -> None:
    def give_up(real: Any, rebalance: ClassicRebalance, now_ms: int) -> None:
        marked = {p: state.pending_revocation for p, state in rebalance._subscription.assigned.items()}
        real(rebalance, now_ms)
        for partition, was_to_go in marked.items():
            rebalance._subscription.assigned[partition].pending_revocation = was_to_go

    patch.method(ClassicRebalance, "_revoke_before_join", give_up)


@bug("membership", "a subscription change after the join counts as sent")
def wanted_since_join_counts_as_said(patch: Patch) -> None:
    def adopt(real: Any, rebalance: ClassicRebalance, added: Any, assigned: Any) -> None:
        real(rebalance, added, assigned)
        rebalance._joined_topics = rebalance._subscription.topics

    patch.method(ClassicRebalance, "_adopt", adopt)
