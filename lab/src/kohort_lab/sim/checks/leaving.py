"""Leave check: a departed member has no timer in its group."""

from __future__ import annotations

from collections.abc import Callable

from kohort.coordinator.outcome import TimerKey
from kohort.wire.messages.group_classic import LeaveGroupRequest, LeaveGroupResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

TimersOf = Callable[[str], list[TimerKey]]


class Leaving(Watcher):
    """Check at the response of each LeaveGroup."""

    def __init__(self, timers_of: TimersOf) -> None:
        self._timers_of = timers_of

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, LeaveGroupRequest) and isinstance(answer, LeaveGroupResponse):
            departed = {m.member_id for m in answer.members if not m.error_code}
            self.check_no_timers(request.group_id, departed)

    def check_no_timers(self, group_id: str, departed: set[str]) -> None:
        waits = sorted(key for key in self._timers_of(group_id) if key.member_id and key.member_id in departed)
        if waits:
            raise CheckFailed(f"{waits[0].member_id} has left, but the group still has its timer {waits[0].kind}")
