from __future__ import annotations

import time

import pytest

import kohort
from kohort import UsageError

pytestmark = pytest.mark.timeout(120)


def weighing(weight: int):
    @kohort.assignor("by-weight", user_data=lambda owned, generation: str(weight).encode())
    def by_weight(topics, members):
        shares = [m.member_id for m in members for _ in range(int(m.user_data))]
        partitions = [p for topic in sorted(topics.counts) for p in topics.partitions(topic)]
        return {m: [p for i, p in enumerate(partitions) if shares[i % len(shares)] == m] for m in set(shares)}

    return by_weight


def test_custom_assignor_assigns_by_weight_in_user_data(bootstrap: str, name: str):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 8})
    options = {"bootstrap_servers": bootstrap, "group_id": name, "heartbeat_interval_ms": 50}
    heavy = kohort.Consumer(**options, partition_assignment_strategy=[weighing(3)])
    light = kohort.Consumer(**options, partition_assignment_strategy=[weighing(1)])
    with heavy, light:
        heavy.subscribe([name])
        light.subscribe([name])
        deadline = time.monotonic() + 60
        while (len(heavy.assignment()), len(light.assignment())) != (6, 2):
            assert time.monotonic() < deadline, (heavy.assignment(), light.assignment())
            heavy.poll(20)
            light.poll(20)


def test_error_of_a_custom_assignor_is_raised_by_poll(bootstrap: str, name: str):
    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: 1})
    fails = kohort.assignor("fails")(lambda topics, members: {"nobody": []})
    with kohort.Consumer(bootstrap_servers=bootstrap, group_id=name, partition_assignment_strategy=[fails]) as consumer:
        consumer.subscribe([name])
        with pytest.raises(UsageError, match="not a member of the group"):
            consumer.poll(60_000)
