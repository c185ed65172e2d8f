"""File handles: connections leave some of them to the logs.

Where a process has none left, the system's accept fails, and the loops (uvloop, asyncio) say little or nothing; logs
cannot be opened, and what is written to them is refused. So the last ones are not for connections.
"""

from __future__ import annotations

import resource
from typing import Final

RESERVED: Final = 64


def is_reserved(handle: int) -> bool:
    """Tell whether a connection got one of the last handles of the process: the system gives the lowest that is
    free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit != resource.RLIM_INFINITY and handle >= limit - min(RESERVED, limit // 4)
