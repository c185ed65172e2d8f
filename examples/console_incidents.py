"""Three incidents of consumer groups, to be looked at in the console: docs/guides/console.md tells what is seen.

python console_incidents.py INCIDENT HOST:PORT     slow-handler, killed or not-revoked, at a broker of yours
python console_incidents.py                        all three, at a broker of its own

A member is a process of its own; its handler takes as many seconds as the record says.
"""

import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from kohort import Admin, Broker, Consumer, GroupDescription, KohortError, Producer

PROCESSES = get_context("forkserver")
CLASSIC = {"group_protocol": "classic", "session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
COOPERATIVE = CLASSIC | {"partition_assignment_strategy": "cooperative-sticky", "max_poll_interval_ms": 5000}
EAGER = CLASSIC | {"partition_assignment_strategy": "range", "session_timeout_ms": 10_000}
MODERN = {"group_protocol": "consumer"}


def slow_handler(brokers: str) -> None:
    """A record takes longer than max.poll.interval.ms: its member is removed, and the next owner gets the record."""
    with Group(brokers, "slow-handler", "orders", COOPERATIVE) as group:
        for name in ("worker-1", "worker-2", "worker-3"):
            group.start(name)
        group.wait_for_shares([2, 2, 2])
        time.sleep(2)
        group.send(partition=0, seconds=9)
        time.sleep(17)


def killed(brokers: str) -> None:
    """One of three members is killed and restarted, in a group without group.instance.id and in one with it."""
    static = EAGER | {"session_timeout_ms": 20_000}
    with (
        Group(brokers, "killed-dynamic", "payments", EAGER) as strangers,
        Group(brokers, "killed-static", "payments", static) as known,
    ):
        for name in ("pay-1", "pay-2", "pay-3"):
            strangers.start(name)
            known.start(name, group_instance_id=name)
        for group in (strangers, known):
            group.wait_for_shares([2, 2, 2])
        time.sleep(3)
        strangers.kill("pay-2")
        strangers.start("pay-2")
        known.kill("pay-2")
        known.start("pay-2", group_instance_id="pay-2")
        for group in (strangers, known):
            group.wait_for_another("pay-2")
        time.sleep(5)


def not_revoked(brokers: str) -> None:
    """A new member of a consumer group (KIP-848) waits for a member that is slow to revoke."""
    with Group(brokers, "not-revoked", "events", MODERN) as group:
        may_join = PROCESSES.Event()
        group.start("reader-3", may_join)  # the process starts slowly
        group.start("reader-1")
        group.start("reader-2")
        group.wait_for_shares([3, 3])
        group.send(partition=0, seconds=15)
        time.sleep(1)
        may_join.set()
        group.wait_for_shares([2, 2, 2])
        time.sleep(2)


class Group:
    """Processes as members of a group on a topic of six partitions, until the end of the block."""

    def __init__(self, brokers: str, name: str, topic: str, options: dict) -> None:
        self.brokers, self.name, self.topic, self.options = brokers, name, topic, options
        self.processes: dict[str, BaseProcess] = {}
        self.ids: dict[str, str] = {}
        with Admin(bootstrap_servers=brokers) as admin:
            admin.create_topics({topic: 6}, check=False)  # the topic may exist

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.join()

    def start(self, name: str, may_join: Event | None = None, **more: str) -> None:
        options = {"bootstrap_servers": self.brokers, "group_id": self.name, "client_id": name} | self.options | more
        process = PROCESSES.Process(target=member, args=(self.topic, options, may_join), daemon=True)
        process.start()
        self.processes[name] = process

    def kill(self, name: str) -> None:
        """Kill the process (SIGKILL): it does not leave its group."""
        self.wait(self.keep_ids)
        self.processes[name].kill()
        self.processes[name].join()
        self.tell(f"{name} is killed")

    def send(self, partition: int, seconds: float) -> None:
        with Producer(bootstrap_servers=self.brokers) as producer:
            producer.send(self.topic, str(seconds), partition=partition).result(10_000)
        self.tell(f"a record in {self.topic}-{partition} takes {seconds} s to handle")

    def wait_for_shares(self, shares: list[int]) -> None:
        """Wait until the members have these numbers of partitions."""
        self.wait(lambda found: sorted(len(member.assignment) for member in found.members) == sorted(shares))
        self.tell(f"{len(shares)} members share the partitions")

    def wait_for_another(self, name: str) -> None:
        """Wait until a killed member is back under another member id."""
        before = self.ids[name]
        self.wait(lambda found: self.keep_ids(found) and len(found.members) == 3 and self.ids[name] != before)
        self.tell(f"another {name} is there")

    def keep_ids(self, found: GroupDescription) -> bool:
        self.ids = {member.client_id: member.member_id for member in found.members}
        return True

    def wait(self, holds: Callable) -> None:
        deadline = time.monotonic() + 90
        with Admin(bootstrap_servers=self.brokers) as admin:
            while time.monotonic() < deadline:
                found = admin.describe_groups([self.name])
                if self.name not in found.errors and found[self.name].state == "Stable" and holds(found[self.name]):
                    return
                time.sleep(0.2)
        sys.exit(f"{self.name}: its members have not come to their partitions within 90 s")

    def tell(self, what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {self.name}: {what}", flush=True)


def member(topic: str, options: dict, may_join: Event | None) -> None:
    """Handle records until SIGTERM, or until the parent process has ended."""
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the parent process
    with Consumer(options | {"auto_offset_reset": "earliest", "enable_auto_commit": False}) as consumer:
        if may_join is not None:
            may_join.wait(90)
        consumer.subscribe([topic])
        while not ending and parent_process().is_alive():
            for record in consumer.poll(250):
                until = time.monotonic() + float(record.value)
                while time.monotonic() < until and not ending:
                    time.sleep(0.05)
                try:
                    consumer.commit()
                except KohortError as error:
                    print(f"         {options['client_id']} cannot commit: {error}", flush=True)


INCIDENTS = {"slow-handler": slow_handler, "killed": killed, "not-revoked": not_revoked}

if __name__ == "__main__":
    match sys.argv[1:]:
        case [name, brokers] if name in INCIDENTS:
            INCIDENTS[name](brokers)
        case []:
            with Broker(group_initial_rebalance_delay_ms=3000) as own:
                for play in INCIDENTS.values():
                    play(own.bootstrap)
        case _:
            sys.exit(__doc__)
