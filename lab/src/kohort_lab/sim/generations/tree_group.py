"""A group of the ZooKeeper era: members that agree through a tree server, and brokers that are known there."""

from __future__ import annotations

from typing import Final

from kohort_lab.sim.checks.watcher import WatchedConsumer
from kohort_lab.sim.generations.claims import BROKERS, TOPICS
from kohort_lab.sim.generations.group_world import GROUP, NODES, TOPIC, GroupMember, GroupWorld, Setup
from kohort_lab.sim.generations.traffic import TreeTraffic
from kohort_lab.sim.generations.tree_consumer import TreeConsumer
from kohort_lab.sim.network import Network
from kohort_lab.sim.tree.host import TreeHost
from kohort_lab.sim.tree.messages import Create, Write
from kohort_lab.sim.tree.session import TreeSession

TREE: Final = ("10.2.0.1", 2181)


class TreeGroup(GroupWorld):
    """Beside the brokers there is the tree server, on a network of the same kind."""

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
        return TreeConsumer(name, self.stage, config, self._session(name), GROUP, TOPIC)

    def is_fenced(self, member: WatchedConsumer) -> bool:
        """Return False: whoever writes an offset last has written it."""
        del member
        return False

    def cut_off(self, member: GroupMember, for_ms: int) -> None:
        assert isinstance(member, TreeConsumer)
        session = member.session
        self._network.part(session, TREE)
        self.world.after(for_ms, lambda: self._network.join_again(session, TREE))

    # ------------------------------------------------------------ what brokers write into the tree

    def began(self) -> None:
        for number in range(NODES):
            self.broker_came(number)
        self._controller.start()
        self.topic_grew()

    def broker_went(self, number: int) -> None:
        self._brokers[number].end()

    def broker_came(self, number: int) -> None:
        session = self._brokers[number]
        session.start()
        session.ask(Create(f"{BROKERS}/{number}", "", ephemeral=True), lambda _: None)

    def topic_grew(self) -> None:
        self._controller.ask(Write(f"{TOPICS}/{TOPIC}", str(self.partitions)), lambda _: None)
