"""Keys and values in __consumer_offsets of consumer groups (KIP-848; protocol/consumer-groups.md#records).

An int16 precedes each key (the record type) and each value (its version, 0); it is not in these messages. Tags: the
metadata hash since 4.1 (KIP-1101), epochs of assigned partitions (KIP-1251) and target time (KIP-1263) since 4.3.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int8, int32, int64, string, struct, uuid


class ConsumerGroupMetadataKey(Message, versions="0", flexible="none"):
    """Type 3: a consumer group."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """Group epoch, and the hash of the subscribed topics' metadata."""

    epoch: int = int32()
    metadata_hash: int = int64("0+", ignorable=True, tag=0)


class ConsumerGroupPartitionMetadataKey(Message, versions="0", flexible="none"):
    """Type 4: topic metadata of a group, before 4.1; since then only tombstones are written."""

    group_id: str = string()


class ConsumerGroupMemberMetadataKey(Message, versions="0", flexible="none"):
    """Type 5: a member of a consumer group."""

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Message):
    name: str = string()
    metadata: bytes = data()


class ClassicMemberMetadata(Message):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """Metadata of a member, and of its classic protocol if it uses that."""

    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string())
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+", default=None)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", default=None, tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="0", flexible="none"):
    """Type 6: the target assignment of a group."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """Group epoch of the target assignment, and its time (ms since 1970; 0: never computed)."""

    assignment_epoch: int = int32()
    assignment_timestamp: int = int64("0+", ignorable=True, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="0", flexible="none"):
    """Type 7: the target assignment of one member."""

    group_id: str = string()
    member_id: str = string()


class TargetTopicPartition(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[TargetTopicPartition] = array(TargetTopicPartition)


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="0", flexible="none"):
    """Type 8: the current assignment of one member."""

    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Message):
    topic_id: bytes = uuid()
    partitions: list[int] = array(int32())
    assignment_epochs: list[int] | None = array(int32(), "0+", nullable="0+", default=None, ignorable=True, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """Assigned and revoked partitions of a member, its epochs and reconciliation state."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


class ConsumerGroupRegularExpressionKey(Message, versions="0", flexible="none"):
    """Type 16: a subscription pattern of a group."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """Matched topics, the version of the metadata, and the time (ms since 1970)."""

    topics: list[str] = array(string())
    version: int = int64()
    timestamp: int = int64()
