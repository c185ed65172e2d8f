"""The groups of one partition of ``__consumer_offsets``, of both protocols, and what each has committed."""

from __future__ import annotations

from kohort.coordinator.consumer.group import ConsumerGroups, ModernGroup
from kohort.coordinator.offsets.state import GroupOffsets


class Groups(ConsumerGroups):
    """A group is here if it is written, has offsets, or has a round under way; ``maybe_forget`` takes others out.

    It is either in ``by_id``, the classic groups with those that only hold offsets, or in ``consumer``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[str, GroupOffsets] = {}
        """Committed and pending offsets of each group that has some."""
        self.open: dict[int, set[str]] = {}
        """Groups with pending offsets, by the producer of the open transaction."""

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.by_id or group_id in self.consumer

    def ensure_any(self, group_id: str, now_ms: int) -> None:
        """Ensure a group of either protocol; a new one only holds offsets."""
        if group_id not in self.consumer:
            self.ensure(group_id, now_ms)

    def ensure_consumer(self, group_id: str) -> ModernGroup:
        """Return the consumer group; an unknown one begins now, in place of a classic one of that name."""
        group = self.consumer.get(group_id)
        if group is None:
            self.by_id.pop(group_id, None)
            group = self.consumer[group_id] = ModernGroup(group_id)
        return group

    def end_consumer(self, group_id: str, now_ms: int) -> None:
        """Take a consumer group out; its offsets stay, as those of a group that only holds offsets."""
        del self.consumer[group_id]
        if group_id in self.offsets:
            self.ensure(group_id, now_ms)

    def maybe_forget(self, group_id: str) -> None:
        """Drop a blank group: after a first join that failed, or a deletion."""
        group = self.by_id.get(group_id)
        if group is not None and group.is_blank and group_id not in self.offsets:
            del self.by_id[group_id]
        consumer = self.consumer.get(group_id)
        if consumer is not None and consumer.is_blank:
            del self.consumer[group_id]
