"""What a rebalance asks of the user: callbacks as values, run by the face in the polling thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from kohort.model import TopicPartition

CallbackKind = Literal["revoked", "assigned", "lost"]


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """The user's listener is to be told; the rebalance goes on when the face has acknowledged it.

    ``revoked``: still owned while the listener runs, so that it can commit. ``lost``: somebody else may own them
    already. ``assigned``: the newly added ones, before their positions are looked up, so that it can seek.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """What ``subscribe(..., listener=)`` takes. Every method runs in the thread that polls."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None: ...

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None: ...

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None: ...
