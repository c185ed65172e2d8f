"""One of several nodes is stopped and started again, as ``kohort nodes stop`` and ``start`` do it.

The nodes of a kohort are one process over one storage: a kill takes all of them. So a node alone is stopped, its
connections end and others lead what it led; and the process is killed while one is.
"""

from __future__ import annotations

import random

from kohort import Admin, ConfigResource, KohortError

STOPPED = "kohort.stopped.nodes"
ANSWERS_MS = 60_000


def stop_one(bootstrap: str, nodes: int, rng: random.Random) -> None:
    """Stop a node: its leaders and coordinators are others then."""
    _set_stopped(bootstrap, str(rng.randrange(1, nodes + 1)))


def start_all(bootstrap: str, rng: random.Random) -> None:
    """Start whatever is stopped; sometimes every partition goes back to the node that is preferred."""
    _set_stopped(bootstrap, "")
    if rng.random() < 0.5:
        with Admin(bootstrap_servers=bootstrap) as admin:
            try:
                admin.elect_leaders(None, check=False, timeout_ms=ANSWERS_MS)
            except KohortError as error:  # the node may not be up yet: then it leads nothing
                print(f"no election: {error}", flush=True)


def _set_stopped(bootstrap: str, listed: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource("broker", ""): {STOPPED: listed}}, timeout_ms=ANSWERS_MS)
