"""World of one group on three brokers; a subclass adds the generation's membership protocol.

Topics, producer, network, fetching clients, sizes and times are the same for all generations of a seed. The subclass
creates members and cuts a member off from its coordinator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Protocol

from kohort.broker.broker import Broker
from kohort.broker.offsets_topic import NAME as OFFSETS_TOPIC
from kohort.client.admin.topics import create_partitions
from kohort.config.broker import BrokerConfig
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.coordinator.records import partition_of
from kohort.model import TopicPartition
from kohort_lab.sim.actors.admins import AdminActor
from kohort_lab.sim.actors.clients import ProducerActor
from kohort_lab.sim.actors.nodes import ClusterActor
from kohort_lab.sim.checks.watcher import WatchedConsumer
from kohort_lab.sim.generations.holdings import Holdings
from kohort_lab.sim.generations.traffic import CONSUMER_GROUP_HEARTBEAT, Traffic
from kohort_lab.sim.network import Address
from kohort_lab.sim.run_context import RunContext
from kohort_lab.sim.world import World

GROUP: Final = "g"
TOPIC: Final = "t"
NODES: Final = 3
PORT: Final = 9092
SERVERS: Final = [f"10.1.0.{number}:{PORT}" for number in range(NODES)]
EVENTS_MAX: Final = 1_000_000_000
MOMENT_MAX: Final = 10_000_000
RECORDS_MAX: Final = 1_000_000_000
START_WITHIN_MS: Final = 2_000
LOOK_EVERY_MS: Final = 500
QUIET_MS: Final = 8_000
"""Time without ownership changes before a group counts as settled; longer than back-offs and heartbeats."""
AWAY_MS: Final = 15_000
"""Absence of a stopped broker, in ms."""
LARGE: Final = 100
FETCH_WAIT_MS: Final = (500, 2_000)
"""Fetch wait in ms: in a group, and in a group of ``LARGE`` or more members to limit requests."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Setup of a run, the same for every generation; times in ms."""

    seed: int
    members: int
    partitions: int
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 2_000
    auto_commit_interval_ms: int = 5_000
    delay_ms: tuple[int, int] = (1, 10)
    """Range of the network delay, in ms."""
    record_every_ms: int = 100


class GroupMember(WatchedConsumer, Protocol):
    """Member as a change sees it."""

    def start(self) -> None: ...
    def kill(self, why: str) -> None: ...
    def leave(self) -> None: ...
    def freeze(self, for_ms: int) -> None: ...


