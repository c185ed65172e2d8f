"""Membership check of classic generations: each member has joined, and no generation number is used twice.

A dynamic member that misses a rebalance is removed (protocol/groups.md#rebalances); otherwise it would own partitions
without reading them. A static member may stay silent.
"""

from __future__ import annotations

from typing import Final

from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.watcher import Exchange, WatchedProcess, Watcher

OF_THE_DISK: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR}
)
"""SyncGroup error codes of a generation that could not be persisted."""
FIRST_GENERATION: Final = 1


class Joiners(Watcher):
    """JoinGroup requests in flight, generations of members, and generations that were not persisted.

    If the group ``moves`` between nodes, a former coordinator answers only NOT_COORDINATOR.
    """

    def __init__(self, life: GroupLife, *, moves: bool = False) -> None:
        self._life = life
        self._life_number = life.number
        self._refusals = OF_THE_DISK - {ErrorCode.NOT_COORDINATOR} if moves else OF_THE_DISK
        self._waiting: dict[str, set[tuple[int, int]]] = {}
        self._generations: dict[str, int] = {}
        self._dropped: set[int] = set()
        self._newest = -1

    def broker_started(self, broker: WatchedProcess) -> None:
        del broker
        self.leaders_moved()

    def leaders_moved(self) -> None:
        self._dropped.clear()  # generation ids that were not persisted may be used again

    def requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, JoinGroupRequest) and request.member_id:
            self._waiting.setdefault(request.member_id, set()).add((exchange.link_id, exchange.correlation_id))

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, JoinGroupRequest) and isinstance(answer, JoinGroupResponse):
            if not answer.error_code:
                self.check_number(answer.generation_id)
                self.check_members(answer, request.member_id)
                self._generations[answer.member_id] = answer.generation_id
            self._waiting.get(request.member_id, set()).discard((exchange.link_id, exchange.correlation_id))
        elif isinstance(request, SyncGroupRequest) and exchange.error in self._refusals:
            self._dropped.add(request.generation_id)

    def check_number(self, generation_id: int) -> None:
        """Check that no generation number is used twice, even if it was not persisted.

        A new life of the group restarts its numbers. Without a persisted generation only a decrease shows a new life.
        """
        goes_back = generation_id == FIRST_GENERATION or generation_id < self._newest
        if self._life_number != self._life.number or (goes_back and not self._life.is_written):
            self._life_number = self._life.number
            self._dropped.clear()
        self._newest = generation_id
        if generation_id in self._dropped:
            raise CheckFailed(f"generation {generation_id} could not be persisted, but a JoinGroup is answered with it")

    def check_members(self, answer: JoinGroupResponse, who: str) -> None:
        """Check the members that the leader receives."""
        for member in answer.members:
            has_generation = self._generations.get(member.member_id) == answer.generation_id
            silent = not (has_generation or self._waiting.get(member.member_id) or member.member_id == who)
            if member.group_instance_id is None and silent:
                raise CheckFailed(f"{member.member_id} is in generation {answer.generation_id} but sent no JoinGroup")
