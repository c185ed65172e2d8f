"""Python's collector of cycles, kept short while a long request is served.

The objects of one request may be a million. The collector looks at all objects whenever their number has grown by a
quarter, which takes a tenth of a second then, and finds nothing: the request is let go of step by step. So it looks at
young objects only until that is done.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG = 1
"""The generations that are looked at: these and younger."""


@contextmanager
def put_off() -> Iterator[None]:
    """Have nothing collected while the block runs, which makes very many objects and lets go of them itself: the
    collector would look at all of them again and again, while everybody waits. What is left then counts as old."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.unfreeze()  # both together make everything old, and look at nothing
        if enabled:
            gc.enable()


class ShortCollections:
    """Tell it after each event whether a long request is being served."""

    def __init__(self) -> None:
        self._instead = False

    def after_event(self, *, in_long_work: bool) -> None:
        if in_long_work:
            if not self._instead and gc.isenabled():
                self._instead = True
                gc.disable()
            if self._instead:
                gc.collect(YOUNG)
        else:
            self.end()

    def end(self) -> None:
        if self._instead:
            self._instead = False
            gc.enable()
