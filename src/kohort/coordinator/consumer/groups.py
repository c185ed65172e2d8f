"""The groups of one partition of ``__consumer_offsets``, as decisions on consumer groups see them."""

from __future__ import annotations

from kohort.coordinator.classic.groups import ClassicGroups
from kohort.coordinator.consumer.group import ModernGroup


class ConsumerGroups(ClassicGroups):
    """A group is either in ``consumer`` or in ``by_id``, which has the classic groups, and those that only hold
    offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: dict[str, ModernGroup] = {}
