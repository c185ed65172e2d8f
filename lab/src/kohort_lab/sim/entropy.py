"""Detector of entropy outside of the seed: clocks, random numbers, object addresses, threads, files.

A run must depend on its seed only, or it cannot be replayed. A profile hook sees every call of a C function; a call
with a varying result ends the run. The hook cannot see the order of string sets, which depends on PYTHONHASHSEED; for
that, run a seed under two hash seeds and compare ``Verdict.digest``.
"""

from __future__ import annotations

import _thread
import builtins
import dataclasses
import datetime
import gc
import io
import os
import random
import reprlib
import select
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from kohort_lab.sim.checks.broken import CheckFailed

_CLOCKS: Final = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime",
    "ctime", "asctime", "sleep",
)  # fmt: skip
_OF_THE_SYSTEM: Final = (
    "urandom", "getrandom", "getpid", "getppid", "listdir", "scandir", "stat", "open", "read", "write", "getloadavg",
    "times", "cpu_count",
)  # fmt: skip
_PACKAGES: Final = frozenset({"kohort", "kohort_lab"})
_TODAY: Final = frozenset({"now", "utcnow", "today"})
_IMPORTS: Final = "<frozen importlib"
_REPRS: Final = (dataclasses.__file__, reprlib.__file__)
"""Modules that use addresses only to detect recursion."""


def _named(module: Any, names: tuple[str, ...]) -> dict[Any, str]:
    return {getattr(module, name): f"{module.__name__}.{name}" for name in names if hasattr(module, name)}


_OUTSIDE_SOURCES: Final[dict[Any, str]] = {
    **_named(time, _CLOCKS),
    **_named(os, _OF_THE_SYSTEM),
    **_named(_thread, ("start_new_thread", "get_ident", "get_native_id")),
    **_named(select, ("select", "poll", "epoll")),
    **_named(uuid, ("_generate_time_safe", "_UuidCreate")),
    builtins.id: "id",
    io.open: "open",
}
_SEEDING: Final = random.Random.seed.__code__


class EntropyUsed(CheckFailed):
    """Use of entropy outside of the seed."""


class EntropyWatch:
    """Watch over a run.

    ``failure``: the first use of entropy, even if the run catches EntropyUsed. Later uses are ignored.
    """

    def __init__(self) -> None:
        self.failure: str | None = None

    def look(self, frame: FrameType, event: str, called: Any) -> None:
        """Check a call; a hook of ``sys.setprofile``. Raises EntropyUsed."""
        if (used := _used(frame, event, called)) is not None:
            self.failure = f"the run uses {used}, which no seed gives: {_place(frame)}"
            raise EntropyUsed(self.failure)


@contextmanager
def audited() -> Iterator[EntropyWatch]:
    """Raise EntropyUsed in the block at the first use of outside entropy.

    The block runs several times slower; other threads are not watched. Imports are allowed, since they run once.
    Garbage collection is off, since it would call foreign hooks (``gc.callbacks``) at arbitrary places.
    """
    before, collecting, watch = sys.getprofile(), gc.isenabled(), EntropyWatch()
    gc.disable()
    sys.setprofile(watch.look)
    try:
        yield watch
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


def _used(frame: FrameType, event: str, called: Any) -> str | None:
    used = None
    if event == "c_call":
        used = _outside_source(called)
    elif event == "call" and frame.f_code is _SEEDING and frame.f_locals.get("a") is None:
        used = "random.Random() without a seed"
    return None if frame.f_code.co_filename in _REPRS or (used and _is_import(frame)) else used


def _outside_source(called: Callable[..., Any]) -> str | None:
    try:
        used = _OUTSIDE_SOURCES.get(called)
    except TypeError:  # a method of an unhashable object
        return None
    if used is not None:
        return used
    owner = getattr(called, "__self__", None)
    if owner is random._inst:  # owner of the functions of module random
        return f"random.{called.__name__}"
    if isinstance(owner, type) and issubclass(owner, datetime.date) and called.__name__ in _TODAY:
        return f"{owner.__name__}.{called.__name__}"
    return None


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTS):
            return True
        frame = frame.f_back
    return False


def _place(frame: FrameType | None) -> str:
    """Return the place of the call in the project's code."""
    at = frame
    while at is not None and at.f_globals.get("__name__", "").partition(".")[0] not in _PACKAGES:
        at = at.f_back
    at = at or frame
    assert at is not None
    return f"{at.f_code.co_filename}:{at.f_lineno} in {at.f_code.co_name}"
