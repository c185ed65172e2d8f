"""Response check: in a settled world every request is answered in time. A client's retry would hide a lost response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange

AT_ONCE_MS: Final = 1_000


def check_answered(unanswered: Iterable[Exchange], now_ms: int, fetch_wait_ms: int) -> None:
    """Check requests in flight on open links; each may wait behind a long fetch."""
    for exchange in unanswered:
        may_wait_ms = AT_ONCE_MS + fetch_wait_ms
        waits_ms = now_ms - exchange.sent_ms
        if waits_ms > may_wait_ms:
            raise CheckFailed(f"{exchange.api.name} of {exchange.client} has waited for {waits_ms} ms")
