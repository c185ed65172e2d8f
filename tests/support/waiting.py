"""Wait for something to become true, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    check: Callable[[], T],
    otherwise: str | Callable[[], str] = "it never came about",
    *,
    deadline_s: float = 60.0,
    pause_s: float = 0.02,
) -> T:
    """Wait until ``check()`` is true and return its result; fail with ``otherwise`` at the deadline.

    ``pause_s``: time between two calls; 0 if ``check`` itself waits.
    """
    ends = time.monotonic() + deadline_s
    while not (found := check()):
        if time.monotonic() >= ends:
            raise AssertionError(
                f"{otherwise if isinstance(otherwise, str) else otherwise()} (waited {deadline_s:.0f} s)"
            )
        time.sleep(pause_s)
    return found
