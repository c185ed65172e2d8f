"""All groups of one partition of ``__consumer_offsets``, with their offsets."""

from __future__ import annotations

from kohort.coordinator.consumer.group import ConsumerGroups, ModernGroup
from kohort.coordinator.offsets.state import GroupOffsets


class Groups(ConsumerGroups):
    """Groups of a ``__consumer_offsets`` partition that have records, offsets or a running rebalance."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[str, GroupOffsets] = {}
        self.open: dict[int, set[str]] = {}
        """Open transactions with pending offsets, as a dict: producer id -> group ids."""

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.by_id or group_id in self.consumer

    def ensure_any(self, group_id: str, now_ms: int) -> None:
        """Create an empty group for offsets, if no group with this id exists."""
        if group_id not in self.consumer:
            self.ensure(group_id, now_ms)

    def ensure_consumer(self, group_id: str) -> ModernGroup:
        """Return the consumer group with this id. If there is none, create it and drop a classic group with this id."""
        group = self.consumer.get(group_id)
        if group is None:
            self.by_id.pop(group_id, None)
            group = self.consumer[group_id] = ModernGroup(group_id)
        return group

    def end_consumer(self, group_id: str, now_ms: int) -> None:
        del self.consumer[group_id]
        if group_id in self.offsets:
            self.ensure(group_id, now_ms)

    def maybe_forget(self, group_id: str) -> None:
        """Drop the group ``group_id`` if it has no members, records and offsets.

        This is so after a failed first JoinGroup, or after a deletion.
        """
        group = self.by_id.get(group_id)
        if group is not None and group.is_blank and group_id not in self.offsets:
            del self.by_id[group_id]
        consumer = self.consumer.get(group_id)
        if consumer is not None and consumer.is_blank:
            del self.consumer[group_id]
