"""What was asked for last counts: a commit that is repeated takes nothing back that a later one wrote, or may have.

A commit waits before it is repeated, and others are sent meanwhile. Of each partition it is known here what the latest
of them did, for as long as one is not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kohort.model import OffsetAndMetadata, TopicPartition


class AskedFor(NamedTuple):
    """What a commit asks for of one partition."""

    number: int
    """Of the commit, in the order in which they were asked for."""
    at: OffsetAndMetadata
    topic_id: bytes | None = None
    """Id of the topic that the offset was read from; None: not known."""


Left = Mapping[TopicPartition, AskedFor]
"""What is still to be written of a commit."""


class CommitOrder:
    """The commits of a consumer, by the order in which they were asked for."""

    def __init__(self) -> None:
        self._last = 0
        self._written: dict[TopicPartition, int] = {}
        self._doubtful: dict[TopicPartition, AskedFor] = {}
        """The latest that was sent and may be written, or may not: its answer was lost, or leaves it open."""

    def next_number(self, *, is_alone: bool) -> int:
        """Return the place of a commit in the order. ``is_alone``: no other is to be done."""
        if is_alone:
            self._written.clear()
            self._doubtful.clear()
        self._last += 1
        return self._last

    def left_of(self, number: int, left: Left) -> dict[TopicPartition, AskedFor]:
        """Return what commit ``number`` is to say now of what it had left: nothing of what a later one has written, and
        what a later one said where nobody knows whether that is written."""
        return {
            partition: max(asked_for, self._doubtful.get(partition, asked_for), key=_number)
            for partition, asked_for in left.items()
            if self._written.get(partition, 0) < number
        }

    def note_written(self, left: Left) -> None:
        """Note what a broker has acknowledged."""
        for partition, asked_for in left.items():
            self._written[partition] = max(asked_for.number, self._written.get(partition, 0))

    def note_doubtful(self, left: Left) -> None:
        """Note what may be written by now."""
        for partition, asked_for in left.items():
            self._doubtful[partition] = max(asked_for, self._doubtful.get(partition, asked_for), key=_number)


def _number(asked_for: AskedFor) -> int:
    return asked_for.number