class GroupWorld(ABC):
    """World of one generation; call ``begin`` first."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        world = World(setup.seed, events_max=EVENTS_MAX, moment_max=MOMENT_MAX)
        self.context = RunContext(setup.seed, setup.delay_ms, world=world)
        self.world = world
        self.cluster = ClusterActor(
            self.context, [_node_config(setup, number) for number in range(NODES)], checked=False
        )
        self.producer = ProducerActor("producer", self.context, ProducerConfig(bootstrap_servers=SERVERS))
        self.admin = AdminActor(self.context, AdminConfig(bootstrap_servers=SERVERS), GROUP, widens=True)
        self.traffic = Traffic()
        self.context.tap.decode_also(CONSUMER_GROUP_HEARTBEAT)
        self.holdings = Holdings(world, self.is_fenced)
        self.context.checks.add(self.traffic)
        self.context.checks.add(self.holdings)
        self.partitions = setup.partitions
        self.members: list[GroupMember] = [self._next_member(number) for number in range(setup.members)]

    @abstractmethod
    def make_member(self, name: str) -> GroupMember:
        """Create a member that is not started."""

    @abstractmethod
    def is_fenced(self, member: WatchedConsumer) -> bool:
        """Return True if the group would reject a commit of this member."""

    @abstractmethod
    def cut_off(self, member: GroupMember, for_ms: int) -> None:
        """Cut a member off from its coordinator temporarily; other brokers stay reachable."""

    def began(self) -> None:  # noqa: B027  # a generation that keeps nothing beside the brokers adds nothing
        """Start additional servers after the brokers."""

    def broker_stopped(self, number: int) -> None:  # noqa: B027  # the same
        """Handle the stop of a broker."""

    def broker_returned(self, number: int) -> None:  # noqa: B027  # the same
        """Handle the return of a broker."""

    def topic_grew(self) -> None:  # noqa: B027  # the same
        """Handle new partitions of the topic."""

    def begin(self) -> None:
        """Start the brokers, the producer and the members."""
        self.cluster.start()
        topics = self.cluster.topics
        assert topics is not None
        topics.create(TOPIC, self.partitions, {}, self.world.now_ms)
        self.holdings.add(TopicPartition(TOPIC, number) for number in range(self.partitions))
        self.began()
        self.producer.start([TOPIC], RECORDS_MAX, self.setup.record_every_ms)
        for member in self.members:
            self.world.after(self.world.rng.randrange(START_WITHIN_MS), member.start)

    def join(self) -> None:
        """Start another member."""
        member = self._next_member(len(self.members))
        self.members.append(member)
        member.start()

    def freeze(self, member: GroupMember, for_ms: int) -> None:
        """Freeze a member's process."""
        self.holdings.sleeps(member.name)
        self.world.after(for_ms, lambda: self.holdings.wakes(member.name))
        member.freeze(for_ms)

    def move_broker(self) -> None:
        """Stop the group's coordinator for ``AWAY_MS``."""
        number = self.coordinator_node
        self.cluster.stop_node(number)
        self.broker_stopped(number)
        self.world.after(AWAY_MS, lambda: self._bring_back(number))

    def _bring_back(self, number: int) -> None:
        self.cluster.start_node(number)
        self.broker_returned(number)

    def grow(self) -> None:
        """Add one partition per four existing ones."""
        before, self.partitions = self.partitions, self.partitions + max(1, self.partitions // 4)
        total = self.partitions
        self.admin.do(
            f"widens {TOPIC} to {total}",
            lambda metadata: create_partitions(metadata, {TOPIC: total}, validate_only=False, timeout_ms=5_000),
        )
        self.holdings.add(TopicPartition(TOPIC, number) for number in range(before, total))
        self.topic_grew()

    @property
    def alive(self) -> list[GroupMember]:
        return [member for member in self.members if member.alive]

    @property
    def coordinator(self) -> Broker | None:
        """Broker that coordinates the group, or None."""
        return self.cluster.leader_of(_home_of_group())

    @property
    def coordinator_node(self) -> int:
        """Node id of the group's coordinator; 0 for none."""
        broker = self.coordinator
        return broker.node.node_id if broker is not None else 0

    def address(self, number: int) -> Address:
        return f"10.1.0.{number}", PORT

    @property
    def is_settled(self) -> bool:
        """True if each partition has had one owner for ``QUIET_MS`` and no change is pending."""
        quiet = self.world.now_ms - self.holdings.changed_ms >= QUIET_MS
        return quiet and self.holdings.is_whole and not any(member.is_rebalancing for member in self.alive)

    def run_until_settled(self, at_least_ms: int, at_most_ms: int) -> bool:
        """Run for ``at_least_ms``, then until settled; return False after ``at_most_ms``."""
        began_ms = self.world.now_ms
        self._run(at_least_ms)
        while not self.is_settled:
            if self.world.now_ms - began_ms >= at_most_ms:
                return False
            self._run(LOOK_EVERY_MS)
        return True

    def _run(self, for_ms: int) -> None:
        self.world.run(self.world.now_ms + for_ms, after_each=lambda: None)

    def _next_member(self, number: int) -> GroupMember:
        member = self.make_member(f"c{number}")
        self.traffic.members.add(member.name)
        return member

    def consumer_config(self, name: str, **own: Any) -> ConsumerConfig:
        """Return a member's options, including those of its generation."""
        setup = self.setup
        return ConsumerConfig(
            bootstrap_servers=SERVERS,
            client_id=name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=setup.auto_commit_interval_ms,
            fetch_max_wait_ms=FETCH_WAIT_MS[setup.members >= LARGE],
            metadata_max_age_ms=10_000,
            request_timeout_ms=10_000,
            session_timeout_ms=setup.session_timeout_ms,
            heartbeat_interval_ms=setup.heartbeat_interval_ms,
            max_poll_interval_ms=60_000,
            **own,
        )


def _home_of_group() -> TopicPartition:
    return TopicPartition(OFFSETS_TOPIC, partition_of(GROUP, 1))


def _node_config(setup: Setup, number: int) -> BrokerConfig:
    return BrokerConfig(
        node_id=number,
        listen_host=f"10.1.0.{number}",
        listen_port=PORT,
        default_replication_factor=NODES,
        offsets_topic_num_partitions=1,
        group_initial_rebalance_delay_ms=3_000,
        group_consumer_session_timeout_ms=setup.session_timeout_ms,
        group_consumer_min_session_timeout_ms=setup.session_timeout_ms,
        group_consumer_heartbeat_interval_ms=setup.heartbeat_interval_ms,
        group_consumer_min_heartbeat_interval_ms=setup.heartbeat_interval_ms,
        auto_create_topics_enable=False,
    )
