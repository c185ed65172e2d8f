"""Member of a consumer group: its persisted state, its session, its heartbeat.

The rules: protocol/consumer-groups.md#members-and-epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kohort.coordinator.classic.member import Presence
from kohort.coordinator.consumer.reconcile import NEW_MEMBER, CurrentAssignment, OwnedPartitions, Target
from kohort.coordinator.journal import ClientIdentity
from kohort.coordinator.outcome import GroupRequest
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata


def identity_of(member_id: str, metadata: ConsumerMetadata) -> ClientIdentity:
    is_classic = metadata.classic_member_metadata is not None
    return ClientIdentity(member_id, metadata.client_id, metadata.client_host, metadata.instance_id, is_classic)


@dataclass(slots=True)
class ConsumerMember:
    """Persisted metadata and assignment of a consumer group member; only replay changes them."""

    member_id: str
    metadata: ConsumerMetadata
    current: CurrentAssignment = NEW_MEMBER

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def is_classic(self) -> bool:
        """Return True if this consumer group member uses the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def identity(self) -> ClientIdentity:
        return identity_of(self.member_id, self.metadata)


class Arrival(NamedTuple):
    """Sender of a request to a consumer group, with its persisted state before the request."""

    member_id: str
    metadata: ConsumerMetadata | None
    """Persisted metadata of the sender; None for a new member."""
    current: CurrentAssignment
    target: Target | None
    replaces: ConsumerMember | None = None
    """Static member that the sender replaces. The two may have the same member id or different member ids."""


class Beat(NamedTuple):
    """Heartbeat or JoinGroup to a consumer group: its sender's previous state, new metadata and owned partitions."""

    arrival: Arrival
    metadata: ConsumerMetadata
    owned: OwnedPartitions | None
    """Partitions that the member reports as owned; None if the request does not report them."""
    member: ClientIdentity
    software: str | None
    """Name and version of the client software; None if the member neither joins nor changes its metadata."""


def beat_of(arrival: Arrival, metadata: ConsumerMetadata, owned: OwnedPartitions | None, request: GroupRequest) -> Beat:
    is_changed = metadata is not arrival.metadata or arrival.replaces is not None
    who = identity_of(arrival.member_id, metadata)
    return Beat(arrival, metadata, owned, who, request.software if is_changed else None)


@dataclass(slots=True, kw_only=True)
class ConsumerPresence(Presence):
    """Session and deadlines of a consumer group member."""

    rejoin_by_ms: int | None = None
    """Time in ms by which a classic member must send JoinGroup; the first REBALANCE_IN_PROGRESS response sets it."""

    def note_commit(self, _connection: int, now_ms: int) -> None:
        """Record the time of a member's commit. Unlike in classic groups, a commit does not renew the session."""
        self.commits += 1
        self.last_commit_ms = now_ms
