"""Base class of the worlds: a group, a process of brokers, a time of faults, then calm until settled.

A subclass creates its actors in the order of their random draws: broker process, producer, members, double.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from kohort.config.broker import BrokerConfig
from kohort.config.client import ConsumerConfig
from kohort.log.topics import Topics
from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.actors.consumers import ConsumerActor, UserPace
from kohort_lab.sim.actors.faults import BrokerProcess, Faults
from kohort_lab.sim.checks.calm import check_settled
from kohort_lab.sim.checks.durability import Durability
from kohort_lab.sim.checks.held_back import HeldBack
from kohort_lab.sim.run_context import RunContext
from kohort_lab.sim.swarm import Plan
from kohort_lab.sim.world import START_MS, World

LOOK_EVERY: Final = 32
SETTLED_MS: Final = 5_000


class SettledDetector:
    """Poller of ``why_not``: the world is settled after a sufficient time without a reason."""

    def __init__(self, world: World, why_not: Callable[[], str | None]) -> None:
        self._world = world
        self._why_not = why_not
        self._since_ms: int | None = None

    def __call__(self) -> bool:
        if self._world.events % LOOK_EVERY:
            return False
        if self._why_not() is not None:
            self._since_ms = None
            return False
        if self._since_ms is None:
            self._since_ms = self._world.now_ms
        return self._world.now_ms - self._since_ms >= SETTLED_MS


START_WITHIN_MS = 2_000
CLEANS_OFTEN: Final[dict[str, Any]] = {
    "log_cleaner_backoff_ms": 1_000,
    "log_cleaner_min_cleanable_ratio": 0.05,
    "log_cleaner_delete_retention_ms": 2_000,
}


class StartedProcess(BrokerProcess, Protocol):
    """Process of the world's brokers."""

    @property
    def topics(self) -> Topics | None:
        """Topics of the running process; None while the process is down."""

    def start(self) -> None: ...


class Simulation(ABC):
    """Actors of one seed, and the checks that watch them."""

    group_id: ClassVar[str]
    servers: ClassVar[list[str]]
    """Bootstrap servers."""
    process: StartedProcess
    """Process of the brokers."""
    producer: ProducerActor
    """Producer of the group's records."""
    members: Sequence[ConsumerActor]
    """Members of the group, without the double."""
    double: ConsumerActor
    """Second process with the first member's configuration."""

    def __init__(self, plan: Plan, *, decode_all: bool = False) -> None:
        self.plan = plan
        self.context = RunContext(plan.seed, plan.delay_ms, decode_all=decode_all)
        self.world = self.context.world
        self.history = self.context.history
        self.tap = self.context.tap
        self.durability = Durability()
        self._names: dict[bytes, str] = {}

    @abstractmethod
    def go(self) -> None:
        """Run to the end. Raises CheckFailed, InvariantBroken, Storm, or a machine's error."""

    @abstractmethod
    def why_not_settled(self) -> str | None:
        """Describe the requests in flight and the records not yet consumed; None if the world is settled."""

    def check(self) -> None:  # noqa: B027  # worlds whose checks observe every event themselves do not override it
        """Check the machines after an event. Raises CheckFailed or InvariantBroken."""

    def login_of(self, name: str) -> dict[str, Any]:
        """Return the login options of a client; empty without authentication."""
        del name
        return {}

    def broker_config(self, **own: Any) -> BrokerConfig:
        """Return the broker options of the plan and the world."""
        plan = self.plan
        return BrokerConfig(
            group_initial_rebalance_delay_ms=plan.initial_delay_ms,
            offsets_topic_num_partitions=plan.offsets_partitions,
            offsets_topic_segment_bytes=plan.segment_bytes,
            log_segment_bytes=plan.segment_bytes,
            **(CLEANS_OFTEN if plan.cleans_often else {}),
            log_index_interval_bytes=plan.index_interval_bytes,
            auto_create_topics_enable=False,
            **own,
        )

    def consumer_config(self, name: str, instance_id: str, **own: Any) -> ConsumerConfig:
        """Return a member's options by the plan, with its instance id if members are static."""
        plan = self.plan
        return ConsumerConfig(
            bootstrap_servers=self.servers,
            client_id=name,
            group_id=self.group_id,
            group_instance_id=instance_id if plan.static else None,
            fetch_max_wait_ms=plan.fetch_wait_ms,
            auto_offset_reset="earliest",
            partition_assignment_strategy=plan.assignors,
            session_timeout_ms=plan.session_timeout_ms,
            heartbeat_interval_ms=plan.heartbeat_interval_ms,
            max_poll_interval_ms=plan.max_poll_interval_ms,
            request_timeout_ms=plan.request_timeout_ms,
            **self.login_of(name),
            **own,
        )

    def consumer(self, name: str, instance_id: str) -> ConsumerActor:
        """Create a member that reads every topic of the plan with auto commit."""
        config = self.consumer_config(
            name, instance_id, auto_commit_interval_ms=self.plan.auto_commit_interval_ms, metadata_max_age_ms=10_000
        )
        consumer = ConsumerActor(name, self.context, config, list(self.plan.topics))
        consumer.pace = self.pace()
        return consumer

    def pace(self) -> UserPace:
        """Return the user's pace by the plan."""
        return UserPace(most_records=self.plan.poll_records, poll_ms=self.plan.poll_ms)

    def topics(self) -> Topics | None:
        """Return the topics of the running brokers; None while no broker runs."""
        return self.process.topics

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, also of a deleted topic that an earlier call found; else None."""
        topics = self.process.topics
        topic = topics.by_id(topic_id) if topics is not None else None
        if topic is not None:
            self._names[topic_id] = topic.name
        return self._names.get(topic_id)

    def start(self, more_topics: Mapping[str, int] | None = None) -> None:
        """Start the brokers, create the topics, then start all clients. ``more_topics``: partitions by name."""
        plan, world = self.plan, self.world
        self.context.checks.add(HeldBack((*self.members, self.double)))
        self.process.start()
        topics = self.process.topics
        assert topics is not None
        for name, partitions in {**plan.topics, **(more_topics or {})}.items():
            topics.create(name, partitions, {}, world.now_ms)
        self.producer.start(list(plan.topics), plan.records, plan.send_every_ms)
        for member in self.members:
            world.after(world.rng.randrange(0, START_WITHIN_MS), member.start)

    def endure(self, faults: Faults) -> None:
        """Inject ``faults`` for the planned time, then end them."""
        self.world.run(START_MS + self.plan.faults_ms, after_each=self.check)
        faults.calm()
        self.history.add("world", "calm")

    @property
    def settles_within_ms(self) -> int:
        """Time to settle after the faults, in ms."""
        sending_ms = max(0, self.plan.records * self.plan.send_every_ms - self.plan.faults_ms)
        return SETTLED_MS + self.plan.calm_bound_ms + sending_ms

    def run_until_settled(self, bound_ms: int) -> None:
        settled = SettledDetector(self.world, self.why_not_settled)
        self.world.run(self.world.now_ms + bound_ms, after_each=self.check, stop=settled)

    def settle_within(self, bound_ms: int) -> None:
        """Run until settled. Raises CheckFailed after ``bound_ms``."""
        self.run_until_settled(bound_ms)
        check_settled(self.why_not_settled(), bound_ms)
