"""A member that has settled hands out all that it owns: nothing stays held back that was once to be given up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kohort.model import TopicPartition
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher


class Reader(Protocol):
    """A member as this check sees it."""

    name: str

    @property
    def is_settled(self) -> bool:
        """Whether it owns what the group agreed on, and knows of no more to come."""

    @property
    def held_back(self) -> set[TopicPartition]:
        """What it owns and hands out nothing of, as it is to go."""


class HeldBack(Watcher):
    """Looks at the member behind each heartbeat. A rebalance of before the calm often ends what is wrong here, and
    a partition that is somebody else's by then is read again."""

    def __init__(self, members: Iterable[Reader]) -> None:
        self._members = {member.name: member for member in members}

    def asked(self, exchange: Exchange) -> None:
        member = self._members.get(exchange.client)
        if member is not None and isinstance(exchange.asked, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
            self.check_reads(member)

    def check_reads(self, member: Reader) -> None:
        """Check that a member which gives up nothing holds nothing back."""
        if member.is_settled and (held_back := member.held_back):
            names = ", ".join(map(str, sorted(held_back)))
            raise CheckFailed(f"{member.name} gives up nothing, and hands out nothing of {names}, which it owns")
