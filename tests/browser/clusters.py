from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from browser.group_members import GroupMembers, prepare, read_all, write
from support.processes.console_process import console_process

PARTITIONS = 4
READ = 40
WAITING = 20


@dataclass(frozen=True)
class WatchedCluster:
    kind: str
    bootstrap: str
    crew: GroupMembers
    console: str
    classic: str
    modern: str
    idle: str

    @property
    def is_ours(self) -> bool:
        return self.kind == "ours"

    def group(self, protocol: str) -> str:
        return self.classic if protocol == "classic" else self.modern


@contextmanager
def watched_cluster(kind: str, bootstrap: str, state: Path, options: Sequence[str] = ()) -> Iterator[WatchedCluster]:
    mark = uuid.uuid4().hex[:4]
    classic, modern, idle = names = [f"{name}-{mark}" for name in ("billing", "shipping", "audit")]
    prepare(bootstrap, names, PARTITIONS)
    for name in names:
        write(bootstrap, name, READ)
    read_all(bootstrap, idle, READ)
    write(bootstrap, idle, WAITING)
    crew = GroupMembers(bootstrap)
    words = ["console", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0", "--interval", "1", "--allow-changes"]
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    with console_process(*words, "--output", "ndjson", *options, env=env) as console:
        try:
            for group, protocol in ((classic, "classic"), (modern, "consumer")):
                for number in (1, 2):
                    crew.join(f"{group}-{number}", group, protocol)
                for number in (1, 2):
                    crew.has(f"{group}-{number}", PARTITIONS // 2)
            yield WatchedCluster(kind, bootstrap, crew, console.url, classic, modern, idle)
        finally:
            crew.end()
