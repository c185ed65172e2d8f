"""Random plan of a run: sizes, timeouts and possible faults are drawn from the seed.

Timeouts vary, since a fixed order of timeouts would hide the cases of the opposite order (a session longer than the
rebalance, a rebalance longer than the session).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

FAULTS = ("cut", "crash broker", "kill member", "freeze member", "freeze broker", "refuse writes", "torn write",
          "clog", "scale", "slow handler", "leave", "one-way cut", "deploy", "double", "clock jump",
          "admin")  # fmt: skip
FAULTS_OF_STRANGERS = ("impostor", "kick")
CHANGES_MIND = "change mind"
"""A consumer subscribes to a single topic, and later to all topics again."""
UNSUBSCRIBES = "unsubscribe"
"""Unsubscribe and subscribe again in one process."""
PAUSES = "pause"
"""Pause one partition, and resume it later."""
SEEKS = "seek"
"""Seek one partition to an earlier offset."""
BOTH = (["range", "cooperative-sticky"], ["cooperative-sticky"], ["range"], ["roundrobin"], ["sticky"])


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one run; times in ms."""

    seed: int
    consumers: int
    topics: dict[str, int]
    records: int
    send_every_ms: int
    assignors: list[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    request_timeout_ms: int
    initial_delay_ms: int
    auto_commit_interval_ms: int
    offsets_partitions: int
    segment_bytes: int
    fetch_wait_ms: int
    delay_ms: tuple[int, int]
    """Range of the network delay without faults, in ms."""
    static: bool
    """True for static members."""
    faults_ms: int
    faults: frozenset[str]
    fault_every_ms: int
    poll_records: int
    """Largest number of records per poll."""
    index_interval_bytes: int
    forgets: bool
    """True if offsets of an empty group expire within a minute."""
    poll_ms: int
    """Timeout of a user's poll, in ms."""
    cleans_often: bool
    """True for frequent compaction, and early removal of tombstones and markers."""

    @property
    def sweep_ms(self) -> int:
        """Interval of the broker's expiry of offsets and groups, in ms."""
        return 5_000 if self.forgets else 600_000

    @property
    def may_orphan(self) -> bool:
        """True if a partition may stay without owner until the next rebalance, as in Kafka.

        A static member of a cooperative group dies between an assignment and a revocation, and returns (KIP-345).
        """
        return self.static and "cooperative-sticky" in self.assignors

    @property
    def calm_bound_ms(self) -> int:
        """Time after the faults until the group must be stable without lag, in ms.

        A dead member is noticed within its session. Its rebalance and SyncGroup phase may each take the longest
        rebalance timeout, and another rebalance follows its removal. A client may first wait for a request to a dead
        broker, at worst a JoinGroup.
        """
        join_ms = self.max_poll_interval_ms + 5_000
        return (
            2 * self.session_timeout_ms + 3 * self.max_poll_interval_ms + join_ms + 2 * self.request_timeout_ms + 30_000
        )

    def __str__(self) -> str:
        sizes = f"{self.consumers} consumers, {sum(self.topics.values())} partitions, {'/'.join(self.assignors)}"
        times = f"session {self.session_timeout_ms} ms, poll {self.max_poll_interval_ms} ms"
        sizes += ", static" if self.static else ""
        return f"seed {self.seed}: {sizes}, {times}; faults: {', '.join(sorted(self.faults)) or 'none'}"


def plan_of(seed: int) -> Plan:
    """Draw the plan of a seed. Later additions use separate random numbers, so that old values stay the same."""
    later = random.Random(f"later {seed}")
    rng = random.Random(f"plan {seed}")
    session_ms = rng.choice([6_000, 6_000, 10_000, 20_000, 45_000])
    max_poll_ms = rng.choice([5_000, 10_000, 30_000, 60_000])
    share = rng.choice([0.0, 0.2, 0.45, 0.45, 0.45, 0.7])
    topics = {f"t{i}": rng.choice([1, 2, 3, 6]) for i in range(rng.choice([1, 1, 2]))}
    faults_of_strangers = {f for f in FAULTS_OF_STRANGERS if later.random() < (0.3 if share else 0.0)}
    plan = Plan(
        seed=seed,
        consumers=rng.choice([1, 2, 3, 3, 4, 5]),
        topics=topics,
        records=rng.choice([20, 60, 150]),
        send_every_ms=rng.choice([50, 200, 500]),
        assignors=rng.choice(BOTH),
        session_timeout_ms=session_ms,
        # A member learns of a rebalance by its heartbeat; an interval longer than rebalances would always be too late.
        heartbeat_interval_ms=max(500, min(session_ms, max_poll_ms) // rng.choice([3, 4, 10])),
        max_poll_interval_ms=max_poll_ms,
        request_timeout_ms=rng.choice([5_000, 10_000, 30_000]),
        initial_delay_ms=rng.choice([0, 0, 500, 3_000]),
        auto_commit_interval_ms=rng.choice([500, 2_000, 5_000]),
        offsets_partitions=rng.choice([1, 3]),
        segment_bytes=rng.choice([1 << 12, 1 << 16, 1 << 30]),
        fetch_wait_ms=rng.choice([500, 500, 2_000]),
        delay_ms=rng.choice([(0, 3), (0, 3), (1, 30), (20, 250)]),
        static=rng.random() < 0.3,
        faults_ms=rng.choice([20_000, 40_000, 80_000]),
        faults=frozenset(f for f in FAULTS if rng.random() < share) | faults_of_strangers,
        fault_every_ms=rng.choice([1_000, 3_000, 8_000]),
        poll_records=later.choice([500, 500, 500, 1, 5]),
        index_interval_bytes=later.choice([4_096, 4_096, 4_096, 128]),
        forgets=later.random() < 0.3,
        cleans_often=later.random() < 0.5,
        poll_ms=1_000,
    )
    # As in Kafka, a static member with a new subscription changes nothing in a stable group (KIP-345).
    # Offsets of an unsubscribed topic expire although the group has members.
    minds = bool(share) and len(topics) > 1 and not (plan.static or plan.forgets) and later.random() < 0.5
    of_users = {CHANGES_MIND} if minds else set()
    of_users |= {UNSUBSCRIBES} if share and not plan.static and later.random() < 0.2 else set()
    of_users |= {PAUSES} if share and later.random() < 0.2 else set()
    # With short polls, user actions between polls meet more requests in flight.
    poll_ms = later.choice([1_000, 100]) if of_users else plan.poll_ms
    of_users |= {SEEKS} if share and later.random() < 0.15 else set()
    return replace(plan, faults=plan.faults | of_users, poll_ms=poll_ms)
