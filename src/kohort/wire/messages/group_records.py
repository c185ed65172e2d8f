"""Keys and values in __consumer_offsets of classic groups (protocol/groups.md#records-of-groups).

An int16 precedes each key (the record type) and each value (its version); it is not in these messages.
OffsetCommitValue 1: only for commits with an expiry time. 3: leader epoch. 4: flexible, with the topic id as a tag.
GroupMetadataValue 1: rebalance timeout. 2: time of the last state change. 3: static members; the version written.
4: flexible, only read.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int32, int64, string, uuid


class OffsetCommitKey(Message, versions="0", flexible="none"):
    """Type 1: an offset of a group for a partition. Type 0 has the same fields."""

    group: str = string("0")
    topic: str = string("0")
    partition: int = int32("0")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """Committed offset; its tombstone has no value."""

    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: bytes = uuid("4+", ignorable=True, tag=0)


class GroupMetadataKey(Message, versions="0", flexible="none"):
    """Type 2: a classic group."""

    group: str = string("0")


class MemberMetadata(Message):
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32("1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = data()
    assignment: bytes = data()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """Generation and members of a group; its tombstone has no value."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
