"""Stop and start one of several nodes, as ``kohort nodes stop`` and ``start`` do.

All nodes of a kohort broker are one process with one storage: a kill ends all of them. So a single node is stopped: its
connections close and other nodes take over its leaders; sometimes the process is killed meanwhile.
"""

from __future__ import annotations

import random

from kohort import Admin, ConfigResource, KohortError

STOPPED = "kohort.stopped.nodes"
ANSWERS_MS = 60_000


def stop_one(bootstrap: str, nodes: int, rng: random.Random) -> None:
    """Stop a node: its leaders and coordinators move to other nodes."""
    _set_stopped(bootstrap, str(rng.randrange(1, nodes + 1)))


def start_all(bootstrap: str, rng: random.Random) -> None:
    """Start all stopped nodes; sometimes move every partition back to its preferred node."""
    _set_stopped(bootstrap, "")
    if rng.random() < 0.5:
        with Admin(bootstrap_servers=bootstrap) as admin:
            try:
                admin.elect_leaders(None, check=False, timeout_ms=ANSWERS_MS)
            except KohortError as error:  # a node without leaders: not up yet
                print(f"no election: {error}", flush=True)


def _set_stopped(bootstrap: str, listed: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({ConfigResource("broker", ""): {STOPPED: listed}}, timeout_ms=ANSWERS_MS)
