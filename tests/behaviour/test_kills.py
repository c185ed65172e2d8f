import itertools
import random
import threading
import time
from typing import Any

import pytest

import kohort
from kohort import KohortError, OffsetAndMetadata, TopicPartition, UsageError
from support.processes.served_broker import Served

MEMBERS = 10
PARTITIONS = 20
GROUP = "broker"
TOPIC = "load"
DEADLINE_S = 120
SETTINGS = (
    "--quiet",
    "--set",
    "group.initial.rebalance.delay.ms=200",
    "--set",
    "offsets.topic.segment.bytes=16384",
    "--set",
    "log.cleaner.backoff.ms=300",
)


class Member(threading.Thread):
    def __init__(self, bootstrap, acknowledged):
        super().__init__(daemon=True)
        self._address = bootstrap
        self._acknowledged = acknowledged
        self._over = threading.Event()

    def run(self):
        with kohort.Consumer(
            bootstrap_servers=self._address,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=30_000,
            heartbeat_interval_ms=300,
            retry_backoff_max_ms=200,
            reconnect_backoff_max_ms=200,
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self._over.is_set():
                try:
                    if consumer.poll(100, max_records=5):
                        positions = {tp: consumer.position(tp) for tp in consumer.assignment()}
                        offsets = {tp: OffsetAndMetadata(at) for tp, at in positions.items()}
                        consumer.commit(offsets, timeout_ms=2000)
                        self._acknowledged.note(positions)
                except UsageError:
                    raise
                except KohortError:
                    continue  # the broker is down, or a rebalance in flight: only acknowledged commits count

    def end(self):
        self._over.set()
        self.join(DEADLINE_S)
        assert not self.is_alive()


class Acknowledged:
    def __init__(self):
        self._offsets = {}
        self._lock = threading.Lock()
        self.count = 0

    def note(self, positions):
        with self._lock:
            self.count += 1
            for tp, offset in positions.items():
                self._offsets[tp] = max(offset, self._offsets.get(tp, 0))

    def now(self):
        with self._lock:
            return dict(self._offsets)


def eventually(what, check):
    ends = time.monotonic() + DEADLINE_S
    while True:
        try:
            found = check()
        except KohortError as error:
            found, what = None, f"{what} ({error})"
        if found:
            return found
        assert time.monotonic() < ends, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.05)


class Feeder(threading.Thread):
    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self._producer = kohort.Producer(bootstrap_servers=bootstrap)
        self._over = threading.Event()

    def run(self):
        for n in itertools.count():
            if self._over.wait(0.05):
                return
            for partition in range(PARTITIONS):
                self._producer.send(TOPIC, b"%d" % n, partition=partition)

    def end(self):
        self._over.set()
        self.join(DEADLINE_S)
        self._producer.close()


def is_stable(admin):
    group = admin.describe_groups([GROUP], timeout_ms=5000)[GROUP]
    return group.state == "Stable" and len(group.members) == MEMBERS


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.campaign])])
def test_kill_9_at_random_times_loses_no_acknowledged_commit(tmp_path, kills):
    rng = random.Random(kills)
    acknowledged = Acknowledged()
    served = Served(*SETTINGS, data=tmp_path)
    bootstrap = served.bootstrap
    members = []
    feeder = None
    try:
        with kohort.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics({TOPIC: PARTITIONS})
        feeder = Feeder(bootstrap)
        feeder.start()
        for _ in range(MEMBERS):
            members.append(Member(bootstrap, acknowledged))
            members[-1].start()

        for number in itertools.count():
            before = acknowledged.count
            with kohort.Admin(bootstrap_servers=bootstrap) as admin:
                eventually("ten members, Stable", lambda admin=admin: is_stable(admin))
            eventually("commits", lambda before=before: acknowledged.count >= before + MEMBERS)
            if number == kills:
                break
            if number % 2:  # kill some members during a rebalance
                members.append(Member(bootstrap, acknowledged))
                members[-1].start()
                leaving = members.pop(0)
                threading.Thread(target=leaving.end, daemon=True).start()
            time.sleep(rng.uniform(0, 0.5))
            promised = acknowledged.now()
            served.kill()
            served = Served(*SETTINGS, "--listen", bootstrap, data=tmp_path)

            with kohort.Admin(bootstrap_servers=bootstrap) as admin:
                committed = admin.list_group_offsets(GROUP, [TopicPartition(TOPIC, p) for p in range(PARTITIONS)])
            lost = {tp: at for tp, at in promised.items() if committed[tp] is None or committed[tp].offset < at}
            assert lost == {}, f"after kill {number}"
    finally:
        everyone: list[Any] = [*members, *([feeder] if feeder else [])]
        for ending in everyone:
            ending.end()
        served.stop()
