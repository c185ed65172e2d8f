"""Partition assignment of a ZooKeeper-era consumer: each member claims its partitions in the tree.

Kafka 0.7 and 0.8, the high-level consumer, by its published design ("Distribution" in the documentation of 0.8) and
in the order of its code. A member is an ephemeral node under ``/consumers/GROUP/ids``. After any watch event (on
members, brokers or a topic) every member runs the same steps:

    read members, brokers, partitions   stop reading, commit   remove own owner nodes   compute the range
    read offsets   claim: one ephemeral owner node per partition   on a conflict: release all, wait, retry

A claim is retried ``rebalance.max.retries`` times, ``rebalance.backoff.ms`` apart; then the member has no partitions
until the next watch event. Owner nodes end with the session, not with the process. Assignments have no number, so no
commit is ever rejected.

The rebalance is a generator: it yields effects and receives their results. It reads no clock and sends nothing.
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
    """Stop the fetchers; the result is the position of each owned partition."""


@dataclass(frozen=True, slots=True)
class StartReading:
    """Own these partitions from these offsets; None: the start offset of a new group."""

    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait for a time and a number of round trips."""

    for_ms: int = 0
    round_trips: int = 0


Effect = TreeRequest | StopReading | StartReading | Sleep
Rebalancing = Generator[Effect, Any, bool]


@dataclass(slots=True)
class OwnerClaims:
    """One member: identity, subscription, claimed partitions."""

    group_id: str
    member_id: str
    topic: str
    max_retries: int = 4
    backoff_ms: int = 2_000
    owned: list[TopicPartition] = field(default_factory=list)

    @property
    def members_path(self) -> str:
        """Path of the group's members."""
        return f"/consumers/{self.group_id}/ids"

    @property
    def registration(self) -> Create:
        """Request that registers the member."""
        return Create(f"{self.members_path}/{self.member_id}", self.topic, ephemeral=True)

    def owner_path(self, partition: TopicPartition) -> str:
        return f"/consumers/{self.group_id}/owners/{partition.topic}/{partition.partition}"

    def offset_path(self, partition: TopicPartition) -> str:
        return f"/consumers/{self.group_id}/offsets/{partition.topic}/{partition.partition}"

    def forget(self) -> None:
        """Drop all claims after a session expiry; the owner nodes are gone."""
        self.owned = []

    def rebalance(self) -> Rebalancing:
        """Claim a share of the partitions; return False after the last failed attempt."""
        for _ in range(self.max_retries):
            if (yield from self._attempt()):
                return True
            yield from self._stop_and_commit()
            yield Sleep(self.backoff_ms)
        return False

    def commit(self, positions: Mapping[TopicPartition, int]) -> Generator[Effect, Any, None]:
        """Write offsets one by one, without an ownership check."""
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
            return False  # its registration is in flight, or expired
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
        """Claim all partitions, or none. An own owner node is a claim whose response was lost."""
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
    """Return one member's range of a topic's partitions; the first members get one more."""
    at, (share, more) = members.index(member_id), divmod(partitions, len(members))
    first = share * at + min(at, more)
    return [TopicPartition(topic, number) for number in range(first, first + share + (at < more))]
