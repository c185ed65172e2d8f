"""A member that was replaced, has left or was left behind is refused, and does not count any more.

Judged on the wire alone, by what members were told. What the broker told may be taken back by a crash, or by a disk
that refuses: then the check begins anew.
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
    """One group's latest generation, who has left, and who speaks for each instance id.

    ``refusals`` counts the writes that the broker's disk has refused so far. Within one ``life`` of the group its
    generations only go up, and nobody of an earlier life is a member.
    """

    def __init__(self, refusals: Callable[[], int], life: GroupLife) -> None:
        self._life = life
        self._seen_life = life.number
        self._refusals = refusals
        self._seen_refusals = 0
        self._begin()

    def _begin(self) -> None:
        self._told = -1
        self._left: set[str] = set()
        self._speaks_for: dict[str, str] = {}

    def broker_started(self, broker: WatchedProcess) -> None:
        del broker
        self._begin()

    def leaders_moved(self) -> None:
        self._begin()

    def answered(self, exchange: Exchange) -> None:
        if self._seen_refusals != self._refusals():
            self._seen_refusals = self._refusals()
            self._begin()
        if self._seen_life != self._life.number:
            self._seen_life = self._life.number
            self._begin()
        asked, answer = exchange.asked, exchange.answer
        if isinstance(asked, JoinGroupRequest) and isinstance(answer, JoinGroupResponse):
            self._joined(asked, answer)
        elif isinstance(asked, LeaveGroupRequest) and isinstance(answer, LeaveGroupResponse):
            self._left |= {m.member_id for m in answer.members if not m.error_code and m.member_id}
        elif isinstance(asked, HeartbeatRequest):
            if exchange.error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
                self.check_member("heartbeat", asked.member_id, asked.group_instance_id, asked.generation_id)
        elif isinstance(asked, SyncGroupRequest):
            if exchange.error is ErrorCode.NONE:
                self.check_member("SyncGroup", asked.member_id, asked.group_instance_id, asked.generation_id)
        elif isinstance(asked, OffsetCommitRequest) and isinstance(answer, OffsetCommitResponse):
            self._offsets_committed(asked, answer)

    def _joined(self, asked: JoinGroupRequest, answer: JoinGroupResponse) -> None:
        if answer.error_code:
            return
        self.check_goes_up(answer.generation_id)
        self.check_leader_sees(answer)
        self._told = max(self._told, answer.generation_id)
        if asked.group_instance_id is not None:
            self._speaks_for[asked.group_instance_id] = answer.member_id

    def _offsets_committed(self, asked: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if ErrorCode.NONE in codes and asked.generation_id_or_member_epoch >= 0:
            generation_id = asked.generation_id_or_member_epoch
            self.check_member("commit", asked.member_id, asked.group_instance_id, generation_id)

    def check_goes_up(self, generation_id: int) -> None:
        """Check that a group that was not forgotten does not count from 1 again."""
        if generation_id < self._told:
            raise CheckFailed(
                f"a JoinGroup is answered with generation {generation_id} after {self._told}, and the log does not say "
                "that the group was forgotten"
            )

    def check_leader_sees(self, answer: JoinGroupResponse) -> None:
        """Check that the leader shares among members, not among those who have left."""
        gone = sorted(m.member_id for m in answer.members if m.member_id in self._left)
        if gone:
            raise CheckFailed(f"the leader of generation {answer.generation_id} is told of {gone}, who have left")

    def check_member(self, what: str, member_id: str, instance_id: str | None, generation_id: int) -> None:
        """Check that nothing of a fenced member is accepted."""
        if generation_id < self._told:
            raise CheckFailed(f"a {what} of generation {generation_id} is accepted; members know of {self._told}")
        if member_id in self._left:
            raise CheckFailed(f"a {what} of {member_id} is accepted, which has left")
        if UNKNOWN < self._life.of(member_id) < self._seen_life:
            raise CheckFailed(f"a {what} of {member_id} is accepted, a member of the group before it was forgotten")
        speaker = self._speaks_for.get(instance_id or "", member_id)
        if speaker != member_id:
            raise CheckFailed(f"a {what} of {member_id} is accepted, but {speaker} has its instance id {instance_id}")
