"""A lock that several threads take for short moments, again and again, without getting in each other's way.

A thread that blocks on a plain lock is given it while another thread runs, and then waits for the GIL while it holds
the lock. The running thread comes to the lock again, blocks, and is given it in the same way. From then on each use of
the lock costs two switches of threads: several threads together do a quarter of what one does alone. So threads try an
outer lock first, and while that is taken they let others run, because the thread inside needs the GIL to go on.

The outer lock does not keep threads out for good; it is the inner one that protects. A thread that was interrupted
between the two may have left the outer one locked, and one that comes again while it is inside (a signal's handler)
must not wait for itself.
"""

from __future__ import annotations

import threading
import time
from typing import Final

TRIES: Final = 4


def let_others_run(outer_lock: threading.Lock) -> bool:
    """Try ``outer_lock``, which was just found locked, a few times more; return whether it was taken."""
    for _ in range(TRIES):
        time.sleep(0)  # lets go of the GIL
        if outer_lock.acquire(blocking=False):
            return True
    return False
