"""How ``kohort group describe`` shows a group of KIP-848: what it waits for, and partitions in short."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from kohort.model import TopicPartition, by_topic

if TYPE_CHECKING:
    from kohort.client.admin.model import GroupDescription


def modern_note(about: GroupDescription) -> str | None:
    """Return what the group is busy with, in a sentence; None where it is not."""
    if about.state == "Assigning":
        return (
            f"group {about.group_id!r} waits for its target: its epoch is {about.group_epoch}, "
            f"the target is that of {about.assignment_epoch}"
        )
    if about.state != "Reconciling":
        return None
    give_up = sum(len(m.to_give_up) for m in about.members)
    return (
        f"group {about.group_id!r} is on its way to its target of epoch {about.assignment_epoch}: "
        f"{give_up} partition{'' if give_up == 1 else 's'} still to be given up, "
        f"{sum(len(m.to_get) for m in about.members)} to be got; --members shows by whom"
    )


def in_ranges(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in short: ``orders:0-3,7;payments:1``."""
    numbers = by_topic(sorted(set(partitions)))
    return ";".join(f"{topic}:{_ranges(of_topic)}" for topic, of_topic in numbers.items())


def _ranges(numbers: list[int]) -> str:
    starts = [numbers[0], *(b for a, b in pairwise(numbers) if b != a + 1)]
    ends = [*(a for a, b in pairwise(numbers) if b != a + 1), numbers[-1]]
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(starts, ends, strict=True))
