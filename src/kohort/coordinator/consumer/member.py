"""A member of a consumer group: what is written of it, and what is known of it beside.

The rules: protocol/consumer-groups.md#members-and-epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kohort.clock import Rng
from kohort.coordinator.classic.member import Presence
from kohort.coordinator.consumer.reconcile import NEW_MEMBER, Current, Owned, Target
from kohort.coordinator.journal import Who
from kohort.coordinator.outcome import GroupRequest
from kohort.model import uuid_to_text
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue


def who_says(member_id: str, said: ConsumerGroupMemberMetadataValue) -> Who:
    """Return a member that says ``said`` as the journal knows it."""
    is_classic = said.classic_member_metadata is not None
    return Who(member_id, said.client_id, said.client_host, said.instance_id, is_classic)


@dataclass(slots=True)
class ConsumerMember:
    """``said`` and ``current`` are the latest records of the member, and changed by replay alone."""

    member_id: str
    said: ConsumerGroupMemberMetadataValue
    current: Current = NEW_MEMBER

    @property
    def epoch(self) -> int:
        return self.current.epoch

    @property
    def instance_id(self) -> str | None:
        return self.said.instance_id

    @property
    def speaks_classic(self) -> bool:
        """Whether it is a member of the classic protocol in a group of both."""
        return self.said.classic_member_metadata is not None

    @property
    def who(self) -> Who:
        return who_says(self.member_id, self.said)


class Arrival(NamedTuple):
    """Sender of a request, as persisted before it."""

    member_id: str
    said: ConsumerGroupMemberMetadataValue | None
    """None: a new member."""
    current: Current
    target: Target | None
    replaces: ConsumerMember | None = None
    """Static member whose place it takes, maybe under the same id."""


class Beat(NamedTuple):
    """One heartbeat or JoinGroup: the member before it, its metadata after it, and its owned partitions."""

    arrival: Arrival
    said: ConsumerGroupMemberMetadataValue
    owned: Owned | None
    """None: not reported."""
    who: Who
    software: str | None
    """Name and version of the client, for the journal, where the request changes the member."""


def beat_of(
    arrival: Arrival, said: ConsumerGroupMemberMetadataValue, owned: Owned | None, request: GroupRequest
) -> Beat:
    is_changed = said is not arrival.said or arrival.replaces is not None
    who = who_says(arrival.member_id, said)
    return Beat(arrival, said, owned, who, request.software if is_changed else None)


def new_member_id(rng: Rng) -> str:
    """Return an id for a member that brings none: Kafka's text form of a random UUID, which never begins with '-'."""
    while True:
        bits = (rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48)) | (4 << 76) | (2 << 62)
        member_id = uuid_to_text(bits.to_bytes(16))
        if not member_id.startswith("-"):
            return member_id


@dataclass(slots=True, kw_only=True)
class ConsumerPresence(Presence):
    """Signs of life of a member of a consumer group."""

    rejoin_by_ms: int | None = None
    """Deadline of a classic member's JoinGroup, from the first REBALANCE_IN_PROGRESS on."""

    def note_commit(self, _connection: int, now_ms: int) -> None:
        """Note a commit. It does not renew the session: heartbeats alone say that a member lives."""
        self.commits += 1
        self.last_commit_ms = now_ms
