"""Postpone Python's garbage collector during long requests.

A request may create a million objects. The collector scans all objects whenever their number has grown by a quarter.
That blocks the broker for a tenth of a second and frees nothing, because the request frees its objects itself. So only
the objects of young generations are scanned until the request is done.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 1


@contextmanager
def postpone_collection() -> Iterator[None]:
    """Disable Python's garbage collector for a ``with`` block that creates and frees very many objects.

    At the end of the ``with`` block all objects move to the oldest generation.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # freeze() and unfreeze() together move all objects to the oldest generation without a scan
        if enabled:
            gc.enable()


class ShortCollections:
    """Limits garbage collection during long requests. Call ``after_event`` after each event."""

    def __init__(self) -> None:
        self._is_restricted = False

    def after_event(self, *, in_long_work: bool) -> None:
        if in_long_work:
            if not self._is_restricted and gc.isenabled():
                self._is_restricted = True
                gc.disable()
            if self._is_restricted:
                gc.collect(YOUNG)
        else:
            self.end()

    def end(self) -> None:
        if self._is_restricted:
            self._is_restricted = False
            gc.enable()
