"""Catalogue of group generations: broker-coordinated groups, and groups of the ZooKeeper era."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kohort.client.group.commits import Offsets
from kohort.client.requests.source import Promise
from kohort_lab.sim.actors.consumers import ConsumerActor
from kohort_lab.sim.checks.watcher import WatchedConsumer
from kohort_lab.sim.generations.claims import BROKERS, TOPICS
from kohort_lab.sim.generations.group_world import GROUP, NODES, TOPIC, GroupMember, GroupWorld, Setup
from kohort_lab.sim.generations.traffic import TreeTraffic
from kohort_lab.sim.generations.tree_consumer import TreeConsumer
from kohort_lab.sim.network import Network
from kohort_lab.sim.tree.host import TreeHost
from kohort_lab.sim.tree.messages import Create, Write
from kohort_lab.sim.tree.session import TreeSession

SESSIONS: Final = frozenset({"session", "member_session"})
"""Timers of each member that the coordinator knows."""


class LeavingConsumer(ConsumerActor):
    """Consumer that commits before it leaves, like one with auto commit."""

    _last: Promise[Offsets] | None = None

    def leave(self) -> None:
        if self.machine is None or self.frozen or self._last is not None:
            return
        self._life += 1  # ends the user's polls
        self._polling = False
        self._last = self.machine.commit(None, None)
        self.step_soon()

    def after_step(self) -> None:
        super().after_step()
        if self._last is not None and self._last.done:
            self._last = None
            super().leave()

    def kill(self, why: str) -> None:
        self._last = None
        super().kill(why)


class BrokerGroup(GroupWorld):
    """World of a broker-coordinated group; ``options``: consumer options of the generation."""

    def __init__(self, setup: Setup, **options: Any) -> None:
        self._options = options
        super().__init__(setup)

    def make_member(self, name: str) -> LeavingConsumer:
        config = self.consumer_config(name, group_id=GROUP, **self._options)
        return LeavingConsumer(name, self.context, config, [TOPIC])

    def is_fenced(self, member: WatchedConsumer) -> bool:
        """Return True if the coordinator has removed the member, and so rejects its commits."""
        broker = self.coordinator
        if broker is None:
            return False
        member_ids = {key.member_id for key in broker.state.coordinator.timers_of(GROUP) if key.kind in SESSIONS}
        return member.member_id not in member_ids

    def cut_off(self, member: GroupMember, for_ms: int) -> None:
        assert isinstance(member, LeavingConsumer)
        network, address = self.context.network, self.address(self.coordinator_node)
        network.part(member, address)
        self.world.after(for_ms, lambda: network.join_again(member, address))


TREE: Final = ("10.2.0.1", 2181)


class TreeGroup(GroupWorld):
    """World of a ZooKeeper-era group, with a tree server on its own simulated network."""

    def __init__(self, setup: Setup) -> None:
        self._tree_network: Network | None = None
        super().__init__(setup)
        self.tree = TreeHost(self.world, self._network, TREE)
        self._brokers = [self._session(f"broker {number}") for number in range(NODES)]
        self._controller = self._session("controller")

    @property
    def _network(self) -> Network:
        if self._tree_network is None:
            self._tree_network = Network(self.world, TreeTraffic(self.traffic), self.setup.delay_ms)
        return self._tree_network

    def _session(self, name: str) -> TreeSession:
        return TreeSession(name, self.world, self._network, TREE, self.setup.session_timeout_ms)

    def make_member(self, name: str) -> TreeConsumer:
        config = self.consumer_config(name)
        return TreeConsumer(name, self.context, config, self._session(name), GROUP, TOPIC)

    def is_fenced(self, member: WatchedConsumer) -> bool:
        """Return False: every offset write succeeds."""
        del member
        return False

    def cut_off(self, member: GroupMember, for_ms: int) -> None:
        assert isinstance(member, TreeConsumer)
        session = member.session
        self._network.part(session, TREE)
        self.world.after(for_ms, lambda: self._network.join_again(session, TREE))

    def began(self) -> None:
        for number in range(NODES):
            self.broker_returned(number)
        self._controller.start()
        self.topic_grew()

    def broker_stopped(self, number: int) -> None:
        self._brokers[number].end()

    def broker_returned(self, number: int) -> None:
        session = self._brokers[number]
        session.start()
        session.ask(Create(f"{BROKERS}/{number}", "", ephemeral=True), lambda _: None)

    def topic_grew(self) -> None:
        self._controller.ask(Write(f"{TOPICS}/{TOPIC}", str(self.partitions)), lambda _: None)


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """Protocol by which a group assigns partitions."""

    name: str
    since: str
    """First Kafka version."""
    what: str
    world: Callable[[Setup], GroupWorld]


GENERATIONS: Final = {
    generation.name: generation
    for generation in (
        GroupGeneration("zookeeper", "0.7", "every member claims its share in ZooKeeper by itself", TreeGroup),
        GroupGeneration(
            "eager",
            "0.9",
            "a coordinator on a broker; all give up everything, one member assigns",
            partial(BrokerGroup, partition_assignment_strategy=["range"]),
        ),
        GroupGeneration(
            "cooperative",
            "2.4",
            "the same, but members keep what does not move (KIP-429)",
            partial(BrokerGroup, partition_assignment_strategy=["cooperative-sticky"]),
        ),
        GroupGeneration(
            "consumer",
            "4.0",
            "the coordinator assigns, and tells each member alone (KIP-848)",
            partial(BrokerGroup, group_protocol="consumer"),
        ),
    )
}
