"""A producer that commits group offsets in transactions, in the name of members or of none."""

from __future__ import annotations

import random
from typing import Any

from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.differential.modern.both import Both
from support.differential.modern.outsider import Outsider
from support.waiting import eventually

TRANSACTION = 1
UNDER_WAY = {"PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
NEW, OLD = (5, 6), (3, 4)
"""Versions of TxnOffsetCommit: with and without the implicit AddOffsetsToTxn."""


class Transactor:
    """A transactional producer with an id and epoch of each broker."""

    def __init__(self, both: Both, outsider: Outsider, chance: random.Random) -> None:
        self.both = both
        self.outsider = outsider
        self.chance = chance
        self.id = f"tx-{both.mark}"
        self.begun: tuple[int, int] | None = None
        """Request versions of the open transaction."""
        self.is_initialized = False

    def commit(self, member_id: str, epoch: int, instance_id: str | None) -> None:
        """Commit for a member at an epoch, both possibly invalid; sometimes end the transaction."""
        if not self.is_initialized:
            self._init()
        if self.begun is None:
            self.begun = self.chance.choice((NEW, NEW, OLD))
            if self.begun is OLD:
                self._ask(AddOffsetsToTxnRequest(transactional_id=self.id, group_id=self.outsider.group), 3)
        who: dict[str, Any] = {"member_id": member_id, "generation_id": epoch, "group_instance_id": None}
        who |= self.chance.choice(
            (
                {},
                {},
                {"group_instance_id": instance_id},
                {"generation_id": epoch - 1},
                {"generation_id": epoch + 1},
                {"generation_id": -1},
                {"member_id": "", "generation_id": -1},
                {"member_id": "nobody"},
                {"group_instance_id": "i1"},
            )
        )
        topics = [
            TxnOffsetCommitRequestTopic(
                name=topic,
                topic_id=self.outsider.id_of(topic),
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=p, committed_offset=self.chance.randrange(99), committed_metadata="m"
                    )
                    for p in self.chance.sample(range(3), self.chance.randint(1, 2))
                ],
            )
            for topic in self.outsider.some_topics()
        ]
        version = self.chance.choice(self.begun)
        self._ask(
            TxnOffsetCommitRequest(transactional_id=self.id, group_id=self.outsider.group, topics=topics, **who),
            version,
        )
        if self.chance.random() < 0.4:
            self.end()

    def end(self) -> None:
        """End the open transaction, if any, and wait for its markers."""
        if self.begun is None:
            return
        version = 5 if self.begun is NEW else 3
        self._ask(EndTxnRequest(transactional_id=self.id, committed=self.chance.random() < 0.6), version)
        self.begun = None
        eventually(lambda: self._state() not in UNDER_WAY, "the markers are never written")

    def _init(self) -> None:
        self.both.theirs.ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.id]), 4)
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        self.both.theirs.eventually_serves(request, 4)
        self.both.ours_alone(request, 4)
        self._ask(request, 4)
        self.is_initialized = True

    def _ask(self, message: Any, version: int) -> None:
        self.both.ask("producer", message, version)

    def _state(self) -> str:
        described = self.both.theirs.ask(DescribeTransactionsRequest(transactional_ids=[self.id]), 0)
        state: str = described.transaction_states[0].transaction_state
        return state
