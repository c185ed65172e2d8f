"""A commit to a modern group is taken from a member alone, for what it had when it had the epoch that it names."""

from __future__ import annotations

from collections.abc import Callable

from kohort.coordinator.consumer.group import ModernGroup
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.watcher import Exchange, Watcher
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse

TopicName = Callable[[bytes], str | None]


class EpochCommits(Watcher):
    """Looks at the member at the moment when its commit is answered."""

    def __init__(self, group_id: str, group: Callable[[], ModernGroup | None], topic_name: TopicName) -> None:
        self._group_id = group_id
        self._group = group
        self._topic_name = topic_name
        self.earlier = 0
        """How many were taken that named an earlier epoch than the member's."""

    def answered(self, exchange: Exchange) -> None:
        asked, answer, group = exchange.asked, exchange.answer, self._group()
        if not isinstance(asked, OffsetCommitRequest) or not isinstance(answer, OffsetCommitResponse) or group is None:
            return
        taken = {
            (topic.name or self._topic_name(topic.topic_id), p.partition_index)
            for topic in answer.topics
            for p in topic.partitions
            if not p.error_code
        }
        if taken and asked.group_id == self._group_id and group.members:
            self.check_may(group, asked, taken)

    def check_may(self, group: ModernGroup, asked: OffsetCommitRequest, taken: set[tuple[str | None, int]]) -> None:
        member, epoch = group.members.get(asked.member_id), asked.generation_id_or_member_epoch
        if member is None:
            raise CheckFailed(f"a commit of {asked.member_id!r} is taken, which is no member")
        if epoch > member.epoch:
            raise CheckFailed(f"a commit of {asked.member_id!r} with epoch {epoch} is taken, it has {member.epoch}")
        if epoch == member.epoch:
            return
        self.earlier += 1
        since = {(self._topic_name(topic_id), p): at for topic_id, p, at in member.current.held()}
        for place in taken:
            if since.get(place, epoch + 1) > epoch:
                raise CheckFailed(
                    f"a commit of {asked.member_id!r} with epoch {epoch} is taken for {place[0]}-{place[1]}, which it "
                    f"has had since {since.get(place)}"
                )
