"""In a settled world every request is answered in its time: a client that gave up and asked again would hide it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange

AT_ONCE_MS: Final = 1_000


def check_answered(unanswered: Iterable[Exchange], now_ms: int, fetch_wait_ms: int) -> None:
    """``unanswered`` are the requests on standing links; each may have to wait behind a fetch that waits for data."""
    for exchange in unanswered:
        may_wait_ms = AT_ONCE_MS + fetch_wait_ms
        waits_ms = now_ms - exchange.sent_ms
        if waits_ms > may_wait_ms:
            raise CheckFailed(f"{exchange.api.name} of {exchange.client} has been waiting for {waits_ms} ms")
