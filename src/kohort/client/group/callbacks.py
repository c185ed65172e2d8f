"""What the user has to be told of a rebalance, and the part of a membership that tells it: in the thread that polls.

Callbacks are values: the face runs the listener and acknowledges, and only then does the rebalance go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from kohort.client.requests.promise import Promise
from kohort.model import OffsetAndMetadata, TopicPartition

CallbackKind = Literal["revoked", "assigned", "lost"]
CommitPositions = Callable[[Collection[TopicPartition], int | None], Promise[dict[TopicPartition, OffsetAndMetadata]]]
"""Commits where the consumer stands in these partitions, before a deadline."""


@dataclass(frozen=True, slots=True)
class CallbackNeeded:
    """The user's listener is to be told; the rebalance goes on when the face has acknowledged it.

    ``revoked``: still owned while the listener runs, so that it can commit. ``lost``: somebody else may own them
    already. ``assigned``: the newly added ones, before they are fetched, so that the listener can seek.
    """

    kind: CallbackKind
    partitions: tuple[TopicPartition, ...]


class RebalanceListener(Protocol):
    """Hears of rebalances: what ``subscribe(..., listener=)`` takes.

    Every method is called inside ``poll()``, ``unsubscribe()`` or ``close()``, in the thread that called it (of an
    ``AsyncConsumer``: in its task), and the rebalance goes on when it returns. Its time counts against
    ``max.poll.interval.ms``. An exception does not stop the rebalance: the first one is raised by the call that the
    listener ran in, once the rebalance can do without the user.
    """

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Finish with ``partitions`` before somebody else gets them.

        Called while this consumer still owns them, so what was done can be committed here: ``commit()`` waits until it
        is written. With auto-commit that has been tried before. With an eager assignor these are all that it owns, and
        the list may be empty; with a cooperative one those that move, and it is not called where none does.
        """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Prepare for ``partitions``, which were not owned before; what stays is not among them.

        Called after every rebalance, with an empty list too, and before any record of them is handed out:
        ``seek()`` and ``pause()`` hold from the first record on.
        """

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Drop what is held for ``partitions``: the group has gone on without this member.

        Others may own them already, and a commit is refused. Called in place of ``on_partitions_revoked``, and not
        where nothing was owned.
        """


class Rebalancing(Protocol):
    """The steps of a membership that need the user in poll(), whichever group protocol it speaks."""

    @property
    def callback(self) -> CallbackNeeded | None:
        """What the listener has to be told now; nothing goes on before ``acknowledge``."""

    @property
    def is_due(self) -> bool:
        """Whether ``advance`` would get any further now."""

    @property
    def is_stable(self) -> bool:
        """Whether what is assigned is what the group agreed on, with nothing more to come that is known of."""

    def advance(self, now_ms: int) -> None:
        """Go as far as is possible without the user and without the broker."""

    def acknowledge(self) -> None:
        """Note that the listener has been told, or that there is none."""

    def prepare_leave(self) -> CallbackNeeded | None:
        """Return what the listener has to hear before the member leaves for good; drop whatever was under way."""
