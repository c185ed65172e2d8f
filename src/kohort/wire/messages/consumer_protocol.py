"""What consumers tell each other inside JoinGroup and SyncGroup: Subscription and Assignment.

Subscription
- 1: the partitions that the member still owns (KIP-429, cooperative rebalancing).
- 2: the generation in which it owned them. 3: its rack (KIP-881).

Assignment has four versions and one form. Neither blob was ever flexible.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int32, string


class TopicPartition(Message):
    topic: str = string()
    partitions: list[int] = array(int32())


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    """What a member wants and owns."""

    topics: list[str] = array(string())
    user_data: bytes | None = data(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    """What a member is given."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = data(nullable="0+", default=None)
