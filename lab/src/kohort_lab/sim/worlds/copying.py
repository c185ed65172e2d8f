"""World ``transactions``: a group copies a topic in transactions under all faults; each record once.

It is separate from ``one_broker``, so that histories of that world's seeds stay the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kohort.config.client import ProducerConfig
from kohort.log.partition import PartitionLog
from kohort.model import TopicPartition
from kohort_lab.sim.actors.brokers import BrokerActor
from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.actors.faults import Faults, OwnFaults, Victims
from kohort_lab.sim.actors.processors import Processor
from kohort_lab.sim.checks.calm import why_not_settled
from kohort_lab.sim.checks.exactly_once import check_copied_once
from kohort_lab.sim.swarm import FAULTS_OF_STRANGERS, SEEKS, Plan, plan_of
from kohort_lab.sim.worlds.simulation import Simulation

GROUP: Final = "copiers"
OUTPUT: Final = "copies"
OUTPUT_PARTITIONS: Final = 2
BROKER: Final = ("10.1.0.1", 9092)
SERVERS: Final = [f"{BROKER[0]}:{BROKER[1]}"]
TRANSACTION_MS: Final = (10_000, 30_000)
"""Transaction timeouts by seed, in ms: shorter or longer than most sessions."""
ROUND_TRIPS: Final = 8
"""Round trips of a transaction: partitions, group, records, offsets, end; and a fetch."""
THINKING_MS: Final = 500
OMITTED_FAULTS: Final = frozenset({"admin", "double", "clock jump", SEEKS, *FAULTS_OF_STRANGERS})
"""Faults left out: a clock jump expires every transaction, a seek copies records again, others need missing actors."""


def plan_of_copies(seed: int) -> Plan:
    plan = plan_of(seed)
    return replace(
        plan,
        faults=plan.faults - OMITTED_FAULTS | ({"freeze member", "slow handler"} if plan.faults else set()),
        records=max(plan.records, 60),
        # As in Kafka, a static member that dies before a revocation and returns leaves the partition without owner.
        static=plan.static and "cooperative-sticky" not in plan.assignors,
        poll_records=2 + plan.seed % 6,
        forgets=False,
    )


class CopyingGroup(Simulation):
    """Group whose members copy records in transactions that include their offsets."""

    group_id = GROUP
    servers = SERVERS

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.context.checks.add(self.durability)
        config = self.broker_config(
            listen_host=BROKER[0],
            listen_port=BROKER[1],
            transaction_state_log_num_partitions=plan.offsets_partitions,
        )
        self.process = self.broker = BrokerActor(self.context, config)
        producing = ProducerConfig(bootstrap_servers=SERVERS, request_timeout_ms=plan.request_timeout_ms)
        self.producer = ProducerActor("producer", self.context, producing)
        self.members = self.processors = [self._processor(n) for n in range(plan.consumers)]
        self.double = self._processor(plan.consumers)

    def _processor(self, number: int) -> Processor:
        plan, name = self.plan, f"p{number}"
        consuming = self.consumer_config(name, name, isolation_level="read_committed", enable_auto_commit=False)
        producing = ProducerConfig(
            bootstrap_servers=SERVERS,
            client_id=name,
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_MS[plan.seed % 2],
            request_timeout_ms=plan.request_timeout_ms,
            delivery_timeout_ms=plan.request_timeout_ms + 5_000,
        )
        made = Processor(name, self.context, consuming, list(plan.topics), producing=producing, output=OUTPUT)
        made.pace = self.pace()
        made.speaks_newest = plan.seed % 3 > 0
        return made

    def go(self) -> None:
        """Run to the end. Raises CheckFailed unless each record is copied once, or a machine's error."""
        plan = self.plan
        self.start({OUTPUT: OUTPUT_PARTITIONS})
        self.endure(Faults(self.context, plan, Victims(self.broker, self.processors, self.double), OwnFaults()))
        for processor in self.processors:
            processor.aborts = 0.0
        copying_ms = plan.records // plan.poll_records * (ROUND_TRIPS * 2 * plan.delay_ms[1] + THINKING_MS)
        self.settle_within(self.settles_within_ms + 3 * max(TRANSACTION_MS) + copying_ms)
        check_copied_once(self._logs(*plan.topics), self._logs(OUTPUT))
        assert self.broker.broker is not None
        self.durability.check_end(self.broker.broker, self.producer.acknowledged)

    def _logs(self, *topics: str) -> list[PartitionLog]:
        topics_by_name = self.topics()
        assert topics_by_name is not None
        found = [topics_by_name.get(name) for name in topics]
        return [log for topic in found if topic is not None for log in topic.partitions]

    def why_not_settled(self) -> str | None:
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


def run_copying(seed: int) -> CopyingGroup:
    """Run one seed. Raises CheckFailed, or a machine's error."""
    run = CopyingGroup(plan_of_copies(seed))
    run.go()
    return run
