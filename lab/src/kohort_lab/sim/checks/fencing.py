"""Fencing check of classic groups: requests of replaced, departed or outdated members fail.

It uses only responses on the wire. A crash or a disk error may revert them; the check resets then.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.life import UNKNOWN, GroupLife
from kohort_lab.sim.checks.watcher import Exchange, WatchedProcess, Watcher


class Fencing(Watcher):
    """Latest generation of one group, its departed members, and the member of each instance id.

    ``refusals``: number of disk errors so far. Generations only increase within one ``life`` of the group; no member of
    an earlier life remains.
    """

    def __init__(self, refusals: Callable[[], int], life: GroupLife) -> None:
        self._life = life
        self._life_number = life.number
        self._refusals = refusals
        self._refusal_count = 0
        self._begin()

    def _begin(self) -> None:
        self._generation = -1
        self._departed: set[str] = set()
        self._speaks_for: dict[str, str] = {}

    def broker_started(self, broker: WatchedProcess) -> None:
        del broker
        self._begin()

    def leaders_moved(self) -> None:
        self._begin()

    def answered(self, exchange: Exchange) -> None:
        if self._refusal_count != self._refusals():
            self._refusal_count = self._refusals()
            self._begin()
        if self._life_number != self._life.number:
            self._life_number = self._life.number
            self._begin()
        request, answer = exchange.request, exchange.answer
        if isinstance(request, JoinGroupRequest) and isinstance(answer, JoinGroupResponse):
            self._joined(request, answer)
        elif isinstance(request, LeaveGroupRequest) and isinstance(answer, LeaveGroupResponse):
            self._departed |= {m.member_id for m in answer.members if not m.error_code and m.member_id}
        elif isinstance(request, HeartbeatRequest):
            if exchange.error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.check_member("heartbeat", request.member_id, request.group_instance_id, request.generation_id)
        elif isinstance(request, SyncGroupRequest):
            if exchange.error is ErrorCode.NONE:
                self.check_member("SyncGroup", request.member_id, request.group_instance_id, request.generation_id)
        elif isinstance(request, OffsetCommitRequest) and isinstance(answer, OffsetCommitResponse):
            self._offsets_committed(request, answer)

    def _joined(self, request: JoinGroupRequest, answer: JoinGroupResponse) -> None:
        if answer.error_code:
            return
        self.check_goes_up(answer.generation_id)
        self.check_leader_sees(answer)
        self._generation = max(self._generation, answer.generation_id)
        if request.group_instance_id is not None:
            self._speaks_for[request.group_instance_id] = answer.member_id

    def _offsets_committed(self, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if ErrorCode.NONE in codes and request.generation_id_or_member_epoch >= 0:
            generation_id = request.generation_id_or_member_epoch
            self.check_member("commit", request.member_id, request.group_instance_id, generation_id)

    def check_goes_up(self, generation_id: int) -> None:
        """Check that generations do not restart unless the group was deleted."""
        if generation_id < self._generation:
            raise CheckFailed(
                f"a JoinGroup is answered with generation {generation_id} after {self._generation}, "
                "but the log has no tombstone of the group"
            )

    def check_leader_sees(self, answer: JoinGroupResponse) -> None:
        """Check that the leader receives no departed members."""
        departed = sorted(m.member_id for m in answer.members if m.member_id in self._departed)
        if departed:
            raise CheckFailed(
                f"the leader of generation {answer.generation_id} receives the departed members {departed}"
            )

    def check_member(self, what: str, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Check that requests of fenced members fail."""
        if generation_id < self._generation:
            raise CheckFailed(
                f"a {what} of generation {generation_id} succeeds; the current generation is {self._generation}"
            )
        if member_id in self._departed:
            raise CheckFailed(f"a {what} of {member_id} succeeds after its leave")
        if UNKNOWN < self._life.of(member_id) < self._life_number:
            raise CheckFailed(f"a {what} of {member_id} succeeds; its group was deleted since it joined")
        speaker = self._speaks_for.get(instance_id or "", member_id)
        if speaker != member_id:
            raise CheckFailed(f"a {what} of {member_id} succeeds, but {speaker} has its instance id {instance_id}")
