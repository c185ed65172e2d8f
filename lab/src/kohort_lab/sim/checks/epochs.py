"""Member epochs never go back, and whoever is told that it is not counted in any more begins anew.

Judged on the wire, for members of both protocols: the generation of a classic member in a modern group is its epoch.
That of a classic group is told before it is written, and may be told again after a crash: it is left out.
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
    """What each member was told last. ``group``: as it is coordinated now, None while it is not modern; ``strangers``:
    clients who speak for others, and heed nothing."""

    def __init__(
        self, group: Callable[[], ModernGroup | None], stretches: Callable[[], int], strangers: str = ""
    ) -> None:
        self._group = group
        self._stretches = stretches
        self._strangers = strangers
        self._told: dict[tuple[int, str], int] = {}
        self._before: dict[tuple[int, str], int] = {}
        """The epoch that each member was told before that."""
        self._fenced: set[tuple[int, str]] = set()
        self.fenced = 0

    def asked(self, exchange: Exchange) -> None:
        asked = exchange.asked
        if isinstance(asked, ConsumerGroupHeartbeatRequest) and exchange.client != self._strangers:
            self.check_begins_anew(exchange, asked)

    def answered(self, exchange: Exchange) -> None:
        asked, answer = exchange.asked, exchange.answer
        if isinstance(answer, JoinGroupResponse):
            if not answer.error_code and self._group() is not None:
                self.check_goes_up(answer.member_id, answer.generation_id)
        elif isinstance(asked, ConsumerGroupHeartbeatRequest) and isinstance(answer, ConsumerGroupHeartbeatResponse):
            if not answer.error_code and answer.member_epoch > JOINING_EPOCH:
                if exchange.client != self._strangers or not self._is_guessed(asked):
                    self.check_was_told(asked.member_id, asked.member_epoch)
                self.check_goes_up(answer.member_id or asked.member_id, answer.member_epoch)
            elif exchange.error in FENCING and asked.member_epoch > JOINING_EPOCH:
                self._fenced.add((exchange.link_id, asked.member_id))
                self.fenced += 1

    def _is_guessed(self, asked: ConsumerGroupHeartbeatRequest) -> bool:
        """Tell whether a stranger named the epoch that the member has, though the answer that told of it was lost."""
        group = self._group()
        member = None if group is None else group.members.get(asked.member_id)
        return member is not None and member.current.epoch == asked.member_epoch

    def check_goes_up(self, member_id: str, epoch: int) -> None:
        """Check that a member is told no epoch below an earlier one, in one stretch of the group's life."""
        stretch = self._stretches()
        last = self._told.get((stretch, member_id), epoch)
        if epoch < last:
            raise CheckFailed(f"{member_id} is told epoch {epoch} after {last}")
        if epoch > last:
            self._before[stretch, member_id] = last
        self._told[stretch, member_id] = epoch

    def check_was_told(self, member_id: str, epoch: int) -> None:
        """Check that no heartbeat is taken with an epoch that its member was not told yet, or before the last two."""
        stretch = self._stretches()
        last, before = self._told.get((stretch, member_id)), self._before.get((stretch, member_id), 0)
        if last is not None and epoch > last:
            raise CheckFailed(f"a heartbeat of {member_id} with epoch {epoch} is taken, which was told {last}")
        if last is not None and JOINING_EPOCH < epoch < before:
            raise CheckFailed(
                f"a heartbeat of {member_id} with epoch {epoch} is taken, which was told {before}, {last}"
            )

    def check_nobody_fenced(self) -> None:
        """Check that nobody was fenced in a run in which nothing went wrong."""
        if self.fenced:
            raise CheckFailed(
                f"{self.fenced} heartbeats were refused as those of fenced members, and nothing went wrong"
            )

    def check_begins_anew(self, exchange: Exchange, asked: ConsumerGroupHeartbeatRequest) -> None:
        """Check that whoever was fenced joins again, or says goodbye: one heartbeat at a time goes over one link."""
        if asked.member_epoch <= JOINING_EPOCH:
            self._fenced.discard((exchange.link_id, asked.member_id))
        elif (exchange.link_id, asked.member_id) in self._fenced:
            raise CheckFailed(f"{exchange.client} was told that it is fenced, and goes on with {asked.member_epoch}")
