"""One seed, from its plan to its verdict: faults, then calm, then a quiet failover, with checks after every event."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

from kohort.client.commits import Offsets
from kohort.config.broker import BrokerConfig
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.coordinator.invariants import InvariantBroken
from kohort.model import Record, TopicPartition
from kohort.sim.brokers import BrokerActor
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.calm import check_delivered, check_nothing_moved, standing, why_not_settled
from kohort.sim.checks.durability import check_commits, check_records, check_replay
from kohort.sim.checks.ownership import Ownership
from kohort.sim.clients import ProducerActor
from kohort.sim.consumers import ConsumerActor
from kohort.sim.faults import Faults
from kohort.sim.history import History
from kohort.sim.network import Network
from kohort.sim.swarm import Plan, plan_of
from kohort.sim.world import START_MS, World

GROUP = "g"
BROKER = ("10.1.0.1", 9092)
QUIET_MS = 20_000
CHECK_EVERY = 64
LOOK_EVERY = 32
SETTLED_MS = 5_000


@dataclass(slots=True)
class Verdict:
    """What became of a seed."""

    plan: Plan
    failure: str | None
    story: str
    events: int
    elapsed_ms: int
    counts: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0

    @property
    def passed(self) -> bool:
        return self.failure is None


class Run:
    """The actors of one seed, and the witness of what they see."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.history = History(self.world)
        self.network = Network(self.world)
        self.broker = BrokerActor(self.world, self.network, self.history, self._broker_config())
        self.producer = ProducerActor("producer", self.world, self.network, self.history, self._producer_config())
        self.consumers = [self._consumer(i) for i in range(plan.consumers)]
        self.ownership = Ownership()
        self.read: set[bytes] = set()
        self.committed: list[Offsets] = []
        self._settled_since_ms: int | None = None

    # ------------------------------------------------------------ configuration

    def _broker_config(self) -> BrokerConfig:
        plan = self.plan
        return BrokerConfig(
            listen_host=BROKER[0],
            listen_port=BROKER[1],
            group_initial_rebalance_delay_ms=plan.initial_delay_ms,
            offsets_topic_num_partitions=plan.offsets_partitions,
            offsets_topic_segment_bytes=plan.segment_bytes,
            log_segment_bytes=plan.segment_bytes,
            auto_create_topics_enable=False,
        )

    def _producer_config(self) -> ProducerConfig:
        return ProducerConfig(
            bootstrap_servers=[f"{BROKER[0]}:{BROKER[1]}"], request_timeout_ms=self.plan.request_timeout_ms
        )

    def _consumer(self, number: int) -> ConsumerActor:
        plan = self.plan
        config = ConsumerConfig(
            bootstrap_servers=[f"{BROKER[0]}:{BROKER[1]}"],
            client_id=f"c{number}",
            group_id=GROUP,
            auto_offset_reset="earliest",
            partition_assignment_strategy=plan.assignors,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.heartbeat_interval_ms,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            request_timeout_ms=plan.request_timeout_ms,
            auto_commit_interval_ms=plan.auto_commit_interval_ms,
            metadata_max_age_ms=10_000,
        )
        return ConsumerActor(f"c{number}", self.world, self.network, self.history, config, list(plan.topics), self)

    # ------------------------------------------------------------ the witness

    def owns(self, consumer: ConsumerActor, generation_id: int, partitions: frozenset[TopicPartition]) -> None:
        self.ownership.owns(consumer.member_id, generation_id, partitions)

    def lets_go(self, _consumer: ConsumerActor, kind: str, partitions: frozenset[TopicPartition]) -> None:
        """Kept for checks across generations; within one, ``owns`` says it all."""

    def reads(self, _consumer: ConsumerActor, records: list[Record]) -> None:
        for record in records:
            self.read.add(record.value or b"")

    def commits(self, _consumer: ConsumerActor, offsets: Offsets) -> None:
        self.committed.append(offsets)

    # ------------------------------------------------------------ the run

    def go(self) -> None:
        """Raises CheckFailed or InvariantBroken; returns if all is well."""
        plan, world = self.plan, self.world
        self.broker.start()
        self._make_topics()
        self.producer.start(list(plan.topics), plan.records, plan.send_every_ms)
        for consumer in self.consumers:
            world.after(world.rng.randrange(0, 2_000), consumer.start)
        faults = Faults(world, plan, self.network, self.broker, self.consumers)
        world.run(START_MS + plan.faults_ms, after_each=self._check)
        faults.calm()
        self.history.add("world", "calm")
        bound_ms = SETTLED_MS + plan.calm_bound_ms + max(0, plan.records * plan.send_every_ms - plan.faults_ms)
        if not world.run(world.now_ms + bound_ms, after_each=self._check, stop=self._is_settled):
            raise CheckFailed(f"not settled {bound_ms} ms after the faults ended: {self._why_not_settled()}")
        self._check_end()
        self._quiet_failover()

    def _make_topics(self) -> None:
        assert self.broker.broker is not None
        for name, partitions in self.plan.topics.items():
            self.broker.broker.state.topics.create(name, partitions, {}, self.world.now_ms)

    def _check(self) -> None:
        """Now and then all of the coordinator's invariants; those of the group at hand hold after every event."""
        broker = self.broker.broker
        if self.world.events % CHECK_EVERY or broker is None:
            return
        wake_at_ms = broker.state.coordinator.wake_at_ms
        if wake_at_ms is None or wake_at_ms >= self.world.now_ms:
            broker.state.coordinator.check_invariants(self.world.now_ms)

    @property
    def _partitions(self) -> set[TopicPartition]:
        return {TopicPartition(t, p) for t, n in self.plan.topics.items() for p in range(n)}

    def _is_settled(self) -> bool:
        """Settled for a while: a commit or a callback that is under way shows nowhere else."""
        if self.world.events % LOOK_EVERY:
            return False
        if self._why_not_settled() is not None:
            self._settled_since_ms = None
            return False
        if self._settled_since_ms is None:
            self._settled_since_ms = self.world.now_ms
        return self.world.now_ms - self._settled_since_ms >= SETTLED_MS

    def _why_not_settled(self) -> str | None:
        broker = self.broker.broker
        if broker is None:
            return "the broker is down"
        if self.broker.is_frozen:
            return "the broker is frozen"
        if not self.producer.done:
            return "records are on their way"
        logs = {p: broker.state.topics.log(*p) for p in self._partitions}
        ends = {p: log.log_end_offset for p, log in logs.items() if log is not None}
        return why_not_settled(self.consumers, self._partitions, ends, self.broker.committed(GROUP))

    def _check_end(self) -> None:
        assert self.broker.broker is not None
        check_records(self.broker.broker, self.producer.acknowledged)
        check_commits(self.broker.broker, self.committed)
        check_replay(self.broker.broker)
        check_delivered(self.producer.acknowledged, self.read)

    def _quiet_failover(self) -> None:
        """Restart the broker while nothing happens: no member may notice more than a reconnect."""
        before = standing(self.consumers)
        self.broker.kill("a quiet failover", restart_in_ms=200)
        self.world.run(self.world.now_ms + QUIET_MS, after_each=self._check)
        check_nothing_moved(before, standing(self.consumers))
        self._check_end()


def run_seed(seed: int) -> Verdict:
    """Run one seed to its verdict."""
    run = Run(plan_of(seed))
    failure = None
    try:
        run.go()
    except (CheckFailed, InvariantBroken) as broken:
        failure = str(broken)
    except Exception:  # noqa: BLE001 - whatever a machine raises is a failure of its seed
        failure = traceback.format_exc()
    return Verdict(
        plan=run.plan,
        failure=failure,
        story=run.history.tail(),
        events=run.world.events,
        elapsed_ms=run.world.elapsed_ms,
        counts=dict(run.history.counts),
        acknowledged=len(run.producer.acknowledged),
    )
