"""Delivery check of settled members: no owned partition stays paused for a revocation that does not happen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kohort.model import TopicPartition
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.watcher import Exchange, Watcher


class Reader(Protocol):
    """Member as this check sees it."""

    name: str

    @property
    def is_settled(self) -> bool:
        """True if the member owns its full assignment and no rebalance is pending."""

    @property
    def withheld(self) -> set[TopicPartition]:
        """Owned partitions without delivery, because their revocation is pending."""


class HeldBack(Watcher):
    """Check at each heartbeat in the calm phase.

    A rebalance before the calm often repairs the fault: a partition that another member owns since then is delivered.
    """

    def __init__(self, members: Iterable[Reader]) -> None:
        self._members = {member.name: member for member in members}

    def requested(self, exchange: Exchange) -> None:
        member = self._members.get(exchange.client)
        if member is not None and isinstance(exchange.request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
            self.check_reads(member)

    def check_reads(self, member: Reader) -> None:
        """Check that a member without pending revocation delivers all owned partitions."""
        if member.is_settled and (withheld := member.withheld):
            names = ", ".join(map(str, sorted(withheld)))
            raise CheckFailed(f"{member.name} has no revocation in flight, but does not deliver its partitions {names}")
