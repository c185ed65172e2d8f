"""A gate before a lock that several threads take for a moment, again and again.

A thread that blocks on a lock is given it while another one runs, and then waits for the GIL with the lock in hand; the
one that runs comes to the lock again, blocks, and is given it in the same way. From then on each moment costs two
changes of threads: several threads together do a quarter of what one does alone. So they try a gate before the lock,
and where that is shut they let the others run: who is inside needs the GIL to go on, and nobody holds what he cannot
use.

The gate keeps nobody out for good, for the lock is what protects: a thread that was interrupted between the two may
have left it shut, and one that comes again while it is inside (a signal's handler) must not wait for itself.
"""

from __future__ import annotations

import threading
import time
from typing import Final

TRIES: Final = 4


def let_others_run(gate: threading.Lock) -> bool:
    """Try ``gate``, which was just found shut, a few times more; whether it was taken."""
    for _ in range(TRIES):
        time.sleep(0)  # lets go of the GIL
        if gate.acquire(blocking=False):
            return True
    return False
