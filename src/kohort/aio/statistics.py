"""Statistics at an interval: ``statistics.interval.ms`` and ``stats_cb``, as users of librdkafka know them.

The callback of a blocking client runs in a thread of its own, so that one which is slow, or hangs, holds up nothing
but the next statistics. That of a client of asyncio runs on its loop, where it may be a coroutine. What it raises is
logged.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.aio.driver import Driver
from kohort.client.reports.statistics import Statistics
from kohort.config.client import ClientConfig

log = logging.getLogger("kohort.statistics")
_instances: Final = itertools.count(1)


class StatisticsTimer:
    """The statistics of one client, told until its driver is closed."""

    def __init__(
        self,
        driver: Driver,
        kind: str,
        report: Callable[[int], Statistics],
        guard: AbstractContextManager[Any],
        *,
        in_thread: bool,
    ) -> None:
        config = driver.engine.config
        self._driver = driver
        self._interval_s = config.statistics_interval_ms / 1000
        self._callback: Callable[[str], Any] = config.stats_cb
        self._report = report
        self._guard = guard
        self._in_thread = in_thread
        self._head = {
            "name": f"{config.client_id}#{kind}-{next(_instances)}",
            "client_id": config.client_id,
            "type": kind,
        }
        self._made_at_us = time.monotonic_ns() // 1000
        self._timer: asyncio.TimerHandle | None = None
        self._running: threading.Thread | asyncio.Future[Any] | None = None
        self._has_failed = False
        driver.on_close(self._stop)
        driver.loop.call_soon_threadsafe(self._wait)

    def _wait(self) -> None:
        if not self._driver.is_closed:
            self._timer = self._driver.loop.call_later(self._interval_s, self._on_time)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_time(self) -> None:
        self._wait()
        if self._is_running():
            return  # the last one has not returned: this one is left out
        if self._in_thread:
            self._running = threading.Thread(target=self._tell, name="kohort-statistics", daemon=True)
            self._running.start()
        else:
            self._tell()

    def _is_running(self) -> bool:
        running = self._running
        return running is not None and (
            not running.done() if isinstance(running, asyncio.Future) else running.is_alive()
        )

    def _tell(self) -> None:
        try:
            answer = self._callback(self.text())
            if inspect.isawaitable(answer):
                self._running = asyncio.ensure_future(answer)
                self._running.add_done_callback(self._ended)
            else:
                self._has_failed = False
        except Exception as error:  # noqa: BLE001  # the user's own
            self._failed(error)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        error = None if running.cancelled() else running.exception()
        if error is None:
            self._has_failed = False
        else:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """Say so once, and again only after it has worked."""
        if not self._has_failed:
            self._has_failed = True
            log.error("stats_cb failed; it is called again, and not told of again until it works", exc_info=error)

    def text(self) -> str:
        """Return the statistics of now as JSON."""
        with self._guard:
            found = self._report(self._driver.clock.now_ms())
        now_us = time.monotonic_ns() // 1000
        when = {"ts": now_us, "time": int(time.time()), "age": now_us - self._made_at_us}
        return json.dumps({**self._head, **when, **found})


def tell_statistics(
    driver: Driver,
    kind: str,
    report: Callable[[int], Statistics],
    guard: AbstractContextManager[Any],
    *,
    in_thread: bool,
) -> None:
    """Tell the client's ``stats_cb`` what ``report`` returns at a time, where the user wants it."""
    config: ClientConfig = driver.engine.config
    if config.statistics_interval_ms and config.stats_cb is not None:
        StatisticsTimer(driver, kind, report, guard, in_thread=in_thread)
