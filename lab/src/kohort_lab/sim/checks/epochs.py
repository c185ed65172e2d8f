"""Epoch check: member epochs never decrease, and a fenced member joins again.

It uses only the wire, for members of both protocols: in a consumer group, a classic member's generation is its epoch.
Generations of classic groups are excluded: they are sent before they are persisted, and may repeat after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kohort.coordinator.consumer.group import ModernGroup
from kohort.errors import ErrorCode
from kohort.wire.messages.group_classic import JoinGroupResponse
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher

FENCING: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class Epochs(Watcher):
    """Last epoch sent to each member.

    ``group``: current state, None unless it is a coordinated consumer group; ``strangers``: clients that forge
    requests.
    """

    def __init__(
        self, group: Callable[[], ModernGroup | None], stretches: Callable[[], int], strangers: str = ""
    ) -> None:
        self._group = group
        self._stretches = stretches
        self._strangers = strangers
        self._epochs: dict[tuple[int, str], int] = {}
        self._before: dict[tuple[int, str], int] = {}
        """Previous epoch sent to each member."""
        self._fenced: set[tuple[int, str]] = set()
        self.fenced = 0

    def requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, ConsumerGroupHeartbeatRequest) and exchange.client != self._strangers:
            self.check_rejoins(exchange, request)

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(answer, JoinGroupResponse):
            if not answer.error_code and self._group() is not None:
                self.check_goes_up(answer.member_id, answer.generation_id)
        elif isinstance(request, ConsumerGroupHeartbeatRequest) and isinstance(answer, ConsumerGroupHeartbeatResponse):
            if not answer.error_code and answer.member_epoch > JOINING_EPOCH:
                if exchange.client != self._strangers or not self._is_guessed(request):
                    self.check_epoch_was_sent(request.member_id, request.member_epoch)
                self.check_goes_up(answer.member_id or request.member_id, answer.member_epoch)
            elif exchange.error in FENCING and request.member_epoch > JOINING_EPOCH:
                self._fenced.add((exchange.link_id, request.member_id))
                self.fenced += 1

    def _is_guessed(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        """Return True if a forged request has the right epoch by chance, although its response was lost."""
        group = self._group()
        member = None if group is None else group.members.get(request.member_id)
        return member is not None and member.current.epoch == request.member_epoch

    def check_goes_up(self, member_id: str, epoch: int) -> None:
        """Check that a member's epochs do not decrease within one life of the group."""
        stretch = self._stretches()
        last = self._epochs.get((stretch, member_id), epoch)
        if epoch < last:
            raise CheckFailed(f"{member_id} receives epoch {epoch} after {last}")
        if epoch > last:
            self._before[stretch, member_id] = last
        self._epochs[stretch, member_id] = epoch

    def check_epoch_was_sent(self, member_id: str, epoch: int) -> None:
        """Check that an accepted heartbeat has one of the last two epochs sent to the member."""
        stretch = self._stretches()
        last, before = self._epochs.get((stretch, member_id)), self._before.get((stretch, member_id), 0)
        if last is not None and epoch > last:
            raise CheckFailed(f"a heartbeat of {member_id} with epoch {epoch} succeeds; the member received {last}")
        if last is not None and JOINING_EPOCH < epoch < before:
            raise CheckFailed(
                f"a heartbeat of {member_id} with epoch {epoch} succeeds; the member received {before}, {last}"
            )

    def check_no_member_fenced(self) -> None:
        """Check that a run without faults fences no member."""
        if self.fenced:
            raise CheckFailed(f"{self.fenced} heartbeats were rejected as fenced in a run without faults")

    def check_rejoins(self, exchange: Exchange, request: ConsumerGroupHeartbeatRequest) -> None:
        """Check that a fenced member joins again or leaves; its heartbeats on one link are sequential."""
        if request.member_epoch <= JOINING_EPOCH:
            self._fenced.discard((exchange.link_id, request.member_id))
        elif (exchange.link_id, request.member_id) in self._fenced:
            raise CheckFailed(f"{exchange.client} was fenced, but continues with epoch {request.member_epoch}")
