"""What consumers hide in JoinGroup and SyncGroup: Subscription and Assignment."""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int32, string


class TopicPartition(Message):
    topic: str = string("1+")
    partitions: list[int] = array(int32(), "1+")


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    """ConsumerProtocolSubscription, as Kafka declares it."""

    topics: list[str] = array(string())
    user_data: bytes | None = data(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    """ConsumerProtocolAssignment, as Kafka declares it."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = data(nullable="0+", default=None)
