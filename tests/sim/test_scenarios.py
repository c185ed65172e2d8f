"""Known incidents of other clients and brokers, replayed in the simulator.

Each run ends like a random one: calm, failover, leave of all clients, with all checks.
"""

from dataclasses import replace

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort_lab.sim.checks.watcher import Watcher
from kohort_lab.sim.disk import DiskWeather
from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.worlds.one_broker import OneBroker

SCENE = replace(
    plan_of(0),
    consumers=3,
    topics={"t0": 6},
    records=60,
    send_every_ms=200,
    assignors=["range"],
    session_timeout_ms=6_000,
    heartbeat_interval_ms=1_000,
    max_poll_interval_ms=10_000,
    request_timeout_ms=5_000,
    initial_delay_ms=0,
    auto_commit_interval_ms=500,
    offsets_partitions=1,
    segment_bytes=1 << 30,
    fetch_wait_ms=500,
    delay_ms=(0, 3),
    static=False,
    faults_ms=20_000,
    faults=frozenset(),
    poll_records=500,
    forgets=False,
)


class Once(Watcher):
    """Runs an action at the first exchange for which ``seen`` is true."""

    def __init__(self, matches, act, *, from_ms=5_000):
        self.done = False
        self._matches, self._act, self._from_ms = matches, act, from_ms
        self._begin_ms = None

    def _look(self, exchange):
        self._begin_ms = self._begin_ms or exchange.sent_ms
        if not self.done and exchange.sent_ms >= self._begin_ms + self._from_ms and self._matches(exchange):
            self.done = True
            self._act(exchange)

    requested = _look
    answered = _look


def makes_leader(exchange):
    return isinstance(exchange.answer, JoinGroupResponse) and len(exchange.answer.members) > 1


def play(script=None, *, also=(), **changes):
    run = OneBroker(replace(SCENE, **changes), also, script or (lambda _: None))
    run.go()
    return run


def member(run, name):
    return next(consumer for consumer in run.consumers if consumer.name == name)


def last_generation(run):
    """Highest generation with assigned partitions."""
    owned = [h.detail for h in run.history.lines if h.what == "owns"]
    return max(int(detail.removeprefix("generation ").partition(":")[0]) for detail in owned)


def restart_at(run, at_ms, *numbers):
    """Kill these members at ``at_ms``; they restart."""

    def strike():
        for number in numbers:
            run.consumers[number].kill("by hand")
            run.consumers[number].restart_later()

    run.world.after(at_ms, strike)


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_leader_death_before_sync_does_not_block_the_rebalance(assignor):
    """KAFKA-12890: a group stuck in CompletingRebalance, without a timer for the leader's SyncGroup."""
    died = []

    def die(exchange):
        leader = member(run, exchange.client)
        run.world.after(0, lambda: leader.kill("before its sync"))
        run.world.after(15_000, leader.start)
        died.append(exchange.client)

    trap = Once(makes_leader, die)
    run = OneBroker(replace(SCENE, assignors=[assignor]), [trap], lambda run: restart_at(run, 6_000, 0))
    run.go()

    assert len(died) == 1
    assert last_generation(run) >= 3


def test_frozen_member_does_not_block_the_rebalance():
    """redpanda#3300: stuck in PreparingRebalance, frozen members are not removed."""
    run = play(lambda run: (run.world.after(5_000, lambda: run.consumers[1].freeze(14_000)), restart_at(run, 6_000, 0)))

    assert run.history.counts["frozen"] == 1
    assert run.history.counts["lost"] >= 1, "whoever hung finds out that it lost its place"


def test_cooperative_group_needs_two_rebalances_per_change_at_most():
    """librdkafka#4783, confluent-kafka-python#1090: endless cooperative rebalances."""

    def deploy(run):
        for number in range(4):
            restart_at(run, 6_000 + 2_000 * number, number)

    run = play(deploy, consumers=4, topics={"t0": 6, "t1": 6}, assignors=["cooperative-sticky"])

    # Each start and each death may take two rebalances: revocation, then assignment.
    changes = run.history.counts["started"] + run.history.counts["killed"]
    assert 4 < last_generation(run) <= 2 * changes


