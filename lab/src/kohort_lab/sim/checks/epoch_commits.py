"""Commit check of consumer groups: only a member may commit, with an epoch at which it owned the partition.

A member is compared at the time of the response. With pipelined requests (a commit, then a leave) the coordinator has
handled both before the first response. A member that left in between, also temporarily, is compared as before the
event.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.wire.messages.group_consumer import LEAVING_FOR_A_WHILE_EPOCH
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

TopicName = Callable[[bytes], str | None]


class EpochCommits(Watcher):
    """Check at the response of each commit; call ``check`` after every event that changed members."""

    def __init__(self, group_id: str, group: Callable[[], ModernGroup | None], topic_name: TopicName) -> None:
        self._group_id = group_id
        self._group = group
        self._topic_name = topic_name
        self._before: dict[str, CurrentAssignment] = {}
        self.earlier = 0
        """Number of accepted commits with an earlier epoch than the member's."""

    def check(self) -> None:
        """Record the current members."""
        group = self._group()
        self._before = {} if group is None else {m: member.current for m, member in group.members.items()}

    def answered(self, exchange: Exchange) -> None:
        request, answer, group = exchange.request, exchange.answer, self._group()
        if (
            not isinstance(request, OffsetCommitRequest)
            or not isinstance(answer, OffsetCommitResponse)
            or group is None
        ):
            return
        taken = {
            (topic.name or self._topic_name(topic.topic_id), p.partition_index)
            for topic in answer.topics
            for p in topic.partitions
            if not p.error_code
        }
        if taken and request.group_id == self._group_id and group.members:
            self.check_may(group, request, taken)

    def check_may(self, group: ModernGroup, request: OffsetCommitRequest, taken: set[tuple[str | None, int]]) -> None:
        member, epoch = group.members.get(request.member_id), request.generation_id_or_member_epoch
        current = None if member is None else member.current
        if current is None or current.epoch == LEAVING_FOR_A_WHILE_EPOCH:
            current = self._before.get(request.member_id)
        if current is None:
            raise CheckFailed(f"a commit of {request.member_id!r} succeeds, which is not a member")
        if epoch > current.epoch:
            raise CheckFailed(
                f"a commit of {request.member_id!r} with epoch {epoch} succeeds; its epoch is {current.epoch}"
            )
        if epoch == current.epoch:
            return
        self.earlier += 1
        since = {(self._topic_name(topic_id), p): at for topic_id, p, at in current.partitions()}
        for place in taken:
            if since.get(place, epoch + 1) > epoch:
                raise CheckFailed(
                    f"a commit of {request.member_id!r} with epoch {epoch} succeeds for {place[0]}-{place[1]}, "
                    f"owned since epoch {since.get(place)}"
                )
