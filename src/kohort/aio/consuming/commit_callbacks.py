"""Commits that nobody waits for, and whom to tell of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from kohort.client.group.commits import Offsets
from kohort.client.requests.promise import Promise
from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition

CommitCallback = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KohortError | None], None]


class CommitCallbacks:
    """The commits of ``commit_async``, in their order, until their callbacks were told."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Promise[Offsets], CommitCallback | None]] = deque()

    def add(self, promise: Promise[Offsets], callback: CommitCallback | None) -> None:
        """Tell ``callback`` once ``promise`` is done, and those before it were told."""
        self._waiting.append((promise, callback))

    def promises(self) -> list[Promise[Offsets]]:
        """Return the commits whose callbacks were not told yet."""
        return [promise for promise, _ in self._waiting]

    def tell(self) -> None:
        """Tell the callbacks of what is done, in this thread. Raises what a callback raises."""
        while self._waiting and self._waiting[0][0].done:
            promise, callback = self._waiting.popleft()
            if callback is not None:
                callback({} if promise.error is not None else promise.result(), promise.error)
