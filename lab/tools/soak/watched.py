"""Groups and console of the console's soak: python lab/tools/soak/watched.py groups|console BOOTSTRAP SECONDS.

``groups``: groups of two members that read and commit; every SECONDS a member is replaced, and a small group is added
or removed. ``console``: a console that samples every SECONDS; its address is its first line. Both work until SIGTERM.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import threading
import time
from collections import deque

from kohort import Admin, Consumer, KohortError, Producer
from kohort.console.app import ConsoleApp
from kohort.console.live import LiveSettings, LiveSource
from kohort.console.serving import ConsolePlace, console_served
from kohort.watch.opening import WatchClients

GROUPS = 20
MEMBERS = 2
GUESTS = 5
"""Number of temporary groups."""
TOPICS = {"orders": 12, "clicks": 24}
TICK_S = 0.25
JOURNAL_MIB = 1
"""Size limit of the journal: the oldest entries expire long before the end."""


class GroupMembers:
    """Members of groups, polled in turn by one thread."""

    def __init__(self, bootstrap: str) -> None:
        self._at, self._numbers = bootstrap, itertools.count()
        self._rng = random.Random(0)
        self._members: dict[str, deque[Consumer]] = {}
        self._guests: deque[str] = deque()
        for n in range(GROUPS):
            self._members[f"group-{n}"] = deque(self._member(f"group-{n}") for _ in range(MEMBERS))

    def _member(self, group: str) -> Consumer:
        n = next(self._numbers)
        made = Consumer(
            bootstrap_servers=self._at,
            group_id=group,
            client_id=f"member-{n}",
            group_protocol="consumer" if group.endswith("1") else "classic",
            auto_commit_interval_ms=1000,
        )
        made.subscribe([list(TOPICS)[hash_of(group) % 2]])
        return made

    def poll(self) -> None:
        """Poll every member."""
        for members in self._members.values():
            for one in members:
                one.poll(0)

    def change(self, admin: Admin) -> None:
        """Replace a member; add a temporary group, and remove the oldest."""
        name = self._rng.choice([group for group in self._members if not group.startswith("guest")])
        self._members[name].popleft().close()
        self._members[name].append(self._member(name))
        guest = f"guest-{next(self._numbers)}"
        self._members[guest] = deque([self._member(guest)])
        self._guests.append(guest)
        if len(self._guests) > GUESTS:
            removed = self._guests.popleft()
            self._members.pop(removed)[0].close()
            admin.delete_groups([removed], check=False)

    def close(self) -> None:
        """Let all members leave."""
        for members in self._members.values():
            for one in members:
                one.close()


def hash_of(name: str) -> int:
    """Return a hash that is equal in every process."""
    return sum(name.encode())


def groups(bootstrap: str, every_s: float, over: threading.Event) -> None:
    """Run groups with changing members."""
    rng = random.Random(1)
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics(TOPICS)
        crowd = GroupMembers(bootstrap)
        due = time.monotonic() + every_s
        while not over.wait(TICK_S):
            for topic, partitions in TOPICS.items():
                producer.send(topic, b"record", partition=rng.randrange(partitions))
            crowd.poll()
            if time.monotonic() >= due:
                due += every_s
                try:
                    crowd.change(admin)
                except KohortError as error:
                    print(error, file=sys.stderr, flush=True)
        crowd.close()


def console(bootstrap: str, every_s: float, over: threading.Event) -> None:
    """Serve a console."""
    clients = WatchClients(
        lambda: Admin(bootstrap_servers=bootstrap),
        lambda options: Consumer({"bootstrap.servers": bootstrap, **options}),
    )
    source = LiveSource(clients, bootstrap, LiveSettings(interval_s=every_s, journal_mib=JOURNAL_MIB, watch=False))
    with console_served(source, ConsoleApp(source), ConsolePlace()) as url:
        print(url, flush=True)
        over.wait()


def main() -> None:
    verb, bootstrap, every_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    {"groups": groups, "console": console}[verb](bootstrap, every_s, over)


if __name__ == "__main__":
    main()
