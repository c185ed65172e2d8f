"""A world of its own: a group that copies a topic in transactions while everything fails that can; each record once.

It runs beside the world of ``one_broker``, so that the histories of seeds there stay what they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kohort.config.broker import BrokerConfig
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.log.partition import PartitionLog
from kohort.model import TopicPartition
from kohort.sim.actors.brokers import BrokerActor
from kohort.sim.actors.clients import ProducerActor
from kohort.sim.actors.faults import Faults
from kohort.sim.actors.processors import Processor
from kohort.sim.all_checks import Panel
from kohort.sim.checks.calm import check_settled, why_not_settled
from kohort.sim.checks.durability import Durability
from kohort.sim.checks.exactly_once import check_copied_once
from kohort.sim.history import History
from kohort.sim.network import Network
from kohort.sim.swarm import FAULTS_OF_STRANGERS, Plan, plan_of
from kohort.sim.tap import Tap
from kohort.sim.world import START_MS, World
from kohort.sim.worlds.settled import SETTLED_MS, Settling

GROUP: Final = "copiers"
OUTPUT: Final = "copies"
OUTPUT_PARTITIONS: Final = 2
BROKER: Final = ("10.1.0.1", 9092)
TRANSACTION_MS: Final = (10_000, 30_000)
"""How long a transaction may take: by seed, shorter than most sessions or longer."""
ROUND_TRIPS: Final = 8
"""Of a transaction: its partitions and its group, their records and offsets, its end; and a fetch."""
THINKING_MS: Final = 500
LEFT_OUT: Final = frozenset({"admin", "double", "clock jump", *FAULTS_OF_STRANGERS})
"""Faults of another world: a clock that jumps makes every transaction too old, the rest has actors of its own there."""


def plan_of_copies(seed: int) -> Plan:
    plan = plan_of(seed)
    return replace(
        plan,
        faults=plan.faults - LEFT_OUT | ({"freeze member", "slow handler"} if plan.faults else set()),
        records=max(plan.records, 60),
        # As in Kafka, one that dies before it gives up what was taken from it returns as if it had: nobody gets that.
        static=plan.static and "cooperative-sticky" not in plan.assignors,
        poll_records=2 + plan.seed % 6,
        forgets=False,
    )


class Copies:
    """One seed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.history = History(self.world)
        self.panel = Panel()
        self.durability = Durability()
        self.panel.add(self.durability)
        self.tap = Tap(self.world, self.panel)
        self.network = Network(self.world, self.tap, plan.delay_ms)
        self.broker = BrokerActor(self.world, self.network, self.history, self._broker_config(), self.panel)
        servers = [f"{BROKER[0]}:{BROKER[1]}"]
        producing = ProducerConfig(bootstrap_servers=servers, request_timeout_ms=plan.request_timeout_ms)
        self.producer = ProducerActor("producer", self.world, self.network, self.history, producing)
        self.processors = [self._processor(n, servers) for n in range(plan.consumers)]
        self.double = self._processor(plan.consumers, servers)

    def _broker_config(self) -> BrokerConfig:
        plan = self.plan
        return BrokerConfig(
            listen_host=BROKER[0],
            listen_port=BROKER[1],
            group_initial_rebalance_delay_ms=plan.initial_delay_ms,
            offsets_topic_num_partitions=plan.offsets_partitions,
            offsets_topic_segment_bytes=plan.segment_bytes,
            transaction_state_log_num_partitions=plan.offsets_partitions,
            log_segment_bytes=plan.segment_bytes,
            log_index_interval_bytes=plan.index_interval_bytes,
            auto_create_topics_enable=False,
        )

    def _processor(self, number: int, servers: list[str]) -> Processor:
        plan, name = self.plan, f"p{number}"
        consuming = ConsumerConfig(
            bootstrap_servers=servers,
            client_id=name,
            group_id=GROUP,
            group_instance_id=name if plan.static else None,
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_max_wait_ms=plan.fetch_wait_ms,
            auto_offset_reset="earliest",
            partition_assignment_strategy=plan.assignors,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.heartbeat_interval_ms,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            request_timeout_ms=plan.request_timeout_ms,
        )
        producing = ProducerConfig(
            bootstrap_servers=servers,
            client_id=name,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_MS[plan.seed % 2],
            request_timeout_ms=plan.request_timeout_ms,
            delivery_timeout_ms=plan.request_timeout_ms + 5_000,
        )
        network, history, topics = self.network, self.history, list(plan.topics)
        made = Processor(name, self.world, network, history, consuming, topics, self.panel, producing, OUTPUT)
        made.pace.most_records = plan.poll_records
        made.speaks_newest = plan.seed % 3 > 0
        return made

    def go(self) -> None:
        """Raises CheckFailed; returns if every record was copied once."""
        plan, world = self.plan, self.world
        self.broker.start()
        assert self.broker.broker is not None
        for name, partitions in {**plan.topics, OUTPUT: OUTPUT_PARTITIONS}.items():
            self.broker.broker.state.topics.create(name, partitions, {}, world.now_ms)
        self.producer.start(list(plan.topics), plan.records, plan.send_every_ms)
        for processor in self.processors:
            world.after(world.rng.randrange(0, 2_000), processor.start)
        faults = Faults(world, plan, self.network, self.broker, list(self.processors), self.double, {}, lambda: None)
        world.run(START_MS + plan.faults_ms, after_each=lambda: None)
        faults.calm()
        for processor in self.processors:
            processor.aborts = 0.0
        self.history.add("world", "calm")
        sending_ms = max(0, plan.records * plan.send_every_ms - plan.faults_ms)
        copying_ms = plan.records // plan.poll_records * (ROUND_TRIPS * 2 * plan.delay_ms[1] + THINKING_MS)
        bound_ms = SETTLED_MS + plan.calm_bound_ms + 3 * max(TRANSACTION_MS) + sending_ms + copying_ms
        world.run(world.now_ms + bound_ms, after_each=lambda: None, stop=Settling(world, self._why_not_settled))
        check_settled(self._why_not_settled(), bound_ms)
        check_copied_once(self._logs(*plan.topics), self._logs(OUTPUT))
        self.durability.check_end(self.broker.broker, self.producer.acknowledged)

    def _logs(self, *topics: str) -> list[PartitionLog]:
        assert self.broker.broker is not None
        found = [self.broker.broker.state.topics.get(name) for name in topics]
        return [log for topic in found if topic is not None for log in topic.partitions]

    def _why_not_settled(self) -> str | None:
        broker = self.broker.broker
        if broker is None or self.broker.is_frozen:
            return "the broker is down or frozen"
        if not self.producer.done:
            return "records are on their way"
        ends = {
            TopicPartition(name, number): log.log_end_offset
            for name in self.plan.topics
            for number, log in enumerate(self._logs(name))
        }
        if (why := why_not_settled(self.processors, set(ends), ends, self.broker.committed(GROUP))) is not None:
            return why
        waiting = [str(n) for n, log in enumerate(self._logs(OUTPUT)) if log.last_stable_offset < log.log_end_offset]
        return f"transactions are open in partitions {waiting} of {OUTPUT}" if waiting else None


def copy_under(seed: int) -> Copies:
    """Run one seed. Raises CheckFailed, or whatever a machine raises."""
    run = Copies(plan_of_copies(seed))
    run.go()
    return run
