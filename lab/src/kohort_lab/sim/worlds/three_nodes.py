"""World ``moves``: a group on three nodes; coordinators and leaders move, nodes stop and start.

Members, users and faults are those of ``one_broker.py``. Each run ends with planned moves: all leaders move to another
node, then a node restarts; a stable group must not change.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from kohort.broker.broker import Broker
from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.config.broker import BrokerConfig
from kohort.config.client import ProducerConfig
from kohort.coordinator.outcome import TimerKind
from kohort.coordinator.records import partition_of
from kohort.model import TopicPartition
from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.actors.faults import Faults, OwnFaults, Victims
from kohort_lab.sim.actors.nodes import ClusterActor
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.calm import check_delivered, check_nothing_moved, standing, why_not_settled
from kohort_lab.sim.checks.fencing import Fencing
from kohort_lab.sim.checks.group_invariants import check_all
from kohort_lab.sim.checks.handed_out import HandedOut
from kohort_lab.sim.checks.joiners import Joiners
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.obedience import Obedience
from kohort_lab.sim.checks.ownership import OneOwner
from kohort_lab.sim.checks.parked import check_parked
from kohort_lab.sim.checks.polls import Polls
from kohort_lab.sim.checks.watcher import Watcher
from kohort_lab.sim.swarm import FAULTS_OF_STRANGERS, Plan, plan_of
from kohort_lab.sim.worlds.simulation import Simulation

GROUP: Final = "g"
NODES: Final = 3
PORT: Final = 9092
QUIET_MS: Final = 20_000
MORE_RECORDS: Final = 5
CHECK_EVERY: Final = 32
MORE_TO_DELIVER_MS: Final = (115_000, 100)
"""delivery.timeout.ms beyond the request timeout, by seed: several attempts, or hardly more than one."""
OMITTED_FAULTS: Final = frozenset({"admin", *FAULTS_OF_STRANGERS})
"""Faults that need actors of other worlds."""


def plan_of_moves(seed: int) -> Plan:
    plan = plan_of(seed)
    # As in Kafka, a static member that dies before a revocation and returns leaves the partition without owner.
    static = plan.static and "cooperative-sticky" not in plan.assignors
    return replace(plan, faults=plan.faults - OMITTED_FAULTS, static=static, forgets=False)


class ThreeNodes(Simulation):
    """Group on three nodes of one process."""

    group_id = GROUP
    servers = [f"10.1.0.{number}:{PORT}" for number in range(NODES)]

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        context = self.context
        self.process = self.cluster = ClusterActor(context, self._node_configs())
        producing = ProducerConfig(
            bootstrap_servers=self.servers,
            request_timeout_ms=plan.request_timeout_ms,
            delivery_timeout_ms=plan.request_timeout_ms + MORE_TO_DELIVER_MS[plan.seed % 2],
        )
        self.producer = ProducerActor("producer", context, producing)
        self.members = self.consumers = [self.consumer(f"c{i}", f"i{i}") for i in range(plan.consumers)]
        self.double = self.consumer("double", "i0")
        life = GroupLife(GROUP, self.topics)
        self.handed_out = HandedOut(GROUP, self.topic_name, life, once=False)
        polls = Polls({consumer.name: consumer for consumer in (*self.consumers, self.double)})
        for check in (life, *self.checks_of_groups(life), self.handed_out, self.durability, Obedience(), polls):
            context.checks.add(check)

    def checks_of_groups(self, life: GroupLife) -> list[Watcher]:
        """Return the checks of the group's protocol."""
        return [OneOwner(life), Fencing(lambda: self.cluster.disk.refusals, life), Joiners(life, moves=True)]

    def broker_options(self) -> dict[str, Any]:
        """Return the node options of this world."""
        return {}

    def _node_configs(self) -> list[BrokerConfig]:
        shared = self.broker_config(
            # One replica: partitions of a stopped node have no leader until it returns.
            default_replication_factor=1 if self.plan.seed % NODES == 0 else NODES,
            offsets_retention_check_interval_ms=self.plan.sweep_ms,
            **self.broker_options(),
        )
        return [
            replace(shared, node_id=number, listen_host=f"10.1.0.{number}", listen_port=PORT) for number in range(NODES)
        ]

    def go(self) -> None:
        """Run to the end. Raises CheckFailed, InvariantBroken, Storm, or a machine's error."""
        self.start()
        victims = Victims(self.cluster, self.consumers, self.double)
        self.endure(Faults(self.context, self.plan, victims, self.own_faults()))
        self._start_all()
        self.settle_within(self.settles_within_ms)
        self.check_end()
        self._quiet_moves()

    def own_faults(self) -> OwnFaults:
        """Return the faults of this world only."""
        return OwnFaults(always={"move": self._move, "stop node": self._stop_node, "start node": self._start_node})

    def _start_all(self) -> None:
        """Start every node that is down."""
        for number in range(NODES):
            self.cluster.start_node(number)

    def _quiet_moves(self) -> None:
        """Move all leaders, then restart a node: members only reconnect."""
        before = standing(self.consumers)
        self.producer.go_on(list(self.plan.topics), MORE_RECORDS, self.plan.send_every_ms)
        leaders = {partition: self.cluster.leader_of(partition) for partition in self.cluster.partitions}
        for partition, leader in leaders.items():
            if leader is None:
                raise CheckFailed(f"no leader of {partition} in a settled world")
            self.cluster.lead(partition, (leader.node.node_id + 1) % NODES)
        self._watch_quietly()
        self.cluster.stop_node(self.world.rng.randrange(0, NODES))
        self._watch_quietly()
        self._start_all()
        self._watch_quietly()
        check_nothing_moved(before, standing(self.consumers))
        self.settle_within(QUIET_MS)
        self.check_end()

    def _watch_quietly(self) -> None:
        self.world.run(self.world.now_ms + QUIET_MS, after_each=self.check)

    def _move(self, rng: random.Random) -> None:
        """Move the leader of one partition, of all, or of all ``__consumer_offsets`` partitions."""
        partitions = self.cluster.partitions
        own = [p for p in partitions if p.topic == OFFSETS_TOPIC]
        some = rng.choice([partitions, own, [rng.choice(partitions)] if partitions else []])
        for partition in some:
            self.cluster.lead(partition, rng.randrange(0, NODES))

    def _stop_node(self, rng: random.Random) -> None:
        self.cluster.stop_node(rng.randrange(0, NODES))

    def _start_node(self, rng: random.Random) -> None:
        self.cluster.start_node(rng.randrange(0, NODES))

    def check(self) -> None:
        """Check invariants and waiting requests of nodes without pending cluster events."""
        cluster = self.cluster
        if self.world.events % CHECK_EVERY or cluster.cluster is None or cluster.is_frozen:
            return
        for broker in cluster.brokers:
            if cluster.cluster.inbox(broker.node.node_id):
                continue
            check_parked(broker)
            wake_at_ms = broker.state.coordinator.wake_at_ms
            if wake_at_ms is None or wake_at_ms >= cluster.now_ms:
                check_all(broker.state.coordinator, cluster.now_ms)

    def check_end(self) -> None:
        for broker in self.cluster.brokers:
            self.durability.check_end(broker, self.producer.acknowledged)
        check_delivered(self.producer.acknowledged, self.handed_out.values)

    @cached_property
    def _groups_home(self) -> TopicPartition:
        return TopicPartition(OFFSETS_TOPIC, partition_of(GROUP, self.plan.offsets_partitions))

    def coordinator(self) -> Broker | None:
        """Return the machine that coordinates the group, or None."""
        return self.cluster.leader_of(self._groups_home)

    def why_not_settled(self) -> str | None:
        if not self.cluster.is_whole:
            return "not every node is up"
        if not self.producer.done:
            return "records are on their way"
        coordinator = self.coordinator()
        if coordinator is None:
            return "nobody coordinates the group"
        waits = {(key.kind, key.member_id) for key in coordinator.state.coordinator.timers_of(GROUP)}
        if waits - self.idle_timers() != {(self.session_kind(), consumer.member_id) for consumer in self.consumers}:
            return f"the group waits for {sorted(waits)}"
        ends = self._ends(coordinator)
        committed = self.cluster.committed(GROUP, self._groups_home.partition)
        return why_not_settled(self.consumers, set(ends), ends, committed)

    def topics_now(self) -> dict[str, int]:
        """Return the number of partitions of each topic that the group reads."""
        return self.plan.topics

    def session_kind(self) -> TimerKind:
        """Return the timer kind of a settled group's members."""
        return "session"

    def idle_timers(self) -> set[tuple[TimerKind, str]]:
        """Return timers that a settled group may have, too, as (kind, member)."""
        return set()

    def _ends(self, broker: Broker) -> dict[TopicPartition, int]:
        partitions = [TopicPartition(name, n) for name, count in self.topics_now().items() for n in range(count)]
        logs = {partition: broker.state.topics.log(*partition) for partition in partitions}
        return {partition: log.log_end_offset for partition, log in logs.items() if log is not None}


def run_three_nodes(seed: int) -> ThreeNodes:
    """Run one seed. Raises CheckFailed, or a machine's error."""
    run = ThreeNodes(plan_of_moves(seed))
    run.go()
    return run
