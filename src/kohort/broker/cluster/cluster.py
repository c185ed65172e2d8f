"""Nodes of one process over one storage: live nodes, partition leaders, messages between nodes.

All nodes share the topics and logs; each node reads and appends to the partitions that it leads. Leaders are stored in
a file, and each change begins a leader epoch. A single node leads all partitions and stores none of this.

A node never changes the state of another node, but sends messages to its inbox, which that node reads before its next
event. So a replaced leader decides nothing more, and no record is added to a log while its new leader loads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from kohort.broker.cluster.access_control import AccessControl
from kohort.broker.cluster.nodes import AdvertisedNode, BrokerOptionsChanged, LeadersMoved, NodeMessage
from kohort.broker.cluster.placement import (
    NO_LEADER,
    Placement,
    completed,
    elect,
    load_placements,
    save_placements,
    spread,
)
from kohort.broker.cluster.security_store import SecurityStore, StoredQuotas
from kohort.broker.cluster.stored_options import ALL, StoredBrokerOptions, StoredGroupOptions, StoredSubscriptions
from kohort.broker.cluster.transactions import TransactionCoordinator
from kohort.broker.first_fetches import FirstFetches
from kohort.clock import Rng
from kohort.config.broker import BrokerConfig
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.catalogue import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.log.storage import Storage
from kohort.log.topics import Topic, Topics
from kohort.notes import warning
from kohort.steps import Steps

JOURNAL_REPLICAS: Final = 3
"""Replication factor of the topic ``__kohort_journal``, or the number of nodes if lower."""


class Cluster:
    """State that all nodes of one process share."""

    def __init__(
        self, config: BrokerConfig, storage: Storage, rng: Rng, now_ms: int, nodes: Sequence[AdvertisedNode] = ()
    ) -> None:
        """Recover the logs of the storage. All ``nodes`` are down until the call of ``nodes_are_up``.

        Without ``nodes``: a single broker, which is up at once.
        """
        self._storage = storage
        self._config = config
        self._rng = rng
        self.topics = Topics(storage, config, rng, now_ms)
        self.wall = self.topics.wall
        self.security = SecurityStore(storage)
        self.access = AccessControl(config, self.security) if config.authorizer_class_name else None
        self.quotas = StoredQuotas(self.security)
        self.group_options = StoredGroupOptions(storage)
        self.subscriptions = StoredSubscriptions(config, storage)
        self.first_fetches = FirstFetches(self.topics)
        self.nodes: dict[int, AdvertisedNode] = {node.node_id: node for node in nodes}
        self.live: set[int] = set()
        self.wanted: set[int] = set(self.nodes)
        """Ids of the nodes that the server keeps running."""
        self.broker_options = StoredBrokerOptions(storage)
        self.is_alone = not nodes
        self._only: int | None = None
        self._inboxes: dict[int, deque[NodeMessage]] = {node: deque() for node in self.nodes}
        partitions = load_placements(storage, self.nodes) if nodes else {}
        self._placements: dict[bytes, list[Placement]] = {
            topic.topic_id: partitions[topic.topic_id][: len(topic.partitions)]
            for topic in self.topics
            if topic.topic_id in partitions
        }
        self._unwritten = False
        """True if the last write of the placements (``kohort-cluster.json``) failed."""
        self.transactions = TransactionCoordinator(config, self.topics, self.placements, self.tell, now_ms)

    def reconfigure(self) -> Steps[None]:
        """Apply changed broker options to the logs and to all nodes.

        Several nodes share their logs, so only the default options of all nodes apply to the logs.
        """
        self.tell(BrokerOptionsChanged())
        name = ALL if self._only is None else str(self._only)
        yield from self.topics.reconfigure(self.broker_options.in_force(self._config, name))

    # ---------------------------------------------------------------- nodes

    def add_only(self, node: AdvertisedNode) -> None:
        assert self.is_alone, "only a single broker gets its node after the cluster was made"
        self.nodes = {node.node_id: node}
        self._only = node.node_id
        self.live = self.wanted = {node.node_id}
        self._inboxes = {node.node_id: deque()}

    @property
    def controller_id(self) -> int:
        return min(self.live, default=NO_LEADER)

    def live_at(self, listener: str) -> set[int]:
        return {node_id for node_id in self.live if listener in self.nodes[node_id].at}

    def inbox(self, node_id: int) -> deque[NodeMessage]:
        return self._inboxes[node_id]

    @property
    def has_messages(self) -> bool:
        return any(self._inboxes[node_id] for node_id in self.live)

    def tell(self, message: NodeMessage) -> None:
        for node_id in self.live:
            self._inboxes[node_id].append(message)

    def notify_node(self, node_id: int, message: NodeMessage) -> None:
        if node_id in self.live:
            self._inboxes[node_id].append(message)

    def want(self, node_id: int, *, up: bool) -> None:
        """Start or stop a node. Raises ApiError for an unknown node, and for stopping the last running node."""
        if node_id not in self.nodes:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"unknown node {node_id}, expected {sorted(self.nodes)}")
        if up:
            self.wanted.add(node_id)
        elif self.wanted == {node_id}:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"node {node_id} is the last running node: stop the broker process instead",
            )
        else:
            self.wanted.discard(node_id)
            self.node_is_down(node_id)

    def nodes_are_up(self, node_ids: Iterable[int]) -> None:
        for node_id in node_ids:
            self._inboxes[node_id].clear()
            self.live.add(node_id)
        self._complete_reassignments()

    def node_is_down(self, node_id: int) -> None:
        """Elect new leaders for the partitions that a stopped node leads."""
        self.live.discard(node_id)
        self._inboxes[node_id].clear()
        self._complete_reassignments()

    def _complete_reassignments(self) -> None:
        """Complete pending reassignments and elect leaders, even if the write fails: a restart repeats them."""
        if self.is_alone:
            return
        changes = [
            (topic, index, completed(placement, self.live))
            for topic in self.topics
            for index, placement in enumerate(self._placements.get(topic.topic_id, []))
        ]
        self._change(changes, needs_disk=False)

    # ---------------------------------------------------------------- partitions

    def placements(self, topic: Topic) -> Sequence[Placement]:
        """Return replicas and leaders of a topic's partitions; place partitions that have none yet."""
        if self._only is not None:
            return [Placement([self._only], self._only)] * len(topic.partitions)
        known = self._placements.get(topic.topic_id, [])
        if len(known) < len(topic.partitions):
            self.place_new([topic])
            known = self._placements[topic.topic_id]
        return known

    def placement(self, topic: Topic, index: int) -> Placement:
        if self._only is not None:
            return Placement([self._only], self._only)
        return self.placements(topic)[index]

    def leader_of(self, topic: Topic, index: int) -> int:
        if self._only is not None:
            return self._only
        return self.placements(topic)[index].leader

    def has_place(self, topic: Topic, index: int) -> bool:
        """Return True if the replicas and leader of a partition are stored.

        After a failed write, the partition's next leader lookup writes again and notifies all nodes (LeadersMoved).
        """
        return self._only is not None or index < len(self._placements.get(topic.topic_id, []))

    def _usual_replicas(self, topic: Topic) -> int:
        config = self._config
        usual = JOURNAL_REPLICAS if topic.internal else config.default_replication_factor
        own = {
            OFFSETS_TOPIC: config.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: config.transaction_state_log_replication_factor,
        }
        return min(own.get(topic.name, usual), len(self.nodes))

    def check_replication(self, factor: int) -> int:
        """Return the replication factor of a new topic; -1 becomes the default. Raises ApiError."""
        factor = min(self._config.default_replication_factor, len(self.nodes)) if factor == -1 else factor
        if not 1 <= factor <= len(self.live):
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"replication factor {factor} is invalid with {len(self.live)} live nodes",
            )
        return factor

    def check_assignment(self, replicas: Sequence[int]) -> None:
        if not replicas or len(set(replicas)) < len(replicas) or any(node not in self.nodes for node in replicas):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(replicas)}: expected different nodes of {sorted(self.nodes)}",
            )

    def place_all(self, wanted: Sequence[tuple[Topic, int, Sequence[Sequence[int]]]]) -> None:
        """Choose and store the replicas of new partitions.

        ``wanted``: for each topic its replication factor, and the manual assignments of its partitions.
        Partitions without assignment are spread over the live nodes.
        """
        if self.is_alone or not wanted:
            return
        made = {topic.topic_id: self._placed(topic, factor, named) for topic, factor, named in wanted}
        self._save({**self._placements, **made})
        moved = ((topic_id, index) for topic_id, placed in made.items() for index in range(len(placed)))
        self.tell(LeadersMoved(tuple(moved)))

    def place_new(self, topics: Sequence[Topic]) -> None:
        self.place_all([(topic, self._usual_replicas(topic), ()) for topic in topics])

    def _placed(self, topic: Topic, factor: int, assignments: Sequence[Sequence[int]]) -> list[Placement]:
        nodes = sorted(self.live) if len(self.live) >= factor else sorted(self.nodes)
        first = self._rng.randrange(0, len(nodes))
        made = list(self._placements.get(topic.topic_id, []))
        for index in range(len(made), len(topic.partitions)):
            replicas = list(assignments[index]) if index < len(assignments) else spread(nodes, first + index, factor)
            placement = Placement(replicas)
            placement.leader = elect(placement, self.live)
            made.append(placement)
        return made

    def lead(self, topic: Topic, index: int, node_id: int) -> None:
        """Make a live node the preferred leader of a partition. Raises ApiError if the node is down."""
        if node_id not in self.live:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"node {node_id} is not up, expected one of {sorted(self.live)}"
            )
        others = [node for node in self.placement(topic, index).replicas if node != node_id]
        self.change_all([(topic, index, Placement([node_id, *others], node_id))])

    def change_all(self, changes: Sequence[tuple[Topic, int, Placement]]) -> None:
        """Change replicas and leaders of several partitions with one write: all of them, or none."""
        if not self.is_alone and changes:
            self._change(changes)

    def _change(self, changes: Iterable[tuple[Topic, int, Placement]], *, needs_disk: bool = True) -> None:
        """Store changed replicas and leaders; start a leader epoch for each new leader.

        If the write fails, the previous leader stays and must use the new epoch, so the nodes are notified, too.
        """
        placements = {topic_id: list(partitions) for topic_id, partitions in self._placements.items()}
        moved = []
        try:
            for topic, index, placement in changes:
                made = replace(placement, leader=elect(placement, self.live))
                if made.leader != placements[topic.topic_id][index].leader:
                    moved.append((topic.topic_id, index))
                    if made.leader != NO_LEADER:
                        self._begin_epoch(topic, index, needs_disk=needs_disk)
                placements[topic.topic_id][index] = made
            self._save(placements, needs_disk=needs_disk)
        finally:
            if moved:
                self.tell(LeadersMoved(tuple(moved)))

    def _begin_epoch(self, topic: Topic, index: int, *, needs_disk: bool) -> None:
        try:
            topic.partitions[index].begin_leader_epoch()
        except ApiError:
            if needs_disk:
                raise

    def _save(self, placements: dict[bytes, list[Placement]], *, needs_disk: bool = True) -> None:
        """Store replicas and leaders of all partitions. Raises ApiError if ``needs_disk`` and the write fails."""
        kept = {topic_id: placed for topic_id, placed in placements.items() if self.topics.by_id(topic_id) is not None}
        if kept == self._placements and not self._unwritten:
            return
        try:
            save_placements(self._storage, kept)
            self._unwritten = False
        except StorageError as error:
            self.topics.report(warning(f"leaders and replicas cannot be stored: {error}", "placements"))
            if needs_disk:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            self._unwritten = True
        self._placements = kept

    def close(self) -> list[str]:
        return self.topics.close()


class ClusterNode(NamedTuple):
    cluster: Cluster
    node_id: int