def test_commits_during_a_rebalance_succeed_or_are_retried():
    """librdkafka#4059, kafka-python#1401: a commit during a rebalance fails, and the application with it."""

    def hurry(run):
        for consumer in run.consumers:
            consumer.pace.commit_each_poll = 1.0
        for number in (0, 1, 2):
            restart_at(run, 5_000 + 3_000 * number, number)

    run = play(hurry, assignors=["cooperative-sticky"], send_every_ms=50, records=300)

    assert "gives up" not in run.history.counts
    assert len(run.producer.acknowledged) == 305


def test_older_process_with_the_same_instance_id_is_fenced():
    """franz-go#931: FENCED_INSTANCE_ID with a replica set; the group must not flap between both processes."""
    run = play(
        lambda run: (
            run.world.after(8_000, run.double.start),
            run.world.after(12_000, lambda: run.double.kill("noticed")),
        ),
        static=True,
    )

    fenced = [h for h in run.history.lines if h.what == "gives up" and h.who == "c0"]
    assert fenced
    assert "FENCED_INSTANCE_ID" in fenced[0].detail


def test_member_frozen_beyond_its_session_can_neither_commit_nor_stay():
    """KAFKA-16147, kafka-python#2422: after a pause two members own one partition, and both commit."""
    refused = []

    class Refusals(Watcher):
        def answered(self, exchange):
            if isinstance(exchange.request, HeartbeatRequest) and exchange.error is ErrorCode.UNKNOWN_MEMBER_ID:
                refused.append(exchange.client)

    run = play(lambda run: run.world.after(8_000, lambda: run.consumers[2].freeze(9_000)), also=[Refusals()])

    assert refused == ["c2"]
    assert run.history.counts["lost"] == 1


def test_coordinator_restart_during_a_join_leaves_no_waiting_member():
    """kop#380, confluent-kafka-go#638: a join that never completes after the broker's restart."""

    def crash(_exchange):
        run.world.after(0, lambda: run.broker.kill("during a join", restart_in_ms=700))

    trap = Once(lambda e: isinstance(e.request, JoinGroupRequest) and e.answer is None, crash)
    run = OneBroker(SCENE, [trap], lambda run: restart_at(run, 6_000, 1))
    run.go()

    assert trap.done
    assert run.history.counts["killed"] >= 3


def test_coordinator_death_during_the_assignment_write_assigns_nothing():
    """Recovery truncates the torn generation, and its members join again."""

    def tear(_exchange):
        run.broker.disk.weather = DiskWeather(die=1.0)
        run.world.after(3_000, lambda: setattr(run.broker.disk, "weather", DiskWeather()))

    trap = Once(lambda e: isinstance(e.request, SyncGroupRequest) and bool(e.request.assignments), tear)
    run = OneBroker(SCENE, [trap], lambda run: restart_at(run, 6_000, 1))
    run.go()

    assert trap.done
    assert any("in the middle of a write" in h.detail for h in run.history.lines)


def test_failed_assignment_write_is_retried_with_a_new_generation():
    """Responses and log must not differ: the rebalance is aborted, and all members join again."""
    generations = []

    class Synced(Watcher):
        def answered(self, exchange):
            if isinstance(exchange.answer, SyncGroupResponse) and exchange.error is ErrorCode.NONE:
                generations.append(exchange.request.generation_id)

    def refuse(_exchange):
        run.broker.disk.weather = DiskWeather(refuse=1.0)
        run.world.after(2_000, lambda: setattr(run.broker.disk, "weather", DiskWeather()))

    trap = Once(lambda e: isinstance(e.request, SyncGroupRequest) and bool(e.request.assignments), refuse)
    run = OneBroker(SCENE, [trap, Synced()], lambda run: restart_at(run, 6_000, 1))
    run.go()

    assert trap.done
    assert run.broker.disk.refusals > 0
    assert max(generations) - len(set(generations)) >= 1, "a number was given and never used"


def test_slow_handler_removes_only_its_own_member():
    """aiokafka#848: one member works for longer than max.poll.interval.ms, and another one cannot commit either."""

    def slow(run):
        run.world.after(5_000, lambda: setattr(run.consumers[0].pace, "slow", 1.0))
        run.world.after(5_000, lambda: setattr(run.consumers[0].pace, "slow_ms", (12_000, 13_000)))

    run = play(slow, send_every_ms=100, records=150)

    lost = {h.who for h in run.history.lines if h.what in ("lost", "gives up")}
    assert lost <= {"c0"}
    assert len(run.producer.acknowledged) == 155
