"""What only a consumer with a ``group.id`` has, put together: membership, rebalances, commits, committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from kohort.assignors.builtin import assignors_named, is_cooperative
from kohort.client.group.callbacks import Rebalancing
from kohort.client.group.commits import Commits
from kohort.client.group.committed import CommittedOffsets
from kohort.client.group.membership import Membership
from kohort.client.group.membership_classic import ClassicMembership
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.group.protocol_choice import ChosenRebalance, GroupProtocol, ProtocolChoice
from kohort.client.group.rebalance_classic import ClassicRebalance
from kohort.client.group.reconciliation import Reconciliation
from kohort.client.reading.context import ConsumerContext
from kohort.client.reading.positions import PartitionState
from kohort.client.requests.find_coordinator import CoordinatorKey, CoordinatorLookup
from kohort.client.requests.promise import Promise
from kohort.client.requests.source import RequestSource
from kohort.model import OffsetAndMetadata, TopicPartition


class Group(NamedTuple):
    """Of one consumer."""

    membership: Membership
    rebalance: Rebalancing
    commits: Commits
    committed: CommittedOffsets
    lookup: CoordinatorLookup

    @property
    def sources(self) -> list[RequestSource]:
        return [self.membership, self.commits, self.committed, self.lookup]


def group_of(context: ConsumerContext, no_offset: Callable[[TopicPartition, PartitionState], None]) -> Group:
    """Put together what a consumer with a group needs; ``no_offset`` is told of partitions where nothing is
    committed."""
    config = context.config
    assert config.group_id is not None
    key = CoordinatorKey(config.group_id)
    lookup = CoordinatorLookup(key, config, context.metadata, context.rng, context.failures.append, context.troubles)
    parts = _Parts(context, lookup)
    if config.group_protocol == "auto":
        choice = ProtocolChoice(context, lookup, parts.classic, parts.consumer)
        protocol = GroupProtocol(choice, ChosenRebalance(choice, context.subscription))
    else:
        protocol = parts.consumer() if config.group_protocol == "consumer" else parts.classic()
    parts.commits = Commits(context, lookup, protocol.membership)
    committed = CommittedOffsets(context, lookup, protocol.membership, no_offset)
    return Group(*protocol, parts.commits, committed, lookup)


class _Parts:
    """Makes the membership of either protocol. ``commits`` is there before any of them is used."""

    def __init__(self, context: ConsumerContext, lookup: CoordinatorLookup) -> None:
        self.commits: Commits | None = None
        self._context = context
        self._lookup = lookup

    def classic(self) -> GroupProtocol:
        context, config = self._context, self._context.config
        assignors = assignors_named(config.partition_assignment_strategy)
        membership = ClassicMembership(context, self._lookup, assignors)
        rebalance = ClassicRebalance(
            membership,
            context.subscription,
            cooperative=is_cooperative(assignors),
            commit_timeout_ms=config.max_poll_interval_ms,
            commit_positions=self._commit_before_revocation if config.enable_auto_commit else None,
        )
        return GroupProtocol(membership, rebalance)

    def consumer(self) -> GroupProtocol:
        context, config = self._context, self._context.config
        membership = ConsumerMembership(context, self._lookup)
        rebalance = Reconciliation(
            membership,
            context.subscription,
            commit_timeout_ms=config.max_poll_interval_ms,
            commit_positions=self._commit_before_revocation if config.enable_auto_commit else None,
        )
        return GroupProtocol(membership, rebalance)

    def _commit_before_revocation(
        self, partitions: Collection[TopicPartition], deadline_ms: int | None
    ) -> Promise[dict[TopicPartition, OffsetAndMetadata]]:
        assert self.commits is not None, "the group is put together"
        return self.commits.commit_positions(partitions, deadline_ms, before_revocation=True)
