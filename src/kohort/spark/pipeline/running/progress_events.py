"""Receives all progress events of a Spark query from Spark's listener bus.

Spark's ``recentProgress`` has only the last 1,000 events.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

log = logging.getLogger(__name__)


class ProgressEvents(StreamingQueryListener):  # type: ignore[misc]  # pyspark has no types that mypy is told to follow
    """Listener that calls ``done`` with each progress event of the Spark query ``query_name``."""

    def __init__(self, query_name: str, done: Callable[[Any], None]) -> None:
        super().__init__()
        self._query_name = query_name
        self._done = done
        self._state = threading.Condition()
        self._ended: set[str] = set()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        if event.progress.name != self._query_name:
            return
        try:
            self._done(event.progress)
        except Exception:  # Spark ignores the errors of listeners
            log.exception("the progress event of micro-batch %s could not be processed", event.progress.batchId)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        with self._state:
            self._ended.add(str(event.runId))
            self._state.notify_all()

    def wait_ended(self, run_id: str, timeout_s: float) -> bool:
        with self._state:
            return self._state.wait_for(lambda: run_id in self._ended, timeout_s)
