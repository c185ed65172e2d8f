"""Reachability of the cluster. It is checked with a small request every two seconds, and with samples of the groups."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from kohort.errors import ApiTimeout, KohortError
from kohort.notes import one_line
from kohort.results.console import UnreachableCluster

logger = logging.getLogger("kohort.console")
PULSE_S: Final = 2.0
"""Pause between two requests for the cluster's nodes, in seconds."""
PULSE_MS: Final = 6_000
"""Timeout of a request for the cluster's nodes, in ms."""
OVERDUE_S: Final = 30.0
"""A sample that is late by this many seconds, plus three times the last sample's duration, starts an outage."""
LONGEST_ERROR: Final = 300


class ClusterUnreachable(KohortError):
    """The cluster has not answered since ``outage.since_ms``: the state of its groups is unknown."""

    def __init__(self, address: str, outage: UnreachableCluster, groups: Iterable[str] = ()) -> None:
        since = datetime.fromtimestamp(outage.since_ms / 1000, UTC).strftime("%H:%M:%S UTC")
        super().__init__(
            f"{address} has not answered since {since}; the state of its groups is unknown: {outage.error}"
        )
        self.outage = outage
        self.reason = f"the cluster has not answered since {since}"
        self.groups = tuple(groups)
        self._address = address

    def without_groups(self) -> ClusterUnreachable:
        return ClusterUnreachable(self._address, self.outage)


class GroupUnknown(KohortError):
    """The cluster lists the group, but the group's coordinator did not describe it."""


def foreseen(error: Exception) -> KohortError:
    """Return the error that the page shows for an exception. Log an unexpected exception with its traceback."""
    if isinstance(error, KohortError):
        return error
    logger.error("a thread of the console failed: an error in kohort", exc_info=error)
    return KohortError(f"an error in kohort ({type(error).__name__}); the console's log has more")


class Reachability:
    """Reachability of the cluster, and the start of an outage. Thread-safe.

    A failed request starts an outage. Only a complete sample that began after the failure ends the outage.
    """

    def __init__(
        self,
        now_ms: Callable[[], int],
        clock: Callable[[], float],
        changed: Callable[[UnreachableCluster | None], object],
    ) -> None:
        self._now_ms, self._clock, self._changed = now_ms, clock, changed
        self._lock = threading.Lock()
        self._answered_ms = now_ms()
        self._failed_s = 0.0
        self._due_s: float | None = None
        self._pulse_failed = False
        self._unreachable: UnreachableCluster | None = None

    @property
    def unreachable(self) -> UnreachableCluster | None:
        """Start and cause of the present outage; None while the cluster answers."""
        return self._unreachable

    def pulse_answered(self) -> bool:
        """Record an answer to the request for the cluster's nodes. Return True if the previous such request failed."""
        with self._lock:
            returned, self._pulse_failed = self._pulse_failed, False
            if self._unreachable is None:
                self._answered_ms = self._now_ms()
            overdue = self._due_s is not None and self._clock() > self._due_s
        if overdue:
            self.sample_failed(ApiTimeout("the groups were not sampled in time"))
        return returned

    def pulse_failed(self, error: KohortError) -> None:
        self._pulse_failed = True
        self.sample_failed(error)

    def sample_failed(self, error: KohortError) -> None:
        with self._lock:
            self._failed_s = self._clock()
            if self._unreachable is not None:
                return
            self._unreachable = UnreachableCluster(
                since_ms=self._answered_ms, error=one_line(str(error), LONGEST_ERROR)
            )
            self._changed(self._unreachable)

    def sampled(self, began_s: float, next_within_s: float) -> None:
        """Record a complete sample that began at ``began_s``. The next must begin within ``next_within_s`` seconds."""
        with self._lock:
            now_s = self._clock()
            self._due_s = now_s + next_within_s + 3 * (now_s - began_s) + OVERDUE_S
            if self._unreachable is None or began_s <= self._failed_s:
                return
            self._unreachable, self._answered_ms = None, self._now_ms()
            self._changed(None)
