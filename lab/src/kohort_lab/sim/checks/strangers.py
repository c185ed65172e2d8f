"""Commit check: a commit from outside of the group succeeds only while the group has no members."""

from __future__ import annotations

from collections.abc import Callable

from kohort.coordinator.outcome import TimerKey
from kohort.errors import ErrorCode
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

TimersOf = Callable[[str], list[TimerKey]]


class Strangers(Watcher):
    """Check for member sessions at the response of such a commit."""

    def __init__(self, timers_of: TimersOf) -> None:
        self._timers_of = timers_of

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if not isinstance(request, OffsetCommitRequest) or not isinstance(answer, OffsetCommitResponse):
            return
        codes = {p.error_code for topic in answer.topics for p in topic.partitions}
        if request.generation_id_or_member_epoch < 0 and ErrorCode.NONE in codes:
            self.check_empty(request.group_id, exchange.client)

    def check_empty(self, group_id: str, who: str) -> None:
        members = sorted(key.member_id for key in self._timers_of(group_id) if key.kind == "session")
        if members:
            raise CheckFailed(f"a commit of {who}, not a member, succeeds; {group_id} has members: {members}")
