"""Member of a consumer group: its persisted state, its session, and its heartbeat.

The rules: protocol/consumer-groups.md#members-and-epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kohort.clock import Rng
from kohort.coordinator.classic.member import Presence
from kohort.coordinator.consumer.reconcile import NEW_MEMBER, CurrentAssignment, OwnedPartitions, Target
from kohort.coordinator.journal import Who
from kohort.coordinator.outcome import GroupRequest
from kohort.model import uuid_to_text
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata


def who_of(member_id: str, metadata: ConsumerMetadata) -> Who:
    is_classic = metadata.classic_member_metadata is not None
    return Who(member_id, metadata.client_id, metadata.client_host, metadata.instance_id, is_classic)


@dataclass(slots=True)
class ConsumerMember:
    """Latest persisted metadata and assignment of a member; replay alone changes them."""

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
        """True for a member of the classic protocol."""
        return self.metadata.classic_member_metadata is not None

    @property
    def who(self) -> Who:
        return who_of(self.member_id, self.metadata)


class Arrival(NamedTuple):
    """Persisted state of a request's sender, before the request."""

    member_id: str
    metadata: ConsumerMetadata | None
    """None for a new member."""
    current: CurrentAssignment
    target: Target | None
    replaces: ConsumerMember | None = None
    """Static member that it replaces, maybe under the same id."""


class Beat(NamedTuple):
    """Heartbeat or JoinGroup: previous member state, updated metadata, owned partitions."""

    arrival: Arrival
    metadata: ConsumerMetadata
    owned: OwnedPartitions | None
    """Owned partitions in the request; None if not reported."""
    who: Who
    software: str | None
    """Name and version of the client, for the journal, if the request changes the member."""


def beat_of(arrival: Arrival, metadata: ConsumerMetadata, owned: OwnedPartitions | None, request: GroupRequest) -> Beat:
    is_changed = metadata is not arrival.metadata or arrival.replaces is not None
    who = who_of(arrival.member_id, metadata)
    return Beat(arrival, metadata, owned, who, request.software if is_changed else None)


def new_member_id(rng: Rng) -> str:
    """Return a random UUID in Kafka's text form, which never begins with '-'."""
    while True:
        bits = (rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48)) | (4 << 76) | (2 << 62)
        member_id = uuid_to_text(bits.to_bytes(16))
        if not member_id.startswith("-"):
            return member_id


@dataclass(slots=True, kw_only=True)
class ConsumerPresence(Presence):
    """Session and deadlines of a consumer group's member."""

    rejoin_by_ms: int | None = None
    """Deadline of a classic member's JoinGroup, from the first REBALANCE_IN_PROGRESS on."""

    def note_commit(self, _connection: int, now_ms: int) -> None:
        """Note a commit; unlike a heartbeat it does not renew the session."""
        self.commits += 1
        self.last_commit_ms = now_ms
