"""Build the group state of a consumer with a ``group.id``: membership, rebalances, commits, committed offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from kohort.assignors.builtin import assignors_named, is_cooperative
from kohort.client.group.commits import Commits
from kohort.client.group.committed import CommittedOffsets
from kohort.client.group.membership import Membership, Rebalancing
from kohort.client.group.membership_classic import ClassicMembership
from kohort.client.group.membership_consumer import ConsumerMembership
from kohort.client.group.rebalance_classic import ClassicRebalance
from kohort.client.group.reconciliation import Reconciliation
from kohort.client.reading.context import ConsumerContext
from kohort.client.reading.subscription import PartitionState
from kohort.client.requests.find_coordinator import CoordinatorKey, CoordinatorLookup
from kohort.client.requests.source import Promise, RequestSource
from kohort.model import OffsetAndMetadata, TopicPartition


class Group(NamedTuple):
    membership: Membership
    rebalance: Rebalancing
    commits: Commits
    committed: CommittedOffsets
    lookup: CoordinatorLookup

    @property
    def sources(self) -> list[RequestSource]:
        return [self.membership, self.commits, self.committed, self.lookup]


def group_of(context: ConsumerContext, no_offset: Callable[[TopicPartition, PartitionState], None]) -> Group:
    """Build a consumer's membership, rebalance and commits.

    ``no_offset`` is called for each partition without a committed offset.
    """
    config = context.config
    assert config.group_id is not None
    key = CoordinatorKey(config.group_id)
    lookup = CoordinatorLookup(key, config, context.metadata, context.rng, context.failures.append, context.outages)

    def commit_before_revocation(
        partitions: Collection[TopicPartition], deadline_ms: int | None
    ) -> Promise[dict[TopicPartition, OffsetAndMetadata]]:
        return commits.commit_positions(partitions, deadline_ms, before_revocation=True)

    commit_positions = commit_before_revocation if config.enable_auto_commit else None
    limit_ms = config.max_poll_interval_ms
    membership: Membership
    rebalance: Rebalancing
    if config.group_protocol == "consumer":
        membership = ConsumerMembership(context, lookup)
        rebalance = Reconciliation(membership, context.subscription, limit_ms, commit_positions)
    else:
        assignors = assignors_named(config.partition_assignment_strategy)
        membership = ClassicMembership(context, lookup, assignors)
        cooperative = is_cooperative(assignors)
        rebalance = ClassicRebalance(
            membership, context.subscription, limit_ms, commit_positions, cooperative=cooperative
        )
    commits = Commits(context, lookup, membership)
    return Group(membership, rebalance, commits, CommittedOffsets(context, lookup, membership, no_offset), lookup)
