"""How a consumer of the ZooKeeper era takes its partitions: by itself, from what it reads in the tree.

Kafka 0.7 and 0.8, the high-level consumer, after its published design ("Distribution" in the documentation of 0.8) and
in the order of its code. A member is an ephemeral node under ``/consumers/GROUP/ids``. Whenever a watch fires, on the
members, on the brokers or on a topic, every member does the same:

    read members, brokers, partitions   stop reading, commit   remove own owner nodes   compute the range
    read offsets   claim: an ephemeral owner node each   any of them taken? give all back, wait, begin anew

A claim that fails is tried ``rebalance.max.retries`` times, ``rebalance.backoff.ms`` apart; then the member stays
without partitions until another watch fires. Nothing but the owner nodes keeps two members apart, and they go with the
session of who made them, not with its process. Nobody numbers what is agreed on, so nobody's commit is ever refused.

The rebalance is a generator: it yields what is to be done and is sent what came of it. It reads no clock and sends
nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.model import TopicPartition
from kohort_lab.sim.tree.messages import NODE_EXISTS, Create, Delete, Read, ReadEach, TreeAnswer, TreeRequest, Write

BROKERS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"


@dataclass(frozen=True, slots=True)
class StopReading:
    """Stop the fetchers. Sent back: where each partition of ours stands."""


@dataclass(frozen=True, slots=True)
class StartReading:
    """Own these partitions from now on, each from this offset on; None: from where a new group begins."""

    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for so long, and for so many round trips."""

    for_ms: int = 0
    round_trips: int = 0


Effect = TreeRequest | StopReading | StartReading | Sleep
Rebalancing = Generator[Effect, Any, bool]


@dataclass(slots=True)
class OwnerClaims:
    """One member: who it is, what it wants, and what it believes to own."""

    group_id: str
    member_id: str
    topic: str
    max_retries: int = 4
    backoff_ms: int = 2_000
    owned: list[TopicPartition] = field(default_factory=list)

    @property
    def members_path(self) -> str:
        """Where the members of the group are."""
        return f"/consumers/{self.group_id}/ids"

    @property
    def registration(self) -> Create:
        """The request that makes it a member."""
        return Create(f"{self.members_path}/{self.member_id}", self.topic, ephemeral=True)

    def owner_path(self, partition: TopicPartition) -> str:
        """Return where the owner of a partition is written."""
        return f"/consumers/{self.group_id}/owners/{partition.topic}/{partition.partition}"

    def offset_path(self, partition: TopicPartition) -> str:
        """Return where the offset of a partition is written."""
        return f"/consumers/{self.group_id}/offsets/{partition.topic}/{partition.partition}"

    def forget(self) -> None:
        """Own nothing: the session has expired, and the owner nodes went with it."""
        self.owned = []

    # ------------------------------------------------------------ the rebalance

    def rebalance(self) -> Rebalancing:
        """Take a share of the partitions; returns whether that was possible in as many attempts as there may be."""
        for _ in range(self.max_retries):
            if (yield from self._attempt()):
                return True
            yield from self._stop_and_commit()
            yield Sleep(self.backoff_ms)
        return False

    def commit(self, positions: Mapping[TopicPartition, int]) -> Generator[Effect, Any, None]:
        """Write offsets, one after the other. Nobody asks whether the member owns them still."""
        for partition, offset in positions.items():
            yield Write(self.offset_path(partition), str(offset))

    def _attempt(self) -> Rebalancing:
        members = yield from self._each(self.members_path)
        yield from self._each(BROKERS)
        topic: TreeAnswer = yield Read(f"{TOPICS}/{self.topic}", watch=True)
        yield from self._stop_and_commit()
        for partition in self.owned:
            yield Delete(self.owner_path(partition))
        self.owned = []
        if self.member_id not in members:
            return False  # its registration is on its way, or went with its session
        mine = range_of(self.member_id, sorted(members), self.topic, int(topic.data or 0))
        offsets: dict[TopicPartition, int | None] = {}
        for partition in mine:
            stored: TreeAnswer = yield Read(self.offset_path(partition))
            offsets[partition] = int(stored.data) if stored.data else None
        if not (yield from self._claim(mine)):
            return False
        self.owned = list(mine)
        yield StartReading(offsets)
        return True

    def _each(self, path: str) -> Generator[Effect, Any, dict[str, str]]:
        answer: TreeAnswer = yield ReadEach(path, watch=True)
        yield Sleep(round_trips=len(answer.children))
        return answer.children

    def _stop_and_commit(self) -> Generator[Effect, Any, None]:
        positions: dict[TopicPartition, int] = yield StopReading()
        yield from self.commit(positions)

    def _claim(self, partitions: Sequence[TopicPartition]) -> Rebalancing:
        """Claim all of them, or none. A node that holds our name already is ours: an answer was lost on its way."""
        claimed = []
        for partition in partitions:
            answer: TreeAnswer = yield Create(self.owner_path(partition), self.member_id, ephemeral=True)
            if answer.error != NODE_EXISTS or answer.data == self.member_id:
                claimed.append(partition)
        if len(claimed) == len(partitions):
            return True
        for partition in claimed:
            yield Delete(self.owner_path(partition))
        return False


def range_of(member_id: str, members: Sequence[str], topic: str, partitions: int) -> list[TopicPartition]:
    """Return the share of one member of a topic: as many in a row as all others get, the first ones one more."""
    at, (share, more) = members.index(member_id), divmod(partitions, len(members))
    first = share * at + min(at, more)
    return [TopicPartition(topic, number) for number in range(first, first + share + (at < more))]
